//! Many providers, made quickly, and what is asked of them.

use std::time::Duration;

use butler_api::butler::provider_config::ProviderConfig;
use butler_testkit::eventually_all;
use futures::{StreamExt, stream};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

/// How long a fleet may take to come to rest on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
/// What this test is to the API server.
pub(crate) const USER_AGENT: &str = "platform-engineer";
/// What the controllers are to the API server.
pub(crate) const CONTROLLER: &str = "butler-controller/";

const AT_ONCE: usize = 8;

/// Creates providers of the machine they stand on.
pub(crate) async fn create(providers: &Api<ProviderConfig>, count: usize) {
    stream::iter(0..count)
        .for_each_concurrent(AT_ONCE, async |number| {
            let provider: ProviderConfig = serde_json::from_value(json!({
                "apiVersion": "butler.butlerlabs.dev/v1alpha1",
                "kind": "ProviderConfig",
                "metadata": { "name": format!("provider-{number:03}") },
                "spec": { "provider": "local", "limits": { "maxClustersPerTeam": 3 } },
            }))
            .unwrap();
            providers
                .create(&PostParams::default(), &provider)
                .await
                .unwrap();
        })
        .await;
}

/// Changes every provider once.
pub(crate) async fn change(providers: &Api<ProviderConfig>, count: usize) {
    stream::iter(0..count)
        .for_each_concurrent(AT_ONCE, async |number| {
            let patch = Patch::Merge(json!({ "spec": { "limits": { "maxClustersPerTeam": 4 } } }));
            let name = format!("provider-{number:03}");
            providers
                .patch(&name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        })
        .await;
}

/// Whether the status speaks of the present spec and says that the provider is ready.
pub(crate) fn is_settled(provider: &ProviderConfig) -> bool {
    let observed = provider
        .status
        .as_ref()
        .filter(|status| status.ready == Some(true));
    observed.is_some_and(|status| status.observed_generation == provider.metadata.generation)
}

/// Waits until all providers are settled.
pub(crate) async fn settled(providers: &Api<ProviderConfig>, count: usize) {
    eventually_all(
        providers,
        "",
        "every provider is ready and observed",
        PATIENCE,
        |found| found.len() == count && found.iter().all(is_settled),
    )
    .await;
}

//! What a dashboard sees of providers.

use butler_api::butler::provider_config::ProviderConfig;
use butler_runtime::object::ObjectKey;
use butler_testkit::{eventually, eventually_gone};
use kube::{Api, api::DeleteParams};
use serde_json::json;
use tokio::time::{Instant, interval};

use crate::{
    platform::{PATIENCE, Platform, create},
    scene,
};

/// The series of a provider, in the words of the metrics endpoint.
fn series<'a>(text: &'a str, namespace: &str) -> Vec<&'a str> {
    text.lines()
        .filter(|line| line.contains(&format!("namespace=\"{namespace}\"")))
        .collect()
}

/// The caches of the controllers may be a moment behind what the test has seen.
async fn until(platform: &Platform, holds: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    let mut ticks = interval(std::time::Duration::from_millis(20));
    loop {
        let text = platform.metrics.encode().unwrap();
        if holds(&text) {
            return text;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}");
        ticks.tick().await;
    }
}

#[tokio::test]
async fn the_series_of_a_provider_come_and_go_with_it() {
    let platform = Platform::shared().await;
    let place = platform.server.namespace("numbers").await;
    let providers: Api<ProviderConfig> = place.api(platform.client());
    let local = ObjectKey::namespaced(place.name(), "local");
    create(
        &providers,
        scene::provider(&local, json!({ "provider": "local" })),
    )
    .await;
    let broken = ObjectKey::namespaced(place.name(), "broken");
    create(&providers, scene::provider_with_login(&broken)).await;
    eventually(&providers, "local", "is ready", PATIENCE, |found| {
        found
            .and_then(|provider| provider.status.as_ref())
            .is_some_and(|status| status.ready == Some(true))
    })
    .await;

    let line = |name: &str, kind: &str, value: i32| {
        let namespace = place.name();
        format!(
            "butler_provider_config_ready{{provider=\"{name}\",namespace=\"{namespace}\",type=\"{kind}\",scope=\"platform\"}} {value}"
        )
    };
    let wanted = [line("local", "local", 1), line("broken", "nutanix", 0)];
    until(platform, |text| {
        wanted
            .iter()
            .all(|line| series(text, place.name()).contains(&line.as_str()))
    })
    .await;

    for name in ["local", "broken"] {
        providers
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        eventually_gone(&providers, name, PATIENCE).await;
    }
    let text = until(platform, |text| series(text, place.name()).is_empty()).await;
    assert!(
        text.contains("# HELP butler_provider_config_ready"),
        "{text}"
    );
}

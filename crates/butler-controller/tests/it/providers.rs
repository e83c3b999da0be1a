//! What a platform engineer sees of providers, on a real API server.

use butler_api::{
    butler::{provider_config::ProviderConfig, tenant_cluster::TenantCluster},
    conditions::{reasons, types},
    keys::annotations,
};
use butler_controller::run::COMPONENT;
use butler_runtime::object::ObjectKey;
use butler_testkit::{TestNamespace, eventually, eventually_gone};
use k8s_openapi::{
    api::{core::v1::Secret, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    platform::{PATIENCE, Platform, create},
    scene,
};

const RACK: &str = "rack";

/// A namespace and what one does in it.
struct Place {
    platform: &'static Platform,
    namespace: TestNamespace,
    providers: Api<ProviderConfig>,
    secrets: Api<Secret>,
}

impl Place {
    async fn new(prefix: &str) -> Self {
        let platform = Platform::shared().await;
        let namespace = platform.server.namespace(prefix).await;
        let client = platform.client();
        Self {
            platform,
            providers: namespace.api(client.clone()),
            secrets: namespace.api(client),
            namespace,
        }
    }

    fn rack(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.name(), RACK)
    }

    async fn until(&self, what: &str, holds: impl Fn(&ProviderConfig) -> bool) -> ProviderConfig {
        eventually(&self.providers, RACK, what, PATIENCE, |found| {
            found.is_some_and(&holds)
        })
        .await
    }

    async fn until_ready(&self, wanted: bool) -> ProviderConfig {
        let ready = |provider: &ProviderConfig| {
            provider.status.as_ref().and_then(|status| status.ready) == Some(wanted)
        };
        self.until(if wanted { "is ready" } else { "is not ready" }, ready)
            .await
    }

    async fn change(&self, patch: Value) -> ProviderConfig {
        self.providers
            .patch(RACK, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap()
    }

    async fn warnings(&self) -> Vec<Event> {
        let events = self.namespace.api::<Event>(self.platform.client());
        let found = events
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .into_iter();
        found
            .filter(|event| event.type_.as_deref() == Some("Warning"))
            .collect()
    }
}

fn condition(provider: &ProviderConfig, type_: &str) -> Option<Condition> {
    let status = provider.status.as_ref()?;
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .cloned()
}

#[tokio::test]
async fn a_provider_made_before_its_secret_becomes_ready_when_the_secret_arrives() {
    let place = Place::new("early").await;
    create(&place.providers, scene::provider_with_login(&place.rack())).await;
    let waiting = place.until_ready(false).await;
    let ready = condition(&waiting, types::READY).unwrap();
    assert_eq!(ready.reason, reasons::CREDENTIALS_INVALID);
    assert!(
        ready.message.contains("does not exist; create it"),
        "{}",
        ready.message
    );

    create(
        &place.secrets,
        scene::login(place.namespace.name(), "hunter2"),
    )
    .await;
    let ready = place.until_ready(true).await;
    assert_eq!(ready.status.unwrap().validated, Some(true));

    // Further passes do not read the Secret again.
    let changed = place
        .change(json!({ "spec": { "limits": { "maxClustersPerTeam": 3 } } }))
        .await;
    place
        .until("the change is observed", |provider| {
            observed(provider, &changed)
        })
        .await;
    let looks = place
        .platform
        .server
        .audit()
        .all()
        .by_user_agent(COMPONENT)
        .for_resource("secrets");
    let looks = looks
        .in_namespace(place.namespace.name())
        .with_verbs(&["get"]);
    assert_eq!(looks.count(), 1, "{looks}");
}

/// Whether the status speaks of this version of the spec.
fn observed(provider: &ProviderConfig, changed: &ProviderConfig) -> bool {
    provider
        .status
        .as_ref()
        .is_some_and(|status| status.observed_generation == changed.metadata.generation)
}

#[tokio::test]
async fn a_bad_secret_is_told_once_however_often_we_look() {
    let place = Place::new("bad").await;
    create(&place.secrets, scene::login(place.namespace.name(), "")).await;
    create(&place.providers, scene::provider_with_login(&place.rack())).await;
    let bad = place.until_ready(false).await;
    let message = condition(&bad, types::CREDENTIALS_VALID).unwrap().message;
    assert!(
        message.ends_with("login: key password is empty; correct it"),
        "{message}"
    );

    for limit in 1..=5 {
        let changed = place
            .change(json!({ "spec": { "limits": { "maxClustersPerTeam": limit } } }))
            .await;
        place
            .until("the change is observed", |provider| {
                observed(provider, &changed)
            })
            .await;
    }
    let warnings = place.warnings().await;
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert_eq!(
        warnings[0].reason.as_deref(),
        Some(reasons::CREDENTIALS_INVALID)
    );
    assert_eq!(warnings[0].note.as_deref(), Some(message.as_str()));
    assert_eq!(warnings[0].series, None);

    let password = json!({ "stringData": { "password": "hunter2" } });
    place
        .secrets
        .patch("login", &PatchParams::default(), &Patch::Merge(password))
        .await
        .unwrap();
    let good = place.until_ready(true).await;
    let everything = format!("{good:?}{warnings:?}");
    assert!(
        !everything.contains("hunter2") && !everything.contains("aHVudGVyMg"),
        "a secret value got out"
    );
}

#[tokio::test]
async fn a_provider_in_use_is_kept_until_its_cluster_is_gone() {
    let place = Place::new("used").await;
    let clusters = place
        .namespace
        .api::<TenantCluster>(place.platform.client());
    create(
        &place.providers,
        scene::provider(&place.rack(), json!({ "provider": "local" })),
    )
    .await;
    let shop = ObjectKey::namespaced(place.namespace.name(), "shop");
    create(&clusters, scene::cluster(&shop, Some(&place.rack()), 1)).await;
    let limited = place
        .change(json!({ "spec": { "limits": { "maxClustersPerTeam": 1 } } }))
        .await;
    place
        .until("the limit is observed", |provider| {
            observed(provider, &limited)
        })
        .await;

    place
        .providers
        .delete(RACK, &DeleteParams::default())
        .await
        .unwrap();
    let held = place
        .until("says what it waits for", |provider| {
            condition(provider, types::READY)
                .is_some_and(|ready| ready.reason == reasons::DELETION_BLOCKED)
        })
        .await;
    assert!(
        condition(&held, types::READY)
            .unwrap()
            .message
            .contains(&shop.to_string())
    );

    clusters
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&place.providers, RACK, PATIENCE).await;
}

fn is_paused(provider: &ProviderConfig) -> bool {
    condition(provider, types::PAUSED).is_some_and(|paused| paused.status == "True")
}

#[tokio::test]
async fn a_paused_provider_is_left_alone_until_it_goes_on() {
    let place = Place::new("paused").await;
    let mut manifest = scene::provider(&place.rack(), json!({ "provider": "local" }));
    manifest["metadata"]["annotations"] = json!({ annotations::PAUSED: "true" });
    create(&place.providers, manifest).await;
    let paused = place.until("says that it is paused", is_paused).await;
    assert_eq!(condition(&paused, types::READY), None);
    assert!(paused.finalizers().is_empty());

    place
        .change(json!({ "metadata": { "annotations": { annotations::PAUSED: null } } }))
        .await;
    let ready = place.until_ready(true).await;
    assert!(!is_paused(&ready));
    assert_eq!(ready.finalizers().len(), 1);

    // Paused again: a change of the spec is not taken up.
    place
        .change(json!({ "metadata": { "annotations": { annotations::PAUSED: "true" } } }))
        .await;
    place.until("says that it is paused", is_paused).await;
    let changed = place
        .change(json!({ "spec": { "limits": { "maxClustersPerTeam": 1 } } }))
        .await;
    let told = place
        .until("says that this generation is paused", |provider| {
            let paused = condition(provider, types::PAUSED);
            paused.is_some_and(|paused| paused.observed_generation == changed.metadata.generation)
        })
        .await;
    assert!(!observed(&told, &changed), "the spec is not observed");
    assert_eq!(condition(&told, types::QUOTA_SATISFIED), None);
    assert_eq!(
        told.status.unwrap().ready,
        Some(true),
        "what was known stays"
    );
}

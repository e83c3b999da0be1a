//! What the stories share: helm, the charts and sets of values.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use butler_assets::{Asset, Component, Resolver, Settings};
use butler_helm::{ChartSource, Helm, Release, ReleaseName, Values};
use butler_testkit::ApiServer;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use kube::{Api, Client, core::GroupVersionKind, discovery};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// Where Butler lives.
pub(crate) const SYSTEM: &str = "butler-system";

/// A helm with a home of its own, which goes with it.
pub(crate) struct Workshop {
    pub(crate) helm: Helm,
    _home: TempDir,
}

impl Workshop {
    /// For a server.
    pub(crate) async fn on(server: &ApiServer) -> Self {
        Self::with(server.kubeconfig().to_owned()).await
    }

    /// For no server at all.
    pub(crate) async fn offline() -> Self {
        Self::with(PathBuf::from("/nonexistent/kubeconfig")).await
    }

    /// For the cluster of a kubeconfig.
    pub(crate) async fn with(kubeconfig: PathBuf) -> Self {
        let settings = Settings::from_env().unwrap();
        let helm = Resolver::new(settings)
            .resolve(&Asset::default_of(Component::Helm))
            .await
            .unwrap();
        let home = tempfile::tempdir().unwrap();
        let helm = Helm::new(helm, home.path().join("helm"), kubeconfig);
        Self { helm, _home: home }
    }
}

pub(crate) fn name(namespace: &str, name: &str) -> ReleaseName {
    ReleaseName::new(namespace.parse().unwrap(), name.parse().unwrap())
}

/// One of Butler's own charts.
pub(crate) fn ours(chart: &str, values: Value) -> Release {
    Release {
        name: name(SYSTEM, chart),
        chart: ChartSource::Path(repository().join("charts").join(chart)),
        values: Values::from(values),
    }
}

/// The chart of the tests.
pub(crate) fn story(namespace: &str, values: Value) -> Release {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    Release {
        name: name(namespace, "story"),
        chart: ChartSource::Path(tests.join("charts/story")),
        values: Values::from(values),
    }
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The ways in which people install Butler.
pub(crate) fn value_sets() -> [(&'static str, Value); 5] {
    let spread = json!([{
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
    }]);
    [
        ("default", json!({})),
        (
            "without_webhooks_and_metrics",
            json!({ "webhooks": { "enabled": false }, "metrics": { "enabled": false } }),
        ),
        (
            "local",
            json!({
                "local": { "enabled": true },
                "controller": { "replicas": 1 },
                "steward": { "replicas": 1, "ownTunnel": true },
                "tolerations": [{ "operator": "Exists" }],
            }),
        ),
        (
            "two_providers",
            json!({ "providers": {
                "harvester": {},
                "proxmox": { "replicas": 2, "extraArgs": ["--one=1"], "resources": {} },
                "nutanix": { "enabled": false },
            } }),
        ),
        (
            "high_availability",
            json!({
                "image": { "digest": format!("sha256:{}", "0".repeat(64)), "pullPolicy": "Always" },
                "imagePullSecrets": [{ "name": "registry" }],
                "priorityClassName": "system-cluster-critical",
                "nodeSelector": { "node-role.kubernetes.io/control-plane": "" },
                "networkPolicy": { "metricsFrom": [{ "namespaceSelector": { "matchLabels": { "name": "monitoring" } } }] },
                "controller": {
                    "replicas": 3,
                    "topologySpreadConstraints": spread,
                    "podAnnotations": { "example.com/owner": "platform" },
                },
            }),
        ),
    ]
}

/// The objects of a manifest.
pub(crate) fn objects(manifest: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(manifest).unwrap()
}

/// What an object is called.
pub(crate) fn title(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or("?");
    let name = text("/metadata/name").unwrap_or("?");
    format!("{kind} {name}")
}

/// The namespace as careful people make it: only pods that can harm nobody may run.
pub(crate) async fn restricted_namespace(client: &Client) {
    let namespace: Namespace = serde_json::from_value(json!({
        "metadata": {
            "name": SYSTEM,
            "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
        },
    }))
    .unwrap();
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
}

/// That the API server would take an object exactly as it is written.
pub(crate) async fn accept(client: &Client, object: Value) {
    let titled = title(&object);
    let mut parameters = PatchParams::apply("strict").validation(ValidationDirective::Strict);
    parameters.dry_run = true;
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let (resource, capabilities) = discovery::pinned_kind(client, &kind).await.unwrap();
    let api: Api<DynamicObject> = match capabilities.scope {
        discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
        discovery::Scope::Namespaced => Api::namespaced_with(client.clone(), SYSTEM, &resource),
    };
    let name = object.metadata.name.clone().unwrap();
    let applied = api.patch(&name, &parameters, &Patch::Apply(&object)).await;
    applied.unwrap_or_else(|error| panic!("{titled}: {error}"));
}

/// The objects of one of our charts by their titles; each exists once.
pub(crate) async fn rendered(
    workshop: &Workshop,
    chart: &str,
    values: Value,
) -> BTreeMap<String, Value> {
    let manifest = workshop.helm.template(&ours(chart, values)).await;
    let objects = objects(&manifest.unwrap());
    let count = objects.len();
    let by_title: BTreeMap<_, _> = objects
        .into_iter()
        .map(|object| (title(&object), object))
        .collect();
    assert_eq!(by_title.len(), count, "two objects have one name");
    by_title
}

/// Objects as snapshots show them.
pub(crate) fn shown(objects: &BTreeMap<String, Value>) -> String {
    let mut text = String::new();
    for object in objects.values() {
        let _ = writeln!(text, "---\n{}", serde_saphyr::to_string(object).unwrap());
    }
    // A release of ours does not change what the chart does.
    text.replace(env!("CARGO_PKG_VERSION"), "[version]")
}

/// What a set of values does differently from the usual.
pub(crate) fn difference(
    usual: &BTreeMap<String, Value>,
    objects: BTreeMap<String, Value>,
) -> String {
    let missing = usual.keys().filter(|title| !objects.contains_key(*title));
    let mut text = String::new();
    for title in missing {
        let _ = writeln!(text, "without {title}");
    }
    let different = objects.into_iter();
    let different = different.filter(|(title, object)| usual.get(title) != Some(object));
    text.push_str(&shown(&different.collect()));
    text
}

//! Steward, whose control planes serve at once.

use butler_api::{
    cluster_api::{
        butler_cluster::ButlerCluster, cluster::Cluster, steward_control_plane::StewardControlPlane,
    },
    keys::{labels, names, secret_keys, values},
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::object::Kind;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use steward::names::SecretRole;

use super::{Stage, condition, name_of, namespace_of, owner, text};

/// Where every API server is said to be. Nobody goes there.
const HOST: &str = "192.0.2.1";
const PORT: u16 = 6443;

/// Plays on.
pub(super) async fn play(stage: &Stage) -> anyhow::Result<()> {
    let kind = Kind::of::<StewardControlPlane>();
    Box::pin(stage.attend(kind, |control_plane| serve(stage, control_plane))).await
}

/// Runs a control plane, once Cluster API has said whose it is.
async fn serve(stage: &Stage, control_plane: Value) -> anyhow::Result<()> {
    let owners = control_plane.pointer("/metadata/ownerReferences");
    let is_owned = owners.and_then(Value::as_array).is_some_and(|owners| {
        let cluster = Kind::of::<Cluster>().kind;
        owners.iter().any(|owner| owner["kind"] == cluster)
    });
    if !is_owned || !stage.first(&control_plane, "served") {
        return Ok(());
    }
    let (kind, hosted) = (
        Kind::of::<StewardControlPlane>(),
        Kind::of::<TenantControlPlane>(),
    );
    let (namespace, name) = (namespace_of(&control_plane), name_of(&control_plane));
    let version = text(&control_plane, "/spec/version");
    make(stage, &control_plane).await?;
    let waiting = condition("Available", false, "Progressing", "its pods are starting");
    let status = json!({
        "controlPlaneEndpoint": format!("{HOST}:{PORT}"),
        "conditions": [
            condition("DataStoreReady", true, "Ready", ""),
            condition("CertificatesReady", true, "Ready", ""),
            condition("EndpointReady", true, "Ready", ""),
            waiting.clone(),
        ],
    });
    stage.tell(&hosted, namespace, name, status).await?;
    let status = json!({
        "initialization": { "controlPlaneInitialized": false },
        "conditions": [waiting],
    });
    stage.tell(&kind, namespace, name, status).await?;

    let endpoint = json!({ "spec": { "controlPlaneEndpoint": { "host": HOST, "port": PORT } } });
    stage
        .patch(&kind, namespace, name, endpoint.clone())
        .await?;
    let infrastructure = Kind::of::<ButlerCluster>();
    stage
        .patch(&infrastructure, namespace, name, endpoint)
        .await?;

    let available = condition("Available", true, "Available", "");
    let status = json!({ "conditions": [
        condition("DataStoreReady", true, "Ready", ""),
        condition("CertificatesReady", true, "Ready", ""),
        condition("EndpointReady", true, "Ready", ""),
        available.clone(),
        condition("TenantConfigured", true, "Ready", ""),
        condition("Ready", true, "Ready", ""),
    ] });
    stage.tell(&hosted, namespace, name, status).await?;
    let status = json!({
        "initialization": { "controlPlaneInitialized": true },
        "initialized": true, "ready": true, "version": version,
        "replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "upToDateReplicas": 1,
        "versions": [{ "version": version, "replicas": 1 }],
        "conditions": [available],
    });
    stage.tell(&kind, namespace, name, status).await
}

/// Makes what a control plane consists of, as far as Butler's controller sees any of it.
async fn make(stage: &Stage, control_plane: &Value) -> anyhow::Result<()> {
    let (namespace, name) = (namespace_of(control_plane), name_of(control_plane));
    let hosted = json!({
        "metadata": {
            "name": name,
            "ownerReferences": [owner(&Kind::of::<StewardControlPlane>(), control_plane)],
        },
        "spec": {
            "controlPlane": { "service": { "serviceType": "LoadBalancer" } },
            "kubernetes": { "version": text(control_plane, "/spec/version"), "kubelet": {} },
        },
    });
    stage
        .create(&Kind::of::<TenantControlPlane>(), namespace, hosted)
        .await?;
    let kind = &Kind::of::<Secret>();
    let secret = |suffix: String, type_: &str, label: (&str, &str)| {
        let (key, value) = label;
        let body = json!({
            "metadata": {
                "name": format!("{name}{suffix}"),
                "labels": {
                    labels::STEWARD_PROJECT: values::STEWARD_PROJECT,
                    labels::STEWARD_NAME: name,
                    key: value,
                },
            },
            "type": type_,
            "stringData": { secret_keys::VALUE: "" },
        });
        stage.create(kind, namespace, body)
    };
    let of_steward = SecretRole::ALL.into_iter().map(|role| {
        let label = (labels::STEWARD_COMPONENT, role.as_str());
        secret(format!("-{role}"), "Opaque", label)
    });
    try_join_all(of_steward).await?;
    let label = (labels::CLUSTER_API_CLUSTER, name);
    let suffix = names::KUBECONFIG_SUFFIX.to_owned();
    secret(suffix, values::SECRET_KIND_CLUSTER_API, label).await
}

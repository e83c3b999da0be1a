//! Clusters as the API server gives them.

use butler_api::butler::tenant_cluster::TenantCluster;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn made(status: Value) -> TenantCluster {
    let mut body = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": {
            "name": "demo",
            "namespace": "butler-tenants",
            "generation": 2,
            "creationTimestamp": "2026-03-01T11:52:00Z",
            "finalizers": ["butler.butlerlabs.dev/tenantcluster"],
        },
        "spec": { "kubernetesVersion": "v1.36.3", "workers": { "replicas": 2 } },
    });
    if !status.is_null() {
        body["status"] = status;
    }
    serde_json::from_value(body).unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-03-01T11:57:00Z",
    })
}

/// A cluster nobody has looked at.
pub(super) fn new() -> TenantCluster {
    made(Value::Null)
}

/// A cluster of two workers that says this of its readiness.
pub(super) fn cluster(ready: &str) -> TenantCluster {
    let of = |type_: &str| condition(type_, "True", "Ready", "");
    made(json!({
        "observedGeneration": 2,
        "phase": "Ready",
        "controlPlaneEndpoint": "172.30.8.4:6443",
        "tenantNamespace": "demo-1a2b3c4d",
        "providerConfigRef": { "name": "local", "namespace": "butler-system" },
        "kubeconfigSecretRef": { "name": "demo-kubeconfig" },
        "workerNodesReady": 2,
        "workerNodesDesired": 2,
        "versions": { "controlPlane": "v1.36.3", "oldestWorker": "v1.36.3", "newestWorker": "v1.36.3" },
        "conditions": [
            of("NetworkReady"), of("InfrastructureReady"), of("ControlPlaneReady"), of("WorkersReady"),
            of("AddonsReady"), condition("Ready", ready, "Ready", ""),
        ],
    }))
}

/// A cluster whose second worker is not there yet.
pub(super) fn waiting_for_workers() -> TenantCluster {
    let well = |type_: &str| condition(type_, "True", "Ready", "");
    let workers = "1 of 2 workers are ready, and demo-workers-x7k2p is being made";
    let ill = |type_: &str, reason: &str, message: &str| condition(type_, "False", reason, message);
    made(json!({
        "observedGeneration": 2,
        "phase": "Provisioning",
        "controlPlaneEndpoint": "172.30.8.4:6443",
        "tenantNamespace": "demo-1a2b3c4d",
        "workerNodesReady": 1,
        "workerNodesDesired": 2,
        "conditions": [
            well("NetworkReady"), well("InfrastructureReady"), well("ControlPlaneReady"),
            ill("WorkersReady", "WorkersProvisioning", workers),
            ill("AddonsReady", "WaitingForDependencies", "the addons come when a worker is ready"),
            ill("Ready", "WorkersProvisioning", workers),
        ],
    }))
}

/// A cluster on the way to another version.
pub(super) fn upgrading() -> TenantCluster {
    let mut cluster = cluster("True");
    let status = cluster.status.as_mut().unwrap();
    status.phase = serde_json::from_value(json!("Updating")).unwrap();
    status.versions = serde_json::from_value(json!({
        "controlPlane": "v1.36.3", "oldestWorker": "v1.35.4", "newestWorker": "v1.36.3",
    }))
    .unwrap();
    cluster
}

/// A cluster that works on, and says this of a wish that cannot be.
pub(super) fn refused(type_: &str, status: &str, reason: &str, message: &str) -> TenantCluster {
    let mut cluster = cluster("True");
    let conditions = &mut cluster.status.as_mut().unwrap().conditions;
    conditions.retain(|condition| condition.type_ != type_);
    let said = condition(type_, status, reason, message);
    conditions.push(serde_json::from_value(said).unwrap());
    cluster
}

/// The same when it is only to be looked at.
pub(super) fn observed(mut cluster: TenantCluster) -> TenantCluster {
    cluster.spec.management_policy = serde_json::from_value(json!({ "mode": "Observe" })).unwrap();
    cluster
}

/// The same when it must not be deleted.
pub(super) fn protected(mut cluster: TenantCluster) -> TenantCluster {
    let annotations = cluster.metadata.annotations.get_or_insert_default();
    let key = butler_api::keys::annotations::DELETION_PROTECTION;
    annotations.insert(key.to_owned(), "true".to_owned());
    cluster
}

/// A cluster that is on its way out.
pub(super) fn deleting() -> TenantCluster {
    let mut cluster = cluster("False");
    let waits = condition(
        "Deleting",
        "True",
        "Deleting",
        "waiting for 1 worker to drain: the PodDisruptionBudget shop/web allows no disruption; it is given up in 4 minutes",
    );
    let status = cluster.status.as_mut().unwrap();
    status
        .conditions
        .push(serde_json::from_value(waits).unwrap());
    let deleted = serde_json::from_value(json!("2026-03-01T11:57:00Z")).unwrap();
    cluster.metadata.deletion_timestamp = Some(deleted);
    cluster
}

/// A cluster that a person must help.
pub(super) fn failed() -> TenantCluster {
    let message =
        "the ProviderConfig butler-system/nowhere does not exist; create it, or name another";
    made(json!({
        "observedGeneration": 2,
        "phase": "Failed",
        "conditions": [
            condition("InfrastructureReady", "False", "ProviderConfigNotFound", message),
            condition("Ready", "False", "ProviderConfigNotFound", message),
        ],
    }))
}

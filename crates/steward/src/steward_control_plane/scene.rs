//! The control planes and Clusters that tests speak of.

use butler_api::{
    cluster_api::{
        cluster::{ClusterNetwork, NetworkRanges},
        contract::ControlPlaneEndpoint,
        steward_control_plane::StewardControlPlane,
    },
    conditions::types,
    steward::tenant_control_plane::{ControlPlanePhase, status::resources::DeploymentState},
};
use butler_runtime::{conditions::Conditions, object::ObjectKey};
use serde_json::{Value, json};

use super::{ClusterFacts, ClusterSight, SecretSource, TenantSight, World};
use crate::testing::now;

pub(super) const UID: &str = "6f9619ff-8b86-4011-b42d-00c04fc964ff";

/// A control plane named `shop` of the Cluster `shop`, with these parts of its spec.
pub(super) fn control_plane(parts: Value) -> StewardControlPlane {
    let mut spec = json!({ "version": "v1.36.3" });
    if let Value::Object(parts) = parts {
        spec.as_object_mut().unwrap().extend(parts);
    }
    let owner = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "shop", "uid": "cluster-uid",
    });
    serde_json::from_value(json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1",
        "kind": "StewardControlPlane",
        "metadata": {
            "name": "shop", "namespace": "payments", "uid": UID, "generation": 1,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }))
    .unwrap()
}

/// The same, named otherwise than its Cluster.
pub(super) fn renamed(mut control_plane: StewardControlPlane, name: &str) -> StewardControlPlane {
    control_plane.metadata.name = Some(name.to_owned());
    control_plane
}

pub(super) fn here(name: &str) -> ObjectKey {
    ObjectKey::namespaced("payments", name)
}

/// The Cluster, which chooses its networks.
pub(super) fn cluster() -> ClusterSight {
    let ranges = |blocks: &[&str]| NetworkRanges {
        cidr_blocks: blocks.iter().map(|block| (*block).to_owned()).collect(),
    };
    let facts = ClusterFacts {
        network: ClusterNetwork {
            api_server_port: Some(40443),
            services: ranges(&["10.128.0.0/12", "fd00:1::/112"]),
            pods: ranges(&["10.10.0.0/16"]),
            service_domain: Some("shop.example".to_owned()),
        },
        ..ClusterFacts::default()
    };
    ClusterSight::Found(here("shop"), facts)
}

/// An endpoint whose port is a high one.
pub(super) fn endpoint() -> ControlPlaneEndpoint {
    ControlPlaneEndpoint {
        host: "192.0.2.4".to_owned(),
        port: 40443,
    }
}

/// A `TenantControlPlane` that was just made.
pub(super) fn young() -> TenantSight {
    TenantSight {
        namespace: "payments".to_owned(),
        name: "shop".to_owned(),
        uid: "tenant-uid".to_owned(),
        controller: Some(UID.to_owned()),
        wanted_version: "v1.36.3".to_owned(),
        ..TenantSight::default()
    }
}

fn pods(wanted: i32, updated: i32, ready: i32) -> DeploymentState {
    DeploymentState {
        selector: "steward.butlerlabs.dev/name=shop".to_owned(),
        replicas: Some(wanted),
        updated_replicas: Some(updated),
        ready_replicas: Some(ready),
        available_replicas: Some(ready),
        ..DeploymentState::default()
    }
}

fn source(name: &str) -> SecretSource {
    SecretSource {
        key: here(name),
        checksum: "abc".to_owned(),
    }
}

/// One that serves with two replicas.
pub(super) fn serving() -> TenantSight {
    TenantSight {
        version: Some("v1.36.3".to_owned()),
        endpoint: Some(endpoint()),
        phase: ControlPlanePhase::Ready,
        deployment: Some(pods(2, 2, 2)),
        conditions: Conditions::since(&[], None, now())
            .say(types::AVAILABLE, true, "Ready", "the API server serves")
            .say(types::ROLLING_OUT, false, "Ready", "")
            .finish(),
        kubeconfig: Some(source("shop-admin-kubeconfig")),
        authority: Some(source("shop-ca")),
        ..young()
    }
}

/// One that sleeps.
pub(super) fn asleep() -> TenantSight {
    TenantSight {
        phase: ControlPlanePhase::Sleeping,
        deployment: Some(pods(0, 0, 0)),
        conditions: Conditions::since(&[], None, now())
            .say(
                types::AVAILABLE,
                false,
                "Sleeping",
                "it is scaled to zero; scale it up to wake it",
            )
            .say(types::ROLLING_OUT, false, "Ready", "")
            .finish(),
        ..serving()
    }
}

/// One that goes from one version to the next: one of three pods is new.
pub(super) fn upgrading() -> TenantSight {
    TenantSight {
        version: Some("v1.35.4".to_owned()),
        phase: ControlPlanePhase::Upgrading,
        deployment: Some(pods(3, 1, 2)),
        conditions: Conditions::since(&[], None, now())
            .say(types::AVAILABLE, true, "Ready", "the API server serves")
            .say(
                types::ROLLING_OUT,
                true,
                "RollingOut",
                "1 of 2 pods are of the newest kind",
            )
            .finish(),
        ..serving()
    }
}

/// A world in which the Cluster is there.
pub(super) fn world(tenant: Option<TenantSight>) -> World {
    World {
        cluster: cluster(),
        tenant,
        ..World::default()
    }
}

//! What the infrastructure controllers share: the objects of Cluster API they read, who owns what, and pausing.
//!
//! Cluster API sets the owner references and the label with the cluster's name; until it has, there is nothing to do.

use butler_api::{
    cluster_api::{
        butler_cluster::ButlerCluster,
        butler_machine::ButlerMachine,
        cluster::Cluster,
        contract::{ContractReference, ControlPlaneEndpoint},
        machine::Machine,
        steward_control_plane::StewardControlPlane,
    },
    conditions::types,
    keys::{annotations, groups, labels},
    steward::kubernetes::NodeAddressType,
};
use butler_runtime::{
    cache::{Cached, Caches, Projection},
    object::{Kind, ObjectKey},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde_json::Value;
use std::sync::Arc;

use crate::{
    projections::{Said, deleted_at},
    tenant_cluster::Origin,
};

/// What the infrastructure needs to know of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// How to go on, if all that belongs to it is to be left alone.
    pub paused: Option<String>,
    /// Whether Butler paused it with its `TenantCluster`.
    pub rests_with_its_tenant: bool,
    /// Its infrastructure, if that is a `ButlerCluster`.
    pub infrastructure: Option<ObjectKey>,
    /// Whether Cluster API takes its infrastructure for provisioned.
    pub infrastructure_provisioned: bool,
    /// Where its API server is reached, if that is known.
    pub endpoint: Option<ControlPlaneEndpoint>,
    /// Whether its control plane needs none of its machines, and has not answered yet.
    pub awaits_control_plane: bool,
    /// What was settled when it was made.
    pub origin: Origin,
    /// When its deletion began.
    pub deleted_at: Option<Timestamp>,
    /// What Cluster API says of its infrastructure and of its end.
    pub conditions: Vec<Said>,
}

/// What is remembered of the conditions of a Cluster.
const CLUSTER_CONDITIONS: [&str; 2] = [types::INFRASTRUCTURE_READY, types::DELETING];

impl Projection for ClusterFacts {
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        Kind::of::<Cluster>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let deleted_at = deleted_at(&object);
        let conditions = Said::by(&object, &CLUSTER_CONDITIONS);
        let cluster: Cluster = serde_json::from_value(object)?;
        let paused = cluster.how_to_go_on();
        let rests_with_its_tenant = cluster.rests_with_its_tenant();
        let origin = Origin::of(&cluster);
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let infrastructure = cluster.spec.infrastructure_ref.as_ref();
        // Only of our own do we know that nothing holds it up but itself.
        let control_plane = cluster.spec.control_plane_ref.as_ref();
        let is_hosted = control_plane.is_some_and(|reference| {
            reference.api_group == groups::CONTROL_PLANE
                && reference.kind == StewardControlPlane::kind(&())
        });
        let initialization = cluster.status.initialization;
        Ok(Self {
            paused,
            rests_with_its_tenant,
            infrastructure: infrastructure
                .filter(|reference| is_ours::<ButlerCluster>(reference))
                .map(|reference| ObjectKey::namespaced(namespace, &reference.name)),
            infrastructure_provisioned: initialization.infrastructure_provisioned == Some(true),
            endpoint: cluster.spec.control_plane_endpoint.filter(is_known),
            awaits_control_plane: is_hosted
                && initialization.control_plane_initialized != Some(true),
            origin,
            deleted_at,
            conditions,
        })
    }
}

/// What the infrastructure needs to know of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Name of the Cluster it belongs to.
    pub cluster: String,
    /// Secret with the user data to boot with, once there is one.
    pub bootstrap_data: Option<String>,
    /// Where it shall run.
    pub failure_domain: Option<String>,
    /// Whether it belongs to a control plane.
    pub control_plane: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// When its deletion began.
    pub deleted_at: Option<Timestamp>,
    /// Name of the `MachineDeployment` it belongs to, if to one.
    pub deployment: Option<String>,
    /// Version of Kubernetes it shall run.
    pub version: Option<String>,
    /// The node that it became.
    pub node: Option<String>,
    /// Addresses of a machine of a control plane; of others nobody asks.
    pub addresses: Vec<String>,
    /// What Cluster API says of it, in the order of its life.
    pub conditions: Vec<Said>,
}

/// What is remembered of the conditions of a Machine, in the order of its life.
const MACHINE_CONDITIONS: [&str; 6] = [
    types::INFRASTRUCTURE_READY,
    "BootstrapConfigReady",
    "NodeReady",
    "HealthCheckSucceeded",
    types::READY,
    types::DELETING,
];

impl MachineFacts {
    /// Whether it is a node that can be used.
    pub fn is_ready(&self) -> bool {
        let mut conditions = self.conditions.iter();
        !self.deleting && conditions.any(|said| said.type_ == types::READY && said.holds())
    }
}

impl Projection for MachineFacts {
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        Kind::of::<Machine>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let deleted_at = deleted_at(&object);
        let mut conditions = Said::by(&object, &MACHINE_CONDITIONS);
        conditions.sort_by_key(|said| {
            let mut order = MACHINE_CONDITIONS.iter();
            order.position(|type_| *type_ == said.type_)
        });
        let machine: Machine = serde_json::from_value(object)?;
        let labels = machine.metadata.labels.unwrap_or_default();
        let control_plane = labels.contains_key(labels::CLUSTER_API_CONTROL_PLANE);
        let status = machine.status.unwrap_or_default();
        let addresses = status
            .addresses
            .into_iter()
            .filter(|address| control_plane && address.type_ == NodeAddressType::InternalIP);
        Ok(Self {
            deleted_at,
            deployment: labels.get(labels::CLUSTER_API_MACHINE_DEPLOYMENT).cloned(),
            version: machine.spec.version,
            node: status.node_ref.map(|node| node.name),
            addresses: addresses.map(|address| address.address).collect(),
            conditions,
            cluster: machine.spec.cluster_name,
            bootstrap_data: machine.spec.bootstrap.data_secret_name,
            failure_domain: machine
                .spec
                .failure_domain
                .filter(|domain| !domain.is_empty()),
            control_plane,
            deleting: machine.metadata.deletion_timestamp.is_some(),
        })
    }
}

fn is_ours<K: Resource<DynamicType = ()>>(reference: &ContractReference) -> bool {
    reference.api_group == groups::INFRASTRUCTURE && reference.kind == K::kind(&())
}

/// Whether an endpoint says where. Cluster API writes an empty one where none is known.
pub(crate) fn is_known(endpoint: &ControlPlaneEndpoint) -> bool {
    !endpoint.host.is_empty() && endpoint.port > 0
}

/// The object of a kind of Cluster API that owns one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) key: ObjectKey,
    uid: String,
}

impl Owner {
    /// The Cluster that owns a `ButlerCluster`, once Cluster API said so.
    pub(crate) fn of_cluster(cluster: &ButlerCluster) -> Option<Self> {
        owner::<Cluster>(&cluster.metadata)
    }

    /// The Machine that owns a `ButlerMachine`, once Cluster API said so.
    pub(crate) fn of_machine(machine: &ButlerMachine) -> Option<Self> {
        owner::<Machine>(&machine.metadata)
    }

    /// That very object; not one of the same name that came after it.
    pub(crate) fn find<P: Projection>(&self, caches: &Caches) -> Option<Arc<Cached<P>>> {
        let found = caches.store::<P>().get(&self.key);
        found.filter(|found| found.facts.uid == self.uid)
    }
}

fn owner<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> Option<Owner> {
    let references = metadata.owner_references.iter().flatten();
    let group = K::group(&());
    references
        .filter(|reference| reference.kind == K::kind(&()))
        .find(|reference| {
            let owners_group = reference.api_version.split_once('/');
            owners_group.is_some_and(|(owners_group, _)| owners_group == group)
        })
        .map(|reference| Owner {
            key: ObjectKey {
                namespace: metadata.namespace.clone(),
                name: reference.name.clone(),
            },
            uid: reference.uid.clone(),
        })
}

/// The Cluster that an object belongs to by its label.
pub(crate) fn cluster_of(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let name = metadata.labels.as_ref()?.get(labels::CLUSTER_API_CLUSTER)?;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    Some(ObjectKey::namespaced(namespace, name))
}

/// How to go on with an object that is paused, by itself or with its cluster.
pub(crate) fn paused(metadata: &ObjectMeta, caches: &Caches) -> Option<String> {
    let annotated = metadata.annotations.as_ref();
    if annotated
        .is_some_and(|annotations| annotations.contains_key(annotations::CLUSTER_API_PAUSED))
    {
        let annotation = annotations::CLUSTER_API_PAUSED;
        return Some(format!("remove the annotation {annotation} to go on"));
    }
    let key = cluster_of(metadata)?;
    let cluster = caches.store::<ClusterFacts>().get(&key)?;
    cluster.value.paused.clone()
}

#[cfg(test)]
mod tests {
    use butler_runtime::cache::{AnyStore, Delta};
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn machine(metadata: &Value) -> ButlerMachine {
        let spec = json!({ "cpu": 1, "memory": "1Gi", "disk": "10Gi" });
        serde_json::from_value(json!({
            "apiVersion": groups::INFRASTRUCTURE_API_VERSION, "kind": "ButlerMachine",
            "metadata": metadata, "spec": spec,
        }))
        .unwrap()
    }

    fn owned_by(api_version: &str, kind: &str) -> ButlerMachine {
        machine(&json!({
            "name": "m", "namespace": "payments",
            "ownerReferences": [{ "apiVersion": api_version, "kind": kind, "name": "owner", "uid": "1" }],
        }))
    }

    #[test]
    fn the_owner_is_the_machine_of_cluster_api_whatever_its_version() {
        for version in ["cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"] {
            let owner = Owner::of_machine(&owned_by(version, "Machine")).unwrap();
            assert_eq!(owner.key, ObjectKey::namespaced("payments", "owner"));
        }
        let set = owned_by("cluster.x-k8s.io/v1beta2", "MachineSet");
        assert_eq!(Owner::of_machine(&set), None);
        let foreign = owned_by("example.com/v1", "Machine");
        assert_eq!(Owner::of_machine(&foreign), None);
    }

    #[test]
    fn a_namesake_of_the_owner_is_not_the_owner() {
        let caches = Caches::default();
        let owner = Owner::of_machine(&owned_by("cluster.x-k8s.io/v1beta2", "Machine")).unwrap();
        let upsert = |uid: &str, version: &str| {
            let metadata = json!({ "name": "owner", "namespace": "payments", "uid": uid, "resourceVersion": version });
            let store = caches.store::<MachineFacts>();
            store.ingest(Delta::Upsert(json!({ "metadata": metadata })));
        };
        upsert("2", "1");
        assert!(owner.find::<MachineFacts>(&caches).is_none());
        upsert("1", "2");
        assert!(owner.find::<MachineFacts>(&caches).is_some());
    }

    #[test]
    fn an_object_is_paused_by_itself_or_with_its_cluster() {
        let caches = Caches::default();
        let labelled = machine(&json!({
            "name": "m", "namespace": "payments", "labels": { labels::CLUSTER_API_CLUSTER: "shop" },
        }));
        assert_eq!(paused(&labelled.metadata, &caches), None);
        let cluster = json!({
            "metadata": { "name": "shop", "namespace": "payments", "resourceVersion": "1" },
            "spec": { "paused": true },
        });
        caches
            .store::<ClusterFacts>()
            .ingest(Delta::Upsert(cluster));
        assert_eq!(
            paused(&labelled.metadata, &caches).as_deref(),
            Some("set spec.paused of the Cluster payments/shop to false to go on")
        );
        let annotated = machine(&json!({
            "name": "m", "annotations": { annotations::CLUSTER_API_PAUSED: "" },
        }));
        assert_eq!(
            paused(&annotated.metadata, &caches).as_deref(),
            Some("remove the annotation cluster.x-k8s.io/paused to go on")
        );
    }

    #[test]
    fn an_empty_endpoint_is_none() {
        let cluster = |endpoint: Value| {
            let body = json!({ "metadata": { "name": "shop" }, "spec": { "controlPlaneEndpoint": endpoint } });
            ClusterFacts::project(body).unwrap().endpoint
        };
        assert_eq!(cluster(json!({ "host": "", "port": 0 })), None);
        assert!(cluster(json!({ "host": "192.0.2.1", "port": 6443 })).is_some());
    }

    #[test]
    fn a_hosted_control_plane_is_awaited_until_it_has_answered() {
        let awaits = |kind: &str, initialized: bool| {
            let reference =
                json!({ "apiGroup": groups::CONTROL_PLANE, "kind": kind, "name": "shop" });
            let body = json!({
                "metadata": { "name": "shop", "namespace": "payments" },
                "spec": { "controlPlaneRef": reference },
                "status": { "initialization": { "controlPlaneInitialized": initialized } },
            });
            ClusterFacts::project(body).unwrap().awaits_control_plane
        };
        assert!(awaits("StewardControlPlane", false));
        assert!(!awaits("StewardControlPlane", true));
        assert!(
            !awaits("KubeadmControlPlane", false),
            "it needs machines first"
        );
    }

    #[test]
    fn only_infrastructure_of_ours_is_told() {
        let cluster = |kind: &str| {
            let reference =
                json!({ "apiGroup": groups::INFRASTRUCTURE, "kind": kind, "name": "shop" });
            let body = json!({
                "metadata": { "name": "shop", "namespace": "payments" },
                "spec": { "infrastructureRef": reference },
            });
            ClusterFacts::project(body).unwrap().infrastructure
        };
        assert_eq!(cluster("DockerCluster"), None);
        assert_eq!(
            cluster("ButlerCluster"),
            Some(ObjectKey::namespaced("payments", "shop"))
        );
    }
}

//! What Steward remembers of the objects it reads: conclusions, not bodies.

use std::collections::{BTreeMap, BTreeSet};

use butler_api::keys::labels;
use butler_runtime::{
    cache::{Fetch, Projection},
    object::Kind,
};
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus},
    core::v1::{LoadBalancerIngress, Namespace, Secret, Service},
    networking::v1::{Ingress, IngressLoadBalancerStatus},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{build::API_SERVER, names::SecretRole};

/// The addresses of a control plane's Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceFacts {
    /// Its address inside of the management cluster.
    pub cluster_ip: Option<String>,
    /// The addresses and names its load balancer has.
    pub balancers: Vec<LoadBalancerIngress>,
    /// What its load balancer says of it.
    pub conditions: Vec<Condition>,
}

impl ServiceFacts {
    /// The address, else the name, under which the load balancer is reached.
    pub fn balanced_at(&self) -> Option<String> {
        let filled = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
        let mut balancers = self.balancers.iter();
        let address = balancers.find_map(|balancer| filled(balancer.ip.as_ref()));
        let mut balancers = self.balancers.iter();
        address.or_else(|| balancers.find_map(|balancer| filled(balancer.hostname.as_ref())))
    }
}

impl Projection for ServiceFacts {
    const LABELS: Option<&'static str> = Some(labels::OWNER_UID);

    fn kind() -> Kind {
        Kind::of::<Service>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let service: Service = serde_json::from_value(object)?;
        let status = service.status.unwrap_or_default();
        let balancers = status.load_balancer;
        let mut balancers = balancers
            .and_then(|found| found.ingress)
            .unwrap_or_default();
        for balancer in &mut balancers {
            // Some load balancers count up the ports here; a status that copies them never comes to rest.
            balancer.ports = None;
        }
        let cluster_ip = service.spec.and_then(|spec| spec.cluster_ip);
        Ok(Self {
            cluster_ip: cluster_ip.filter(|address| !address.is_empty() && address != "None"),
            balancers,
            conditions: status.conditions.unwrap_or_default(),
        })
    }
}

/// The Secrets that say whom pods trust.
const TRUST: [SecretRole; 5] = [
    SecretRole::Authority,
    SecretRole::FrontProxyAuthority,
    SecretRole::ControllerManagerKubeconfig,
    SecretRole::SchedulerKubeconfig,
    SecretRole::KonnectivityKubeconfig,
];

/// How the pods of a control plane are doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeploymentFacts {
    /// UID of the Deployment.
    pub uid: String,
    /// Whether it is being deleted, and goes when its pods are gone.
    pub is_ending: bool,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// How many pods are wanted.
    pub wanted: i32,
    /// The image of the API server.
    pub image: Option<String>,
    /// The data store of the newest pods.
    pub store: Option<String>,
    /// Fingerprints of the Secrets by which the newest pods trust somebody.
    pub trust: BTreeMap<SecretRole, String>,
    /// The Secrets that the newest pods mount.
    pub mounts: BTreeSet<SecretRole>,
    /// What the Deployment says of itself.
    pub status: DeploymentStatus,
}

impl DeploymentFacts {
    /// How many pods serve.
    pub fn ready(&self) -> i32 {
        self.status.ready_replicas.unwrap_or_default()
    }

    /// Whether no pod of an older kind is left, and one serves if any shall.
    pub fn has_only_new_pods(&self) -> bool {
        let status = &self.status;
        let count = |count: Option<i32>| count.unwrap_or_default();
        status.observed_generation == self.generation
            && count(status.updated_replicas) == count(status.replicas)
            && (self.wanted == 0 || self.ready() > 0)
    }

    /// Whether every pod is of the newest kind and serves.
    pub fn is_rolled_out(&self) -> bool {
        let status = &self.status;
        let all = |count: Option<i32>| count.unwrap_or_default() == self.wanted;
        status.observed_generation == self.generation
            && status.unavailable_replicas.unwrap_or_default() == 0
            && all(status.updated_replicas)
            && all(status.ready_replicas)
            && all(status.replicas)
    }
}

impl Projection for DeploymentFacts {
    const LABELS: Option<&'static str> = Some(labels::OWNER_UID);

    fn kind() -> Kind {
        Kind::of::<Deployment>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let deployment: Deployment = serde_json::from_value(object)?;
        let spec = deployment.spec.unwrap_or_default();
        let labels = spec.template.metadata.and_then(|metadata| metadata.labels);
        let found = labels.unwrap_or_default();
        let checksum = |role: SecretRole| {
            let prefix = labels::STEWARD_COMPONENT_CHECKSUM_PREFIX;
            found.get(&format!("{prefix}{}", role.checksum_label()))
        };
        let trust = TRUST
            .into_iter()
            .filter_map(|role| Some((role, checksum(role)?.clone())));
        let mounts = SecretRole::ALL
            .into_iter()
            .filter(|role| checksum(*role).is_some());
        let pod = spec.template.spec.unwrap_or_default();
        let mut containers = pod.containers.into_iter();
        let api_server = containers.find(|container| container.name == API_SERVER);
        Ok(Self {
            uid: deployment.metadata.uid.unwrap_or_default(),
            is_ending: deployment.metadata.deletion_timestamp.is_some(),
            generation: deployment.metadata.generation,
            wanted: spec.replicas.unwrap_or(1),
            image: api_server.and_then(|container| container.image),
            store: found.get(labels::STEWARD_DATA_STORE).cloned(),
            trust: trust.collect(),
            mounts: mounts.collect(),
            status: deployment.status.unwrap_or_default(),
        })
    }
}

/// The addresses of a control plane's Ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngressFacts {
    /// What its controller says.
    pub balancer: Option<IngressLoadBalancerStatus>,
}

impl Projection for IngressFacts {
    const LABELS: Option<&'static str> = Some(labels::OWNER_UID);

    fn kind() -> Kind {
        Kind::of::<Ingress>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let ingress: Ingress = serde_json::from_value(object)?;
        Ok(Self {
            balancer: ingress.status.and_then(|status| status.load_balancer),
        })
    }
}

/// The part at a JSON pointer; the default if there is none.
pub(crate) fn at<T: DeserializeOwned + Default>(
    object: &mut Value,
    pointer: &str,
) -> Result<T, serde_json::Error> {
    match object.pointer_mut(pointer) {
        Some(part) => serde_json::from_value(part.take()),
        None => Ok(T::default()),
    }
}

/// That a Secret exists, and its version: enough to tell that something which is read elsewhere has changed.
#[derive(Clone, Copy, Debug)]
pub struct SecretVersion;

impl Projection for SecretVersion {
    const FETCH: Fetch = Fetch::Metadata;

    fn kind() -> Kind {
        Kind::of::<Secret>()
    }

    fn project(_: Value) -> Result<Self, serde_json::Error> {
        Ok(Self)
    }
}

/// The labels of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceLabels(pub BTreeMap<String, String>);

impl Projection for NamespaceLabels {
    const FETCH: Fetch = Fetch::Metadata;

    fn kind() -> Kind {
        Kind::of::<Namespace>()
    }

    fn project(mut object: Value) -> Result<Self, serde_json::Error> {
        at(&mut object, "/metadata/labels").map(Self)
    }
}

//! A cluster and its surroundings, for tests of the rules.

use butler_api::butler::{
    butler_config::ButlerConfig, network_pool::NetworkPool, provider_config::ProviderConfig,
    team::Team, tenant_cluster::TenantCluster,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Breach, Case};
use crate::projections::{ProviderCandidate, TenantClusterFacts};

/// A cluster in the namespace `payments`, with what is needed and `spec`.
pub(crate) fn cluster(spec: &Value) -> TenantCluster {
    cluster_named("production", spec)
}

/// The same under another name.
pub(crate) fn cluster_named(name: &str, spec: &Value) -> TenantCluster {
    let mut whole = json!({"kubernetesVersion": "v1.35.4", "workers": {"replicas": 1}});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    serde_json::from_value(
        json!({"metadata": {"name": name, "namespace": "payments"}, "spec": whole}),
    )
    .unwrap()
}

/// A team.
pub(crate) fn team(name: &str, spec: &Value) -> Team {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

/// A pool.
pub(crate) fn pool(name: &str, cidr: &str) -> NetworkPool {
    let metadata = json!({"name": name, "namespace": "butler-system"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"cidr": cidr}})).unwrap()
}

/// Everything that has a say.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) cluster: TenantCluster,
    pub(crate) config: Option<ButlerConfig>,
    pub(crate) team: Option<Team>,
    pub(crate) candidates: Vec<ProviderCandidate>,
    pub(crate) provider: Option<ProviderConfig>,
    pub(crate) pools: Vec<NetworkPool>,
    pub(crate) others: Vec<TenantClusterFacts>,
}

impl Scene {
    /// The cluster alone, on the local provider.
    pub(crate) fn new(cluster: TenantCluster) -> Self {
        let mut scene = Self {
            cluster,
            config: None,
            team: None,
            candidates: Vec::new(),
            provider: None,
            pools: Vec::new(),
            others: Vec::new(),
        };
        scene.provide(&json!({"provider": "local"}));
        scene
    }

    pub(crate) fn provide(&mut self, spec: &Value) {
        let metadata = json!({"name": "default", "namespace": "butler-system"});
        self.provider =
            Some(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap());
    }

    pub(crate) fn mode(&mut self, mode: &str) {
        let spec = json!({"multiTenancy": {"mode": mode}});
        self.config = Some(
            serde_json::from_value(json!({"metadata": {"name": "butler"}, "spec": spec})).unwrap(),
        );
    }

    pub(crate) fn label(&mut self, key: &str, value: &str) {
        self.cluster
            .labels_mut()
            .insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn annotate(&mut self, key: &str, value: &str) {
        self.cluster
            .annotations_mut()
            .insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn settle(&mut self, status: &Value) {
        self.cluster.status = Some(serde_json::from_value(status.clone()).unwrap());
    }

    pub(crate) fn case(&self) -> Case<'_> {
        Case {
            cluster: &self.cluster,
            config: self.config.as_ref(),
            team: self.team.as_ref(),
            candidates: &self.candidates,
            provider: self.provider.as_ref(),
            pools: &self.pools,
            others: &self.others,
        }
    }

    /// What a function finds, a line each.
    pub(crate) fn told(&self, find: impl Fn(&Case<'_>) -> Vec<Breach>) -> String {
        let found = find(&self.case());
        let lines: Vec<_> = found.iter().map(Breach::message).collect();
        lines.join("\n")
    }
}

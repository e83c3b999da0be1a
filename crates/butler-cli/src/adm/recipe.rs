//! What `up` makes machines of, tells kubeadm and gives to the API server, for whoever does the same by hand to compare.
//!
//! Owns: nothing; it hands out what other modules decide. Must not: make, apply or change anything.

use std::net::Ipv4Addr;

use butler_api::{
    butler::provider_config::Provider,
    name::{ClusterName, MachineName},
    provider_id,
    version::KubernetesVersion,
};
use butler_assets::{Asset, Component, Resolver};
use serde_json::Value;

pub use super::up::{CNI, NODE, RUNTIME};
use super::{
    cluster_api,
    installation::{PODS, SERVICES},
    kubeadm::{self, ClusterPlan, NodePlan},
};

/// The first machine of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstMachine {
    /// Name of the cluster.
    pub cluster: ClusterName,
    /// What it runs.
    pub version: KubernetesVersion,
    /// Name of the machine.
    pub name: MachineName,
    /// Where the API server is to listen.
    pub address: Ipv4Addr,
}

/// What `kubeadm init` is told by its `--config`.
pub fn kubeadm_configuration(machine: &FirstMachine) -> anyhow::Result<String> {
    let cluster = ClusterPlan {
        name: machine.cluster.clone(),
        version: machine.version.clone(),
        pods: PODS.parse()?,
        services: SERVICES.parse()?,
    };
    let node = NodePlan {
        name: machine.name.clone(),
        address: Some(machine.address),
        provider_id: provider_id::of_instance(Provider::Local, machine.name.as_str()),
    };
    Ok(kubeadm::init_configuration(&cluster, &node)?)
}

/// All objects of Cluster API in an order that works, with certificates for its webhooks. Holds private keys.
pub async fn cluster_api(resolver: &Resolver) -> anyhow::Result<Vec<Value>> {
    let version = Asset::default_of(Component::ClusterApiCore)
        .version
        .to_string();
    cluster_api::documents(cluster_api::manifests(resolver).await?, &version)
}

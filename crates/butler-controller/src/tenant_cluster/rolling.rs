//! What is being replaced, added or removed in a tenant cluster. Pure.
//!
//! A `MachineDeployment` speaks of the number that it was told, and Cluster API of the machines that it wants to keep: neither
//! alone says whether a cluster has as many machines as were asked for.

use butler_api::butler::tenant_cluster::TenantCluster;
use kube::ResourceExt;

use super::{
    blueprint::Blueprint, deployment_name, facts::DeploymentFacts, related::Related,
    status::Findings, upgrade::Progress,
};

/// Another number of workers for a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scaling {
    /// Its name.
    pub(super) pool: String,
    /// As many were asked for until now.
    pub(super) from: i32,
    /// As many there shall be.
    pub(super) to: i32,
}

/// The pools that get another number of workers in this pass, those that go among them.
pub(super) fn scaling(blueprint: &Blueprint, related: &Related) -> Vec<Scaling> {
    let standing = related.deployments.iter();
    let standing = standing.filter(|(_, found)| found.facts.deleted_at.is_none());
    let scaling = standing.filter_map(|(name, found)| {
        let mut pools = blueprint.pools.iter();
        let pool = pools.find(|pool| deployment_name(&blueprint.name, &pool.name) == *name);
        let from = found.facts.wanted?;
        let to = pool.map_or(0, |pool| pool.replicas);
        let pool = pool_name(&blueprint.name, name).to_owned();
        (from != to).then_some(Scaling { pool, from, to })
    });
    scaling.collect()
}

/// The pool that a `MachineDeployment` is for.
fn pool_name<'a>(cluster: &str, deployment: &'a str) -> &'a str {
    let name = deployment.strip_prefix(cluster);
    let name = name.and_then(|name| name.strip_prefix('-'));
    name.unwrap_or(deployment)
}

/// Whether each pool has the workers that it was given: what lacks beyond that, somebody refused.
pub(super) fn are_as_many_as_granted(related: &Related) -> bool {
    let mut deployments = related.deployments.values().map(|found| &found.facts);
    !related.deployments.is_empty()
        && deployments.all(|facts| facts.ready >= facts.wanted.unwrap_or_default())
}

/// What is being replaced, added or removed in a cluster whose version is right, if anything is.
pub(super) fn rolling(
    cluster: &TenantCluster,
    related: &Related,
    findings: &Findings,
) -> Option<String> {
    if let Progress::Underway(text) = &findings.progress {
        return Some(text.clone());
    }
    let control_plane = related.control_plane.as_ref();
    if control_plane.is_some_and(|found| found.facts.rolling_out) {
        return Some("the control plane is being renewed".to_owned());
    }
    if let Some(Scaling { pool, from, to }) = findings.scaling.first() {
        return Some(format!("pool {pool}: it goes from {from} to {to} machines"));
    }
    let cluster = cluster.name_any();
    let deployments = related.deployments.iter();
    let mut rolling = deployments.filter_map(|(name, found)| {
        let pool = pool_name(&cluster, name);
        pool_rolling(pool, &found.facts, machines(related, name))
    });
    rolling.next()
}

/// As many machines there are of a `MachineDeployment`, those on their way out among them.
fn machines(related: &Related, deployment: &str) -> usize {
    let machines = related.machines.values();
    let own = machines.filter(|machine| machine.deployment.as_deref() == Some(deployment));
    own.count()
}

/// What is being replaced, added or removed in a pool, if anything is.
fn pool_rolling(pool: &str, facts: &DeploymentFacts, machines: usize) -> Option<String> {
    if facts.deleted_at.is_some() {
        return Some(format!(
            "pool {pool}: it is being removed, machines left: {machines}"
        ));
    }
    let DeploymentFacts { updated, ready, .. } = facts;
    let wanted = facts.wanted.unwrap_or_default();
    // A machine on its way out may be counted no more, but it runs until it is gone.
    let there = i32::try_from(machines).unwrap_or(i32::MAX);
    let there = there.max(facts.present);
    if there > wanted && *updated >= wanted {
        return Some(format!(
            "pool {pool}: {there} machines are there, and {wanted} shall stay"
        ));
    }
    (!facts.is_settled()).then(|| {
        format!(
            "pool {pool}: {updated} of {wanted} machines are as they shall be, {ready} are ready"
        )
    })
}

//! Decides what the infrastructure of a cluster shows, and when it may go.

use butler_api::{
    cluster_api::{
        butler_cluster::{ButlerCluster, ButlerClusterStatus},
        contract::InfrastructureInitialization,
    },
    conditions::{reasons, types},
};
use butler_runtime::{
    conditions::{Conditions, Finding},
    object::ObjectKey,
    plan::{Next, Note, Plan},
    reconciler::NoEffect,
};
use jiff::Timestamp;

use super::observe::{OwnerSight, ProviderSight, World, provider_key};
use crate::cluster_api::is_known;

/// As many machines as a message names.
const MACHINES_NAMED: usize = 5;

pub(super) fn plan(
    cluster: &ButlerCluster,
    world: &World,
    now: Timestamp,
) -> Plan<ButlerClusterStatus, NoEffect> {
    let before = cluster.status.clone().unwrap_or_default();
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    let obstacle = if deleting {
        Some(teardown(&world.machines))
    } else {
        obstacle(cluster, world)
    };
    let already = before.initialization.and_then(|before| before.provisioned) == Some(true);
    let provisioned = already || obstacle.is_none();
    let notes = obstacle.iter().filter(|found| needs_somebody(found));
    let notes = notes
        .map(|found| Note::warning(found.reason, &found.message))
        .collect();
    let ready = obstacle.unwrap_or_else(|| Finding::new(true, reasons::READY, ""));
    let status = ButlerClusterStatus {
        initialization: Some(InfrastructureInitialization {
            provisioned: Some(provisioned),
        }),
        ready: provisioned,
        failure_domains: Vec::new(),
        observed_generation: None,
        conditions: Conditions::since(&before.conditions, cluster.metadata.generation, now)
            .tell(types::READY, ready)
            .say(types::PAUSED, false, reasons::NOT_PAUSED, "")
            .finish(),
    };
    let done = deleting && world.machines.is_empty();
    let next = if done { Next::Done } else { Next::AwaitChange };
    Plan {
        notes,
        next,
        ..Plan::status(status)
    }
}

/// What keeps the cluster from having machines, in the order in which it is overcome.
fn obstacle(cluster: &ButlerCluster, world: &World) -> Option<Finding> {
    let waiting = |message| {
        Some(Finding::new(
            false,
            reasons::WAITING_FOR_DEPENDENCIES,
            message,
        ))
    };
    let (endpoint_of_owner, awaits_control_plane) = match &world.owner {
        OwnerSight::Unset => {
            return waiting(
                "waiting for a Cluster that names it in spec.infrastructureRef".to_owned(),
            );
        }
        OwnerSight::Missing(owner) => return waiting(format!("waiting for its Cluster {owner}")),
        OwnerSight::Found {
            endpoint,
            awaits_control_plane,
        } => (endpoint.as_ref(), *awaits_control_plane),
    };
    let provider = provider_key(cluster);
    match &world.provider {
        ProviderSight::Missing => {
            let message = format!(
                "spec.providerRef: the ProviderConfig {provider} does not exist; create it or correct the reference"
            );
            let missing = Finding::new(false, reasons::PROVIDER_CONFIG_NOT_FOUND, message);
            return Some(missing);
        }
        ProviderSight::NotReady(why) => {
            return waiting(format!("the ProviderConfig {provider} is not ready: {why}"));
        }
        ProviderSight::Ready => {}
    }
    let own = cluster.spec.control_plane_endpoint.as_ref();
    let endpoint = own.filter(|own| is_known(own)).or(endpoint_of_owner);
    if endpoint.is_none() {
        let message = "spec.controlPlaneEndpoint: waiting for the control plane to write it; \
            write it yourself if the control plane has no controller that does";
        return waiting(message.to_owned());
    }
    // Cluster API connects as soon as the infrastructure is there. In vain, it waits half a minute before it tries again, and
    // no machine is told how to join meanwhile.
    if awaits_control_plane {
        return waiting("waiting until the control plane answers".to_owned());
    }
    None
}

fn teardown(machines: &[ObjectKey]) -> Finding {
    if machines.is_empty() {
        return Finding::new(false, reasons::DELETING, "");
    }
    let named: Vec<_> = machines
        .iter()
        .take(MACHINES_NAMED)
        .map(|machine| machine.name.as_str())
        .collect();
    let more = machines.len().saturating_sub(named.len());
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    let message = format!(
        "waiting until its ButlerMachines are gone: {}{more}",
        named.join(", ")
    );
    Finding::new(false, reasons::DELETION_BLOCKED, message)
}

/// Whether somebody has to act, rather than wait.
fn needs_somebody(finding: &Finding) -> bool {
    finding.reason == reasons::PROVIDER_CONFIG_NOT_FOUND
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

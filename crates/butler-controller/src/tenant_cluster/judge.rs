//! How much of a wish may come true now: by the rules, and by whose turn it is to have a new version or image.

use std::collections::BTreeMap;

use butler_api::{
    butler::{
        provider_config::{Provider, ProviderConfig},
        tenant_cluster::TenantCluster,
    },
    conditions::{reasons, types},
    normalize::tenant_cluster::kubernetes_version,
    version::KubernetesVersion,
};
use butler_runtime::{conditions::Finding, object::ObjectKey};

use super::{
    blueprint::{Blueprint, ControlPlane, System},
    credentials, deployment_name,
    image::Images,
    observe::World,
    related::Related,
    upgrade::{self, Progress, Running, RunningPool},
    why::Waiting,
};
use crate::{cluster_api::MachineFacts, tenant_rules};

/// The field whose breaches concern the version alone.
const VERSION_FIELD: &str = "spec.kubernetesVersion";

/// How much of a wish is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// Nothing.
    Nothing,
    /// The version; a cluster that is there stays at the one that it has.
    Version,
    /// More machines; a cluster that is there keeps those that it has.
    Growth,
    /// All of it; a cluster that is there stays as it is.
    Everything,
}

fn case<'a>(cluster: &'a TenantCluster, world: &'a World) -> tenant_rules::Case<'a> {
    tenant_rules::Case {
        cluster,
        config: world.config.as_ref(),
        team: world.team.as_ref(),
        candidates: &world.candidates,
        provider: world.provider.as_ref(),
        pools: &world.pools,
        others: &world.others,
    }
}

/// Which provider was taken, and why.
pub(super) fn granted(cluster: &TenantCluster, world: &World) -> Finding {
    let words = case(cluster, world).choice().words();
    Finding::new(true, reasons::READY, words)
}

/// The rules that the cluster breaks, and what that means for it.
pub(super) fn judged(cluster: &TenantCluster, world: &World) -> (Vec<Waiting>, Refusal) {
    let breaches = tenant_rules::breaches(&case(cluster, world));
    let is_made = world.related.cluster.is_some();
    let mut refusal = Refusal::Nothing;
    let mut waits = Vec::new();
    for breach in breaches {
        let is_version = breach.field == VERSION_FIELD;
        // What may follow the version that runs is decided by what runs, and told with the upgrade.
        if is_version && breach.reason == reasons::VERSION_SKEW {
            continue;
        }
        // Where the addresses of one that is there are decided on it is told as well, and nothing else of it waits.
        let is_of_addresses = breach.condition == types::NETWORK_READY
            && [reasons::PINNED_RANGE_OUTSIDE, reasons::QUOTA_EXCEEDED].contains(&breach.reason);
        if is_of_addresses && is_made {
            continue;
        }
        let growth = [types::PROVIDER_ACCESS_GRANTED, types::QUOTA_SATISFIED];
        refusal = refusal.max(if is_version && is_made {
            Refusal::Version
        } else if growth.contains(&breach.condition) {
            Refusal::Growth
        } else {
            Refusal::Everything
        });
        let waiting = Waiting::new(breach.condition, breach.reason, breach.message());
        waits.push(waiting.needs_somebody());
    }
    (waits, refusal)
}

/// What a cluster that is not made yet waits for before anything of it is made. One that is made works on without it.
pub(super) fn obstacle(provider: &ProviderConfig, sight: &credentials::Sight) -> Option<Waiting> {
    let missing = credentials::plan(sight).err();
    missing
        .map(|waiting| *waiting)
        .or_else(|| unproven(provider))
}

/// Whether nobody can log in at a provider, or nobody knows yet. Machines of this host need nobody to log in.
fn unproven(provider: &ProviderConfig) -> Option<Waiting> {
    if provider.spec.provider == Provider::Local {
        return None;
    }
    let key = ObjectKey::of(provider);
    let status = provider.status.as_ref();
    match status.and_then(|status| status.validated) {
        Some(true) => None,
        Some(false) => {
            let conditions = status.into_iter().flat_map(|status| &status.conditions);
            let mut said =
                conditions.filter(|condition| condition.type_ == types::CREDENTIALS_VALID);
            let words = said.next().map(|said| said.message.as_str());
            let words = words.unwrap_or("its credentials cannot be used; correct them");
            let why = format!("the ProviderConfig {key} is not ready: {words}");
            let what = types::INFRASTRUCTURE_READY;
            Some(Waiting::new(what, reasons::CREDENTIALS_INVALID, why).needs_somebody())
        }
        None => {
            let why = format!("the credentials of the ProviderConfig {key} are being checked");
            let what = types::INFRASTRUCTURE_READY;
            Some(Waiting::new(what, reasons::WAITING_FOR_DEPENDENCIES, why))
        }
    }
}

/// What came of the turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// How far an upgrade has come.
    pub(super) progress: Progress,
    /// Whether the control plane can be there now.
    pub(super) has_control_plane: bool,
}

/// Gives the control plane and each pool the version and the image that are their turn. A pool that cannot be there yet is left out.
pub(super) fn take_turns(
    blueprint: &mut Blueprint,
    related: &Related,
    images: &Images,
    refusal: Refusal,
) -> Taken {
    let running = running(blueprint, related);
    let meant = blueprint.version.clone();
    if let Some(asked) = running
        .asked
        .as_ref()
        .filter(|_| refusal >= Refusal::Version)
    {
        blueprint.version = asked.clone();
    }
    let pools = blueprint.pools.iter().map(|pool| upgrade::Wish {
        name: pool.name.clone(),
        image: pool.machine.image.clone(),
        is_awaited: images.are_awaited_by(Some(&pool.name)),
        has_programs: matches!(pool.system, System::Kairos | System::Bottlerocket),
    });
    let pools: Vec<_> = pools.collect();
    let mut turns = upgrade::turns(&blueprint.version, &meant, &pools, &running);
    blueprint.version = turns.control_plane;
    blueprint.pools.retain_mut(|pool| {
        let Some(turn) = turns.pools.remove(&pool.name) else {
            return false;
        };
        (pool.version, pool.machine.image) = (turn.version, turn.image);
        true
    });
    let is_awaited = images.are_awaited_by(None);
    Taken {
        has_control_plane: control_plane_turn(blueprint, related, &running, &meant, is_awaited),
        progress: turns.progress,
    }
}

/// Whether the control plane can be there at its version. One on machines of its own keeps its image until the new one is at the
/// provider, and the version is the one that this was chosen for; a hosted one needs none.
fn control_plane_turn(
    blueprint: &mut Blueprint,
    related: &Related,
    running: &Running,
    meant: &KubernetesVersion,
    is_awaited: bool,
) -> bool {
    let ControlPlane::Standalone(wish) = &mut blueprint.control_plane else {
        return true;
    };
    let stays = running.asked.as_ref() == Some(&blueprint.version);
    match related.image_of_control_plane() {
        Some(image) if (is_awaited && stays) || (!is_awaited && blueprint.version != *meant) => {
            wish.machine.image.clone_from(image);
            true
        }
        _ => !is_awaited,
    }
}

/// The versions that run.
fn running(blueprint: &Blueprint, related: &Related) -> Running {
    let read = |version: Option<&String>| -> Option<KubernetesVersion> {
        kubernetes_version(version?).parse().ok()
    };
    let control_plane = related.control_plane.as_ref().map(|found| &found.facts);
    let mut pools = BTreeMap::new();
    for pool in &blueprint.pools {
        let name = deployment_name(&blueprint.name, &pool.name);
        let Some(found) = related.deployments.get(&name) else {
            continue;
        };
        let Some(asked) = read(found.facts.version.as_ref()) else {
            continue;
        };
        let machines = related.machines.values();
        let machines = machines.filter(|machine| machine.deployment.as_ref() == Some(&name));
        let oldest = machines
            .filter_map(|machine| read(machine.version.as_ref()))
            .min();
        let running = RunningPool {
            oldest: oldest.unwrap_or_else(|| asked.clone()),
            asked,
            is_settled: found.facts.is_settled(),
            image: related.image_of(&name).cloned(),
        };
        pools.insert(pool.name.clone(), running);
    }
    Running {
        asked: control_plane.and_then(|facts| read(facts.wanted.as_ref())),
        reported: control_plane.and_then(|facts| read(facts.version.as_ref())),
        is_settled: control_plane.is_some_and(|facts| facts.available && !facts.rolling_out),
        pools,
    }
}

/// Where Butler does not bring the network of the pods, a machine is ill by its node only once nodes were ready: before, all nodes
/// are like that, and machines would be replaced for ever. What watches over machines remembers it.
pub(super) fn judge_nodes(blueprint: &mut Blueprint, world: &World) {
    let mut machines = world.related.machines.values();
    let were_ready = world.nodes_are_judged || machines.any(MachineFacts::is_ready);
    blueprint.nodes_are_judged |= were_ready;
}

/// A cluster that is over its limits, or may not be where it is, gets no more machines than it has.
pub(super) fn hold_growth(blueprint: &mut Blueprint, related: &Related) {
    for pool in &mut blueprint.pools {
        let name = deployment_name(&blueprint.name, &pool.name);
        let found = related.deployments.get(&name);
        let found = found
            .and_then(|found| found.facts.wanted)
            .unwrap_or_default();
        pool.replicas = pool.replicas.min(found);
    }
}

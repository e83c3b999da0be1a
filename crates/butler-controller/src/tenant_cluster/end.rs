//! The end of a tenant cluster, in order: its workers, so that their nodes are drained while there is an API server; the Cluster,
//! and with it control plane and infrastructure; its addresses, when nobody can announce them any more; its namespace.
//!
//! Pure. Each step waits for the one before it, and says for which object, since when, and what to do if it takes too long. A
//! tenant whose API server does not answer holds nothing up: draining has an end.

use butler_api::{
    butler::{
        image_sync::ImageSync,
        ip_allocation::IPAllocation,
        tenant_cluster::{ManagementMode, TenantCluster, TenantClusterPhase, TenantClusterStatus},
    },
    cluster_api::{cluster::Cluster, machine_group::MachineDeployment},
    conditions::{reasons, types},
    keys::annotations,
};
use butler_runtime::{
    conditions::{Conditions, whole_seconds},
    object::{Kind, ObjectKey},
    plan::{Next, Note, Plan},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Time};
use kube::ResourceExt;

use super::{
    Effect,
    observe::World,
    pause,
    related::Related,
    tenant_namespace,
    why::{Turn, Waiting, trouble},
};

/// After this time, a step that should be short is worth a look.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);

/// As many objects as a message names.
const NAMED: usize = 3;

/// What the end of a cluster waits for, the present step first. Empty when nothing is left that anybody sees here.
pub(super) fn waits(cluster: &TenantCluster, related: &Related) -> Vec<Waiting> {
    let found = [
        forbidden(cluster),
        paused(related),
        workers(related),
        whole(cluster, related),
        namespace(cluster, related),
    ];
    found.into_iter().flatten().collect()
}

/// Whether somebody said that the cluster must stay.
fn forbidden(cluster: &TenantCluster) -> Option<Waiting> {
    let protection = annotations::DELETION_PROTECTION;
    let is_protected = cluster.annotations().get(protection);
    if is_protected.is_some_and(|value| value == "true") {
        let why = "the cluster is protected from deletion";
        let waiting = Waiting::new(types::DELETING, reasons::DELETION_PROTECTED, why);
        let what_to_do = format!("remove the annotation {protection} to let it go");
        return Some(waiting.advise(what_to_do).needs_somebody());
    }
    if super::mode(cluster) == ManagementMode::Observe {
        let why = "spec.managementPolicy.mode is Observe: nothing is deleted";
        let waiting = Waiting::new(types::DELETING, reasons::OBSERVE_ONLY, why);
        let what_to_do = "set it to Active to let the cluster go";
        return Some(waiting.advise(what_to_do).needs_somebody());
    }
    None
}

/// Whether somebody keeps Cluster API from removing anything. What Butler paused itself goes on with this very pass.
fn paused(related: &Related) -> Option<Waiting> {
    let facts = &related.cluster.as_ref()?.facts;
    let how_to_go_on = facts.paused.as_ref();
    let how_to_go_on = how_to_go_on.filter(|_| !facts.rests_with_its_tenant)?;
    let why =
        format!("Cluster API leaves the Cluster alone, since somebody paused it: {how_to_go_on}");
    Some(deleting(why, None))
}

fn deleting(why: String, since: Option<Timestamp>) -> Waiting {
    Waiting::new(types::DELETING, reasons::DELETING, why).since(since)
}

/// The machines of workers, and what they belong to.
fn workers(related: &Related) -> Option<Waiting> {
    let machines: Vec<_> = related.workers().collect();
    let deployments = &related.deployments;
    if machines.is_empty() && deployments.is_empty() && related.sets.is_empty() {
        return None;
    }
    let since = deployments
        .values()
        .filter_map(|found| found.facts.deleted_at);
    let machine_since = machines
        .iter()
        .filter_map(|(_, machine)| machine.deleted_at);
    let since = since.chain(machine_since).min();
    let advice = "look at the named machine, and at the provider; a machine that is gone there may be let go by removing \
        the finalizers of its Machine";
    if machines.is_empty() {
        let names: Vec<_> = deployments
            .keys()
            .chain(related.sets.keys())
            .cloned()
            .collect();
        let why = format!("waiting until Cluster API lets go of {}", some(&names));
        return Some(deleting(why, since).advise(advice));
    }
    let names: Vec<_> = machines.iter().map(|(name, _)| (*name).clone()).collect();
    let troubled = machines.iter().find_map(|(name, machine)| {
        let said = trouble(name, machine, related)?;
        Some((*name, said.words()))
    });
    let words = troubled.map(|(name, words)| format!(" ({name}: {words})"));
    let why = format!(
        "waiting until its machines are gone: {}{}",
        some(&names),
        words.unwrap_or_default()
    );
    Some(deleting(why, since).advise(advice))
}

/// The Cluster, its control plane and its infrastructure.
fn whole(cluster: &TenantCluster, related: &Related) -> Option<Waiting> {
    let name = cluster.name_any();
    let advice = |what: &str| format!("look at the conditions of the {what}");
    if let Some(found) = &related.control_plane
        && (related.cluster.is_some() || found.facts.deleted_at.is_some())
    {
        let said = found.facts.conditions.iter();
        let mut said = said.filter(|said| said.type_ == types::DELETING && said.holds());
        let words = said.next().map(|said| format!(": {}", said.words()));
        let machines = related
            .machines
            .values()
            .filter(|machine| machine.control_plane);
        let machines = machines.count();
        let machines = (machines > 0).then(|| format!(" (machines left: {machines})"));
        let why = format!(
            "waiting until the {} {name} is gone{}{}",
            found.kind,
            words.unwrap_or_default(),
            machines.unwrap_or_default(),
        );
        let since = found.facts.deleted_at;
        let since = since.or_else(|| related.cluster.as_ref()?.facts.deleted_at);
        return Some(deleting(why, since).advise(advice(&format!("{} {name}", found.kind))));
    }
    if let Some(found) = &related.infrastructure
        && (related.cluster.is_some() || found.facts.deleted_at.is_some())
    {
        let said = found.facts.conditions.iter().find(|said| !said.holds());
        let words = said.filter(|_| found.facts.deleted_at.is_some());
        let words = words.map(|said| format!(": {}", said.words()));
        let why = format!(
            "waiting until the {} {name} is gone{}",
            found.kind,
            words.unwrap_or_default()
        );
        let since = found.facts.deleted_at;
        return Some(deleting(why, since).advise(advice(&format!("{} {name}", found.kind))));
    }
    let found = related.cluster.as_ref()?;
    let why = format!("waiting until the Cluster {name} is gone");
    Some(deleting(why, found.facts.deleted_at).advise(advice(&format!("Cluster {name}"))))
}

fn namespace(cluster: &TenantCluster, related: &Related) -> Option<Waiting> {
    let found = related.namespace.as_ref()?;
    // Another's namespace is not ours to wait for.
    if found.owner != cluster.uid() {
        return None;
    }
    let name = tenant_namespace(cluster);
    let why = format!("waiting until the namespace {name} is gone");
    let advice = format!("kubectl describe namespace {name} names what is left in it");
    Some(deleting(why, found.deleted_at).advise(advice))
}

/// Addresses that are not given back yet.
fn addresses(world: &World) -> Option<Waiting> {
    let (key, ..) = world.allocations.first()?;
    let why = format!("waiting until the IPAllocation {key} is released");
    let advice = "its conditions and finalizers say who still uses the addresses";
    Some(deleting(why, None).advise(advice))
}

/// Up to a few of them, and how many more there are.
fn some(names: &[String]) -> String {
    let shown = names
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The next step of the end.
pub(super) fn plan(
    cluster: &TenantCluster,
    world: &World,
    now: Timestamp,
) -> Plan<TenantClusterStatus, Effect> {
    let related = &world.related;
    let waits = waits(cluster, related);
    let before = cluster.status.clone().unwrap_or_default();
    let mut effects: Vec<_> = pause::go_on(cluster, related).into_iter().collect();
    let mut done = false;
    if waits.iter().all(|waiting| waiting.turn != Turn::Person) {
        let (removals, is_last) = step(cluster, world);
        effects.extend(removals);
        done = is_last;
    }
    let first = waits.into_iter().next().or_else(|| addresses(world));
    let asked_at = cluster
        .metadata
        .deletion_timestamp
        .as_ref()
        .map(|time| time.0);
    let finding = told(first.as_ref(), asked_at, now);
    let mut notes = vec![Note::normal(
        "ClusterDeleting",
        "the cluster is being deleted",
    )];
    if finding.0 != reasons::DELETING {
        notes.push(Note::warning(finding.0, &finding.1));
    }
    let is_new = before.phase != Some(TenantClusterPhase::Deleting);
    let status = TenantClusterStatus {
        phase: Some(TenantClusterPhase::Deleting),
        last_transition_time: if is_new {
            Some(Time(whole_seconds(now)))
        } else {
            before.last_transition_time.clone()
        },
        conditions: Conditions::since(&before.conditions, cluster.metadata.generation, now)
            .say(types::READY, false, finding.0, &finding.1)
            .say(types::RUNNING, false, finding.0, &finding.1)
            .say(types::DELETING, true, finding.0, &finding.1)
            .finish(),
        observed_generation: None,
        ..before
    };
    let next = if done {
        Next::Done
    } else if finding.0 == reasons::DELETING {
        // If the present step takes too long, that is to be said although nothing has changed.
        let since = first.and_then(|waiting| waiting.since).or(asked_at);
        let waited = since
            .map(|since| now.duration_since(since))
            .unwrap_or_default();
        let left = PATIENCE
            .saturating_sub(waited)
            .max(SignedDuration::from_secs(1));
        Next::After(left.unsigned_abs())
    } else {
        Next::AwaitChange
    };
    Plan {
        effects,
        notes,
        next,
        ..Plan::status(status)
    }
}

/// What is said of the present step: what it waits for, since when, and what to do once that takes long.
fn told(
    waiting: Option<&Waiting>,
    asked_at: Option<Timestamp>,
    now: Timestamp,
) -> (&'static str, String) {
    let Some(waiting) = waiting else {
        return (reasons::DELETING, String::new());
    };
    let since = waiting.since.or(asked_at);
    let is_long = since.is_some_and(|since| now.duration_since(since) >= PATIENCE);
    let since = since.map(|since| format!(", since {}", whole_seconds(since)));
    let why = format!("{}{}", waiting.why, since.unwrap_or_default());
    let advised = waiting
        .what_to_do
        .as_ref()
        .map(|advice| format!("{why}; {advice}"));
    let reason = match waiting.turn {
        Turn::Person if waiting.reason == reasons::OBSERVE_ONLY => reasons::OBSERVE_ONLY,
        Turn::Person => reasons::DELETION_PROTECTED,
        Turn::Butler if is_long => reasons::DELETION_BLOCKED,
        Turn::Butler => return (reasons::DELETING, why),
    };
    (reason, advised.unwrap_or(why))
}

/// What is removed now, and whether nothing is left.
fn step(cluster: &TenantCluster, world: &World) -> (Vec<Effect>, bool) {
    let related = &world.related;
    let namespace = tenant_namespace(cluster);
    let remove = |kind: Kind, key: ObjectKey, uid: &str| Effect::Remove {
        kind,
        key,
        uid: uid.to_owned(),
    };
    if workers(related).is_some() {
        let standing = related.deployments.iter();
        let standing = standing.filter(|(_, found)| found.facts.deleted_at.is_none());
        let effects = standing.map(|(name, found)| {
            let key = ObjectKey::namespaced(&namespace, name);
            remove(Kind::of::<MachineDeployment>(), key, &found.uid)
        });
        return (effects.collect(), false);
    }
    if let Some(found) = &related.cluster {
        let is_standing = found.facts.deleted_at.is_none();
        let key = ObjectKey::namespaced(&namespace, cluster.name_any());
        let effect = is_standing.then(|| remove(Kind::of::<Cluster>(), key, &found.uid));
        return (effect.into_iter().collect(), false);
    }
    if whole(cluster, related).is_some() {
        return (Vec::new(), false);
    }
    // Nothing is left that could announce an address.
    let allocations = world.allocations.iter().filter(|(_, _, going)| !going);
    let mut effects: Vec<_> = allocations
        .map(|(key, uid, _)| remove(Kind::of::<IPAllocation>(), key.clone(), uid))
        .collect();
    let images = world.images.iter().filter(|(_, image)| !image.going);
    effects.extend(images.map(|(name, image)| {
        let key = ObjectKey::namespaced(cluster.namespace().unwrap_or_default(), name);
        remove(Kind::of::<ImageSync>(), key, &image.uid)
    }));
    let own = related.namespace.as_ref();
    let own = own.filter(|found| found.owner == cluster.uid());
    if let Some(found) = own.filter(|found| found.deleted_at.is_none()) {
        let key = ObjectKey::cluster(&namespace);
        effects.push(remove(Kind::of::<Namespace>(), key, &found.uid));
    }
    let done = own.is_none() && world.allocations.is_empty() && effects.is_empty();
    (effects, done)
}

//! What is to be done for a control plane. Pure.

use butler_api::{
    conditions::{reasons, types},
    keys::finalizers,
    steward::tenant_control_plane::{TenantControlPlane, TenantControlPlaneStatus},
    version::{
        KubernetesVersion,
        rules::{self, VersionRefusal},
    },
};
use butler_runtime::{
    conditions::Conditions,
    plan::{Next, Note, Plan, Prune},
};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{
    Effect,
    look::{Look, installed},
    observe::World,
    part::{is_settled_in, migration_of, own_stores, part_of_store, second_store},
};
use crate::{settings::Settings, store::DiscardOrder};

/// How long a deletion waits for a store that is itself being deleted and does not answer.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// How long a deletion waits for pods that do not end, as on a node that is lost. It is several times the grace that they have.
const PODS_END_WITHIN: SignedDuration = SignedDuration::from_mins(2);

pub(super) fn plan(
    control_plane: &TenantControlPlane,
    world: &World,
    settings: &Settings,
    now: Timestamp,
) -> Plan<TenantControlPlaneStatus, Effect> {
    if control_plane.metadata.deletion_timestamp.is_some() {
        return teardown(control_plane, world, settings, now);
    }
    let (version, refusal) = match version_to_run(control_plane) {
        Ok(found) => found,
        Err(refusal) => return refused(control_plane, &refusal, now),
    };
    let look = Look::new(control_plane, world, &version, settings, now);
    let mut apply = look.always();
    let pods = look.pods();
    let prune = if pods.is_some() {
        look.prune()
    } else {
        Prune::Keep
    };
    apply.extend(pods.into_iter().flatten());
    let status = look.status(refusal.as_ref());
    let due = look
        .review
        .renewal
        .into_iter()
        .chain(look.storage.renewal)
        .chain(look.migration.deadline)
        .min();
    let next = due.map_or(Next::AwaitChange, |due| {
        let wait = due.duration_since(now).max(SignedDuration::from_secs(1));
        wait.try_into().map_or(Next::AwaitChange, Next::After)
    });
    Plan {
        apply,
        prune,
        effects: look.effects().into_iter().chain(freed(world)).collect(),
        notes: look.notes(refusal.as_ref()),
        next,
        ..Plan::status(status)
    }
}

/// The version to run, and why it is not the one that is asked for: what runs goes on running. An error if none can be hosted.
pub(crate) fn version_to_run(
    control_plane: &TenantControlPlane,
) -> Result<(KubernetesVersion, Option<VersionRefusal>), VersionRefusal> {
    let installed = installed(control_plane);
    let refusal = match rules::check(installed, &control_plane.spec.kubernetes.version) {
        Ok(version) => return Ok((version, None)),
        Err(refusal) => refusal,
    };
    match installed.and_then(|installed| installed.parse().ok()) {
        Some(running) => Ok((running, Some(refusal))),
        None => Err(refusal),
    }
}

/// The version that every API server has: that of the last rollout that ended, or that of the first one, which nobody is older than.
pub(crate) fn serving_version(
    control_plane: &TenantControlPlane,
    first: &KubernetesVersion,
) -> KubernetesVersion {
    let installed = installed(control_plane).and_then(|version| version.parse().ok());
    installed.unwrap_or_else(|| first.clone())
}

/// A new control plane whose version cannot be hosted: nothing is made.
fn refused(
    control_plane: &TenantControlPlane,
    refusal: &VersionRefusal,
    now: Timestamp,
) -> Plan<TenantControlPlaneStatus, Effect> {
    let before = control_plane.status.clone().unwrap_or_default();
    let message = format!("spec.kubernetes.version: {refusal}");
    let conditions = Conditions::since(&before.conditions, control_plane.metadata.generation, now)
        .say(types::READY, false, reasons::VALIDATION_FAILED, &message)
        .finish();
    let status = TenantControlPlaneStatus {
        conditions,
        ..before
    };
    Plan {
        notes: vec![Note::warning(reasons::VALIDATION_FAILED, message)],
        ..Plan::status(status)
    }
}

/// The pods go, then its part of the stores: an API server that has lost its store takes all of its grace to end, and one that has
/// not may write. Everything else goes with the object itself.
fn teardown(
    control_plane: &TenantControlPlane,
    world: &World,
    settings: &Settings,
    now: Timestamp,
) -> Plan<TenantControlPlaneStatus, Effect> {
    let before = control_plane.status.clone().unwrap_or_default();
    let since = control_plane.metadata.deletion_timestamp.as_ref();
    let waited = since.map_or(SignedDuration::ZERO, |since| now.duration_since(since.0));
    let left = PODS_END_WITHIN - waited;
    let pods = world.deployment.as_ref().filter(|_| left.is_positive());
    let message = match pods {
        Some(_) => "the control plane is being deleted: its pods end first",
        None => "the control plane is being deleted",
    };
    let conditions = Conditions::since(&before.conditions, control_plane.metadata.generation, now)
        .say(types::READY, false, reasons::DELETING, message)
        .finish();
    let has_state = before
        .storage
        .as_ref()
        .is_some_and(|storage| storage.setup.is_some());
    let status = TenantControlPlaneStatus {
        conditions,
        ..before
    };
    if control_plane
        .finalizers()
        .iter()
        .any(|held| held == finalizers::TENANT_CONTROL_PLANE_SOOT)
    {
        return Plan {
            effects: [Effect::DropLegacyFinalizer]
                .into_iter()
                .chain(freed(world))
                .collect(),
            ..Plan::status(status)
        };
    }
    if let Some(pods) = pods {
        let end = (!pods.is_ending).then(|| Effect::EndPods {
            uid: pods.uid.clone(),
        });
        return Plan {
            effects: [Effect::ReleaseTenant]
                .into_iter()
                .chain(freed(world))
                .chain(end)
                .collect(),
            next: left.try_into().map_or(Next::AwaitChange, Next::After),
            ..Plan::status(status)
        };
    }
    let (schema, user) = part_of_store(control_plane);
    let discard = |stores, established| {
        Effect::DiscardStore(DiscardOrder {
            stores,
            schema: schema.clone(),
            user: user.clone(),
            established,
            patience_is_over: waited > PATIENCE,
        })
    };
    let mut effects = vec![Effect::ReleaseTenant];
    effects.extend(freed(world));
    if has_state {
        let mut stores = own_stores(control_plane, settings);
        // What has its names there is another's.
        stores.retain(|store| !world.rivals.contains_key(store));
        let is_settled = |store: &String| is_settled_in(store, control_plane);
        let (settled, doubtful): (Vec<_>, Vec<_>) = stores.into_iter().partition(is_settled);
        for (stores, established) in [(settled, true), (doubtful, false)] {
            effects.extend((!stores.is_empty()).then(|| discard(stores, established)));
        }
    }
    if let Some(store) = second_store(control_plane) {
        // Only what was copied from is known to be the control plane's.
        let is_ours = migration_of(control_plane)
            .is_some_and(|migration| migration.from == store && migration.entries.is_some());
        effects.push(discard(vec![store.to_owned()], is_ours));
    }
    Plan {
        effects,
        next: Next::Done,
        ..Plan::status(status)
    }
}

/// Frees Secrets that an older release holds. It is gone, and they would outlive the control plane, and their namespace with them.
fn freed(world: &World) -> Option<Effect> {
    let held = world.secrets.iter().filter(|(_, seen)| seen.value.is_held);
    let roles: Vec<_> = held.map(|(role, _)| *role).collect();
    (!roles.is_empty()).then_some(Effect::FreeSecrets { roles })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

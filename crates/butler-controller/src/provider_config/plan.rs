//! Decides whether a provider can be used, and by how many.

use butler_api::{
    butler::provider_config::{
        NetworkMode, Provider, ProviderCapacity, ProviderConfig, ProviderConfigStatus, ScopeType,
    },
    conditions::{reasons, types},
};
use butler_runtime::{
    conditions::{Answer, Conditions, Finding, whole_seconds},
    object::ObjectKey,
    plan::{Next, Note, Plan},
    reconciler::NoEffect,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::observe::{World, credentials_key, team};

/// Addresses a tenant cluster is expected to take beside those of its load balancers: its endpoint and a few nodes.
const ADDRESSES_PER_TENANT: i32 = 5;
/// Load balancer addresses of a tenant cluster where the provider does not say.
const LOAD_BALANCER_ADDRESSES: i32 = 8;
/// As many names as fit into a sentence.
const NAMES_SHOWN: usize = 3;

pub(super) fn plan(
    provider: &ProviderConfig,
    world: &World,
    now: Timestamp,
) -> Plan<ProviderConfigStatus, NoEffect> {
    let credentials = credentials(provider, world);
    let scope = scope(provider, world);
    let addresses = addresses(provider, world);
    let limits = limits(provider, world);
    let deletion = deletion(provider, world);
    let validated = credentials.answer == Answer::True;
    let ready = ready(
        &credentials,
        scope.as_ref(),
        addresses.as_ref(),
        deletion.as_ref(),
    );

    let findings = [
        Some((types::CREDENTIALS_VALID, credentials)),
        addresses.map(|finding| (types::POOL_AVAILABLE, finding)),
        limits.map(|finding| (types::QUOTA_SATISFIED, finding)),
        Some((types::READY, ready)),
    ];
    let previous = provider.status.clone().unwrap_or_default();
    let mut notes = Vec::new();
    let mut is_ready = false;
    let mut conditions = Conditions::since(&previous.conditions, provider.metadata.generation, now);
    for (type_, finding) in findings.into_iter().flatten() {
        // What keeps it from being ready has mostly been said by another condition already.
        if finding.answer == Answer::False
            && notes
                .iter()
                .all(|note: &Note| note.message != finding.message)
        {
            notes.push(Note::warning(finding.reason, &finding.message));
        }
        is_ready = type_ == types::READY && finding.answer == Answer::True;
        conditions = conditions.tell(type_, finding);
    }
    let status = ProviderConfigStatus {
        conditions: conditions.finish(),
        validated: Some(validated),
        ready: Some(is_ready),
        capacity: capacity(provider, world),
        last_validation_time: validation_time(
            &previous,
            validated,
            provider.metadata.generation,
            now,
        ),
        ..ProviderConfigStatus::default()
    };
    let done = provider.metadata.deletion_timestamp.is_some() && world.clusters.is_empty();
    let next = if done { Next::Done } else { Next::AwaitChange };
    Plan {
        notes,
        next,
        ..Plan::status(status)
    }
}

fn credentials(provider: &ProviderConfig, world: &World) -> Finding {
    if provider.spec.provider == Provider::Local && provider.spec.credentials_ref.is_none() {
        return Finding::new(
            true,
            reasons::CREDENTIALS_NOT_REQUIRED,
            "the machine Butler stands on needs no credentials",
        );
    }
    let invalid = |message| Finding::new(false, reasons::CREDENTIALS_INVALID, message);
    let Some(key) = credentials_key(provider) else {
        return invalid(
            "spec.credentialsRef: required for this provider; name a Secret".to_owned(),
        );
    };
    match &world.credentials {
        None => invalid(format!(
            "spec.credentialsRef: the Secret {key} does not exist; create it"
        )),
        Some(shape) if shape.defects.is_empty() => {
            Finding::new(true, reasons::CREDENTIALS_VALID, "")
        }
        Some(shape) => invalid(format!(
            "the Secret {key}: {}; correct it",
            shape.defects.join(", ")
        )),
    }
}

/// What is wrong with the scope, if anything is.
fn scope(provider: &ProviderConfig, world: &World) -> Option<Finding> {
    let scope = provider
        .spec
        .scope
        .as_ref()
        .filter(|scope| scope.kind == ScopeType::Team)?;
    let invalid = |reason, message| Some(Finding::new(false, reason, message));
    match team(provider).filter(|_| scope.team_ref.is_some()) {
        None => invalid(
            reasons::VALIDATION_FAILED,
            "spec.scope.teamRef: required when spec.scope.type is team".to_owned(),
        ),
        Some(team) if !world.team_exists => {
            let message = format!(
                "spec.scope.teamRef: the Team {team} does not exist; create it or correct the reference"
            );
            invalid(reasons::TEAM_NOT_FOUND, message)
        }
        Some(_) => None,
    }
}

fn uses_pools(provider: &ProviderConfig) -> bool {
    provider
        .spec
        .network
        .as_ref()
        .is_some_and(|network| network.mode == NetworkMode::Ipam)
}

/// How the address pools stand, where they are used.
fn addresses(provider: &ProviderConfig, world: &World) -> Option<Finding> {
    if !uses_pools(provider) {
        return None;
    }
    if world.pools.is_empty() {
        let message = "spec.network.poolRefs: required when spec.network.mode is ipam";
        return Some(Finding::new(false, reasons::VALIDATION_FAILED, message));
    }
    let missing = names(
        world
            .pools
            .iter()
            .filter(|(_, pool)| pool.is_none())
            .map(|(key, _)| key),
    );
    if !missing.is_empty() {
        let message = format!(
            "spec.network.poolRefs: no NetworkPool {missing}; create it or correct the reference"
        );
        return Some(Finding::new(false, reasons::POOL_NOT_FOUND, message));
    }
    let silent = names(
        world
            .pools
            .iter()
            .filter(|(_, pool)| **pool == Some(None))
            .map(|(key, _)| key),
    );
    if !silent.is_empty() {
        let message = format!("the NetworkPool {silent} has not counted its addresses yet");
        return Some(Finding::new(
            Answer::Unknown,
            reasons::NOT_YET_REPORTED,
            message,
        ));
    }
    Some(match available(world) {
        0 => {
            let pools = names(world.pools.keys());
            let message = format!(
                "no address is left in {pools}; grow a pool or add another to spec.network.poolRefs"
            );
            Finding::new(false, reasons::POOL_EXHAUSTED, message)
        }
        left => Finding::new(
            true,
            reasons::POOL_AVAILABLE,
            format!("{left} addresses left"),
        ),
    })
}

/// A pool that gave out more than it has takes nothing from the others.
fn available(world: &World) -> i32 {
    world
        .pools
        .values()
        .filter_map(|pool| pool.flatten())
        .map(|left| left.max(0))
        .fold(0, i32::saturating_add)
}

fn capacity(provider: &ProviderConfig, world: &World) -> Option<ProviderCapacity> {
    let counted = world
        .pools
        .values()
        .all(|pool| matches!(pool, Some(Some(_))));
    if !uses_pools(provider) || world.pools.is_empty() || !counted {
        return None;
    }
    let load_balancer = provider
        .spec
        .network
        .as_ref()
        .and_then(|network| network.load_balancer.as_ref());
    let pool_size = load_balancer.map_or(LOAD_BALANCER_ADDRESSES, |settings| {
        settings.default_pool_size
    });
    let available = available(world);
    Some(ProviderCapacity {
        available_ips: Some(available),
        estimated_tenants: Some(available / ADDRESSES_PER_TENANT.saturating_add(pool_size.max(0))),
    })
}

/// Whether the teams keep the limits, where there are any. New clusters over a limit are refused on their way in; this shows
/// what was there before the limit.
fn limits(provider: &ProviderConfig, world: &World) -> Option<Finding> {
    let limits = provider.spec.limits.as_ref()?;
    let over = world.usage.iter().filter_map(|(team, usage)| {
        let clusters = limits
            .max_clusters_per_team
            .filter(|limit| usage.clusters > *limit);
        let nodes = limits
            .max_nodes_per_team
            .filter(|limit| usage.nodes > *limit);
        let clusters = clusters.map(|limit| format!("{} of {limit} clusters", usage.clusters));
        let nodes = nodes.map(|limit| format!("{} of {limit} nodes", usage.nodes));
        let words: Vec<_> = clusters.into_iter().chain(nodes).collect();
        (!words.is_empty()).then(|| format!("team {team} has {}", words.join(" and ")))
    });
    let over: Vec<_> = over.take(NAMES_SHOWN).collect();
    Some(if over.is_empty() {
        Finding::new(true, reasons::WITHIN_QUOTA, "")
    } else {
        let message = format!(
            "spec.limits: {}; raise the limit or have clusters removed",
            over.join("; ")
        );
        Finding::new(false, reasons::QUOTA_EXCEEDED, message)
    })
}

fn deletion(provider: &ProviderConfig, world: &World) -> Option<Finding> {
    provider.metadata.deletion_timestamp.as_ref()?;
    let users = names(world.clusters.iter());
    Some(if users.is_empty() {
        Finding::new(false, reasons::DELETING, "the provider is being deleted")
    } else {
        let message = format!("the deletion waits for the clusters that use the provider: {users}");
        Finding::new(false, reasons::DELETION_BLOCKED, message)
    })
}

/// Ready means that clusters can be made with it: exhausted pools stop only those that want addresses.
fn ready(
    credentials: &Finding,
    scope: Option<&Finding>,
    addresses: Option<&Finding>,
    deletion: Option<&Finding>,
) -> Finding {
    let broken_references = addresses.filter(|finding| {
        finding.answer == Answer::False && finding.reason != reasons::POOL_EXHAUSTED
    });
    let obstacles = [
        deletion,
        Some(credentials).filter(|finding| finding.answer != Answer::True),
        scope,
        broken_references,
    ];
    obstacles.into_iter().flatten().next().map_or_else(
        || Finding::new(true, reasons::READY, ""),
        |obstacle| Finding::new(false, obstacle.reason, &obstacle.message),
    )
}

/// When the credentials were last found to be what they are now, for this generation.
fn validation_time(
    previous: &ProviderConfigStatus,
    validated: bool,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Time> {
    let unchanged =
        previous.validated == Some(validated) && previous.observed_generation == generation;
    let before = previous.last_validation_time.clone().filter(|_| unchanged);
    before.or_else(|| Some(Time(whole_seconds(now))))
}

fn names<'a>(keys: impl Iterator<Item = &'a ObjectKey>) -> String {
    let keys: Vec<_> = keys.map(ToString::to_string).collect();
    match keys.len().checked_sub(NAMES_SHOWN) {
        Some(more) if more > 0 => format!("{} and {more} more", keys[..NAMES_SHOWN].join(", ")),
        _ => keys.join(", "),
    }
}

#[cfg(test)]
#[path = "plan_properties.rs"]
mod properties;
#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

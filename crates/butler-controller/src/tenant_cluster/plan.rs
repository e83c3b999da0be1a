//! Decides what is made for a tenant cluster, and when. Everything that can be made at once is made in one pass.

use butler_api::{
    butler::{
        load_balancer_request::LoadBalancerTarget,
        provider_config::ProviderConfig,
        tenant_cluster::{ManagementMode, TenantCluster, TenantClusterPhase, TenantClusterStatus},
    },
    cluster_api::contract::ControlPlaneEndpoint,
    conditions::{reasons, types},
};
use butler_runtime::{
    conditions::Finding,
    object::{Manifest, ObjectKey},
    plan::{Next, Note, Plan, Prune},
};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{
    Effect, addons, addresses,
    blueprint::{self, Blueprint, Infrastructure, Surroundings},
    build, credentials, end, features,
    image::{self, Images},
    judge::{self, Refusal, Taken},
    kept, mode,
    observe::World,
    origin, pause,
    rolling::{self, Scaling},
    status::{self, Findings, Uses},
    upgrade::Progress,
    why::{self, Turn, Waiting},
};

/// Port of the API servers of a control plane on machines of its own.
const API_SERVER_PORT: i32 = 6443;

pub(super) fn plan(
    cluster: &TenantCluster,
    world: &World,
    now: Timestamp,
) -> Plan<TenantClusterStatus, Effect> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return end::plan(cluster, world, now);
    }
    let mut draft = draft(cluster, world, now);
    if mode(cluster) == ManagementMode::Observe {
        draft = draft.observed(world);
    }
    let status = status::status(cluster, world, &draft.findings, now);
    let notes = notes(cluster, &draft, &status);
    let mut effects: Vec<_> = pause::go_on(cluster, &world.related).into_iter().collect();
    effects.extend(draft.effects);
    Plan {
        apply: draft.apply,
        prune: draft.prune,
        effects,
        notes,
        next: draft.next,
        ..Plan::status(status)
    }
}

/// What is to be done, and what was found out.
struct Draft {
    apply: Vec<Manifest>,
    prune: Prune,
    effects: Vec<Effect>,
    findings: Findings,
    next: Next,
}

impl Draft {
    /// Nothing is made; the waits say why.
    fn nothing(cluster: &TenantCluster, world: &World, mut waits: Vec<Waiting>) -> Self {
        let is_begun = world.related.namespace.is_some();
        if is_begun {
            waits.extend(why::tenant(cluster, &world.related));
        } else {
            let why = "nothing is made yet; the condition Ready says why";
            let parts = [
                types::NETWORK_READY,
                types::IMAGE_READY,
                types::INFRASTRUCTURE_READY,
                types::CONTROL_PLANE_READY,
                types::WORKERS_READY,
                types::ADDONS_READY,
            ];
            for part in parts {
                if waits.iter().all(|waiting| waiting.what != part) {
                    waits.push(Waiting::new(part, reasons::WAITING_FOR_DEPENDENCIES, why));
                }
            }
        }
        Self {
            apply: Vec::new(),
            prune: Prune::Keep,
            effects: Vec::new(),
            findings: Findings {
                waits,
                holding: Vec::new(),
                progress: Progress::Arrived,
                is_begun,
                uses: None,
                scaling: Vec::new(),
            },
            next: Next::AwaitChange,
        }
    }

    /// The same for a cluster that is only looked at.
    fn observed(self, world: &World) -> Self {
        let mut findings = self.findings;
        findings.is_begun = world.related.namespace.is_some();
        findings.scaling.clear();
        if !findings.is_begun {
            let why = "spec.managementPolicy.mode is Observe: nothing is made";
            let waiting = Waiting::new(types::INFRASTRUCTURE_READY, reasons::OBSERVE_ONLY, why);
            findings.waits.insert(0, waiting.advise("set it to Active"));
        }
        Self {
            apply: Vec::new(),
            prune: Prune::Keep,
            effects: Vec::new(),
            findings,
            next: Next::AwaitChange,
        }
    }
}

fn draft(cluster: &TenantCluster, world: &World, now: Timestamp) -> Draft {
    let related = &world.related;
    let (mut waits, refusal) = judge::judged(cluster, world);
    let Some(provider) = &world.provider else {
        return Draft::nothing(cluster, world, waits);
    };
    if let Some(waiting) = origin::left(provider, related) {
        // Rules that are broken by it are mended with it.
        waits.insert(0, waiting);
        return Draft::nothing(cluster, world, waits);
    }
    let is_made = related.cluster.is_some();
    if refusal == Refusal::Everything || (refusal >= Refusal::Growth && !is_made) {
        return Draft::nothing(cluster, world, waits);
    }
    if let Some(obstacle) = judge::obstacle(provider, &world.credentials).filter(|_| !is_made) {
        waits.push(obstacle);
        return Draft::nothing(cluster, world, waits);
    }
    let namespace = related.namespace.as_ref();
    if namespace.is_some_and(|found| found.owner != cluster.uid() || found.deleted_at.is_some()) {
        return Draft::nothing(cluster, world, waits);
    }
    let images = match image::plan(cluster, world, provider) {
        Ok(images) => images,
        Err(waiting) => {
            waits.push(*waiting);
            return Draft::nothing(cluster, world, waits);
        }
    };
    let mut blueprint =
        match blueprint::blueprint(cluster, &surroundings(cluster, world, provider, &images)) {
            Ok(blueprint) => blueprint,
            Err(findings) => {
                waits.extend(findings.iter().map(unresolved));
                return Draft::nothing(cluster, world, waits);
            }
        };
    judge::judge_nodes(&mut blueprint, world);
    let taken = judge::take_turns(&mut blueprint, related, &images, refusal);
    if refusal == Refusal::Growth {
        judge::hold_growth(&mut blueprint, related);
    }
    let decided = Decided {
        blueprint,
        images,
        waits,
        taken,
    };
    compose(cluster, world, provider, decided, now)
}

/// What keeps a wish from being resolved. Of what is missing somebody else takes care; the rest is for whoever wrote it.
fn unresolved(finding: &Finding) -> Waiting {
    let waiting = |what: &str| Waiting::new(what, finding.reason, &finding.message);
    if finding.reason == reasons::WAITING_FOR_DEPENDENCIES {
        waiting(types::INFRASTRUCTURE_READY)
    } else {
        waiting(types::READY).needs_somebody()
    }
}

fn surroundings(
    cluster: &TenantCluster,
    world: &World,
    provider: &ProviderConfig,
    images: &Images,
) -> Surroundings {
    let balancer = world.related.balancer.as_ref();
    let endpoint = balancer.and_then(|balancer| balancer.endpoint.clone());
    Surroundings {
        config: world.config.clone(),
        team: world
            .team
            .clone()
            .filter(|_| cluster.spec.team_ref.is_some()),
        provider: provider.clone(),
        images: images.by_field(),
        settled: origin::settled(&world.related),
        exposure_address: world.exposure_address.clone(),
        endpoint: endpoint.map(|host| ControlPlaneEndpoint {
            host,
            port: API_SERVER_PORT,
        }),
        trust_bundle: world.credentials.trust_bundle.clone(),
    }
}

/// What is decided before objects are made.
struct Decided {
    blueprint: Blueprint,
    images: Images,
    waits: Vec<Waiting>,
    taken: Taken,
}

/// All objects of a cluster.
fn compose(
    cluster: &TenantCluster,
    world: &World,
    provider: &ProviderConfig,
    decided: Decided,
    now: Timestamp,
) -> Draft {
    let Decided {
        blueprint,
        images,
        mut waits,
        taken: Taken {
            progress,
            has_control_plane,
        },
    } = decided;
    let blueprint = &blueprint;
    let related = &world.related;
    let sight = addresses::Sight {
        cluster,
        provider,
        pools: &world.pools,
        first: world.addresses.as_ref(),
        added: &world.added_addresses,
        demand: world.demand,
    };
    let addresses = addresses::plan(&sight, now);
    let mut holding = vec![
        (
            types::PROVIDER_ACCESS_GRANTED,
            judge::granted(cluster, world),
        ),
        (types::NETWORK_READY, addresses.finding),
    ];
    waits.extend(addresses.waiting);
    let allocation = addresses
        .manifests
        .first()
        .map(|found| found.key.name.clone());

    let mut apply = vec![build::namespace(blueprint)];
    apply.extend(build::access(blueprint));
    apply.extend(addresses.manifests);
    if images.is_empty() {
        let finding = Finding::new(true, reasons::NOT_REQUIRED, "");
        holding.push((types::IMAGE_READY, finding));
    }
    // What is there already works on with the image that it has, so a later wish for another takes nothing from the cluster.
    let is_held_up = !has_control_plane || images.hold_up(blueprint);
    match images.on_the_way().filter(|_| !is_held_up) {
        Some(finding) => holding.push((types::IMAGE_READY, finding)),
        None => waits.extend(images.waiting()),
    }
    apply.extend(images.manifests().cloned());
    apply.push(build::infrastructure(blueprint));
    let targets: Vec<_> = related
        .control_plane_addresses()
        .map(|address| LoadBalancerTarget {
            ip: Some(address.to_owned()),
            ..LoadBalancerTarget::default()
        })
        .collect();
    apply.extend(build::load_balancer(blueprint, &targets));
    if has_control_plane {
        apply.extend(build::control_plane(blueprint));
        apply.extend(build::control_plane_health(blueprint));
    }
    apply.push(build::cluster(blueprint));
    let pools = blueprint.pools.iter();
    apply.extend(pools.flat_map(|pool| build::pool(blueprint, pool)));

    let mut effects = addresses.effects;
    match credentials::plan(&world.credentials) {
        Ok(effect) => effects.extend(effect),
        Err(waiting) => waits.push(*waiting),
    }
    let stays = origin::stays(blueprint, world.config.as_ref());
    holding.extend(stays.map(|finding| (types::CONTROL_PLANE_READY, finding)));
    holding
        .extend(trust(blueprint).map(|finding| (types::NUTANIX_CREDENTIALS_TRUST_BUNDLE, finding)));
    waits.extend(why::tenant(cluster, related));
    match addons::judge(cluster, provider, blueprint.cni) {
        Ok(finding) => holding.push((types::ADDONS_READY, finding)),
        Err(waiting) => waits.push(*waiting),
    }
    let features = features::judge(cluster, provider, blueprint.cni);
    holding.extend(features.map(|finding| (types::FEATURES_AVAILABLE, finding)));
    Draft {
        apply,
        // What waits for its image is not there to be listed, but must not go either.
        prune: if is_held_up {
            Prune::Keep
        } else {
            Prune::UnlistedBut(kept::kept(cluster, world))
        },
        effects,
        findings: Findings {
            waits,
            holding,
            progress,
            is_begun: true,
            uses: Some(Uses {
                provider: ObjectKey::of(provider),
                image_sync: images
                    .manifests()
                    .next()
                    .map(|found| found.key.name.clone()),
                allocation,
            }),
            scaling: rolling::scaling(blueprint, related),
        },
        next: addresses
            .next
            .map_or(Next::AwaitChange, |at| until(at, now)),
    }
}

/// Another look then, and not before a second has passed.
fn until(at: Timestamp, now: Timestamp) -> Next {
    let wait = at.duration_since(now).max(SignedDuration::from_secs(1));
    Next::After(wait.unsigned_abs())
}

/// Whether the certificate of Nutanix' API is checked by something.
fn trust(blueprint: &Blueprint) -> Option<Finding> {
    let Infrastructure::Nutanix(place) = &blueprint.infrastructure else {
        return None;
    };
    Some(if place.insecure || place.trust_bundle.is_some() {
        Finding::new(true, reasons::READY, "")
    } else {
        let message = "the credentials have no ca.pem, so the certificate of Prism Central must be from an authority that \
            everybody knows; add ca.pem to the Secret if it is not";
        Finding::new(false, reasons::MISSING_TRUST_BUNDLE, message)
    })
}

/// What is worth telling: where the cluster has come to, and what a person must do.
fn notes(cluster: &TenantCluster, draft: &Draft, status: &TenantClusterStatus) -> Vec<Note> {
    let before = cluster.status.as_ref().and_then(|status| status.phase);
    let mut notes = Vec::new();
    if before != status.phase {
        match status.phase {
            Some(TenantClusterPhase::Provisioning) => notes.push(Note::normal(
                "ClusterProvisioning",
                "the cluster is being made",
            )),
            Some(TenantClusterPhase::Ready) => {
                notes.push(Note::normal("ClusterReady", "the cluster is ready"));
            }
            _ => {}
        }
    }
    for Scaling { pool, from, to } in &draft.findings.scaling {
        let message = format!("the pool {pool} goes from {from} to {to} workers");
        notes.push(Note::normal("ClusterScaling", message));
    }
    let is_failed = status.phase == Some(TenantClusterPhase::Failed);
    let mut person = draft.findings.waits.iter();
    let person = person.find(|waiting| waiting.turn == Turn::Person);
    if let Some(waiting) = person {
        let reason = if is_failed {
            "ClusterFailed"
        } else {
            reasons::RECONCILE_DEGRADED
        };
        notes.push(Note::warning(reason, waiting.message()));
    }
    if let Progress::Refused(why) = &draft.findings.progress {
        notes.push(Note::warning(reasons::VERSION_SKEW, why));
    }
    notes
}

#[cfg(test)]
#[path = "plan_end_tests.rs"]
mod end_tests;
#[cfg(test)]
#[path = "plan_origin_tests.rs"]
mod origin_tests;
#[cfg(test)]
#[path = "plan_parts_tests.rs"]
mod parts_tests;
#[cfg(test)]
#[path = "plan_rolling_tests.rs"]
mod rolling_tests;
#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

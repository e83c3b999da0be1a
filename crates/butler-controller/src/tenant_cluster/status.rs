//! What a tenant cluster shows: conditions from what it waits for, a phase from the conditions, and what was counted.

use butler_api::{
    butler::tenant_cluster::{
        ObservedNodePool, ObservedState, ObservedVersions, ObservedWorkers, Stage, StageName,
        TenantCluster, TenantClusterPhase, TenantClusterStatus,
    },
    cluster_api::contract::ControlPlaneEndpoint,
    conditions::{reasons, types},
    normalize::tenant_cluster::pools,
    reference::{LocalReference, NamespacedReference},
    version::KubernetesVersion,
};
use butler_runtime::{
    conditions::{Conditions, Finding, whole_seconds},
    object::ObjectKey,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{
    deployment_name,
    observe::World,
    rolling::{Scaling, are_as_many_as_granted, rolling},
    tenant_namespace,
    upgrade::Progress,
    why::{Turn, Waiting},
};

/// What was found out about a cluster that shall be there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Findings {
    /// What is waited for, the first obstacle first.
    pub(super) waits: Vec<Waiting>,
    /// What is said of the conditions that hold, beside what is usual.
    pub(super) holding: Vec<(&'static str, Finding)>,
    /// How far an upgrade has come.
    pub(super) progress: Progress,
    /// Whether something of the cluster exists, or is made in this pass.
    pub(super) is_begun: bool,
    /// What the cluster uses from now on; `None` if nothing was decided, and what was said before still holds.
    pub(super) uses: Option<Uses>,
    /// The pools that get another number of workers in this pass: what is seen of them speaks of the old number still.
    pub(super) scaling: Vec<Scaling>,
}

/// What a cluster uses beside what is in its namespace.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Uses {
    /// The provider it runs on.
    pub(super) provider: ObjectKey,
    /// Its `ImageSync` by name.
    pub(super) image_sync: Option<String>,
    /// Its first `IPAllocation` by name.
    pub(super) allocation: Option<String>,
}

/// Conditions in the order they are shown, with the reason of those that hold.
const CONDITIONS: [(&str, &str); 8] = [
    (types::PROVIDER_ACCESS_GRANTED, reasons::READY),
    (types::QUOTA_SATISFIED, reasons::WITHIN_QUOTA),
    (types::NETWORK_READY, reasons::READY),
    (types::IMAGE_READY, reasons::IMAGE_READY),
    (types::INFRASTRUCTURE_READY, reasons::INFRASTRUCTURE_READY),
    (types::CONTROL_PLANE_READY, reasons::CONTROL_PLANE_READY),
    (types::WORKERS_READY, reasons::WORKERS_READY),
    (types::ADDONS_READY, reasons::ADDONS_INSTALLED),
];

/// Whether a cluster was ready once.
pub(super) fn was_ready(status: &TenantClusterStatus) -> bool {
    let phases = [TenantClusterPhase::Ready, TenantClusterPhase::Updating];
    let is_shown = status.phase.is_some_and(|phase| phases.contains(&phase));
    let stages = &status.stages;
    let is_recorded =
        stages.len() == STAGES.len() && stages.iter().all(|stage| stage.finished_at.is_some());
    is_shown || is_recorded
}

/// What a cluster shows that shall be there.
pub(super) fn status(
    cluster: &TenantCluster,
    world: &World,
    findings: &Findings,
    now: Timestamp,
) -> TenantClusterStatus {
    let before = cluster.status.clone().unwrap_or_default();
    let was_ready = was_ready(&before);
    // What a person must change takes nothing from a cluster that was ready: it works on as it is, and says so.
    let (refusals, mut obstacles): (Vec<_>, Vec<_>) = findings
        .waits
        .iter()
        .partition(|waiting| was_ready && waiting.turn == Turn::Person);
    if !refusals.is_empty() && are_as_many_as_granted(&world.related) {
        obstacles.retain(|waiting| waiting.what != types::WORKERS_READY);
    }
    let obstacle = obstacles.first().copied();
    // On the way to the first time nothing is replaced, whatever is still missing.
    let rolling = rolling(cluster, &world.related, findings).filter(|_| was_ready);
    let phase = phase(findings, obstacle, was_ready, rolling.is_some());
    let mut conditions = Conditions::since(&before.conditions, cluster.metadata.generation, now);
    for (type_, usual) in CONDITIONS {
        let waiting = findings.waits.iter().find(|waiting| waiting.what == type_);
        let mut holding = findings.holding.iter();
        let holding = holding
            .find(|(of, _)| *of == type_)
            .map(|(_, finding)| finding);
        let mut known = before.conditions.iter();
        let known = known.find(|known| known.type_ == type_ && findings.uses.is_none());
        conditions = match (waiting, holding, known) {
            (Some(waiting), ..) => conditions.say(type_, false, &waiting.reason, waiting.message()),
            (None, Some(finding), _) => conditions.tell(type_, finding.clone()),
            (None, None, Some(known)) => {
                conditions.say(type_, known.status == "True", &known.reason, &known.message)
            }
            (None, None, None) => conditions.say(type_, true, usual, ""),
        };
    }
    let further = findings.holding.iter();
    let further = further.filter(|(type_, _)| CONDITIONS.iter().all(|(shown, _)| shown != type_));
    for (type_, finding) in further {
        conditions = conditions.tell(type_, finding.clone());
    }
    conditions = match (&findings.progress, &rolling) {
        (Progress::Refused(why), _) => {
            conditions.say(types::ROLLING_OUT, false, reasons::VERSION_SKEW, why)
        }
        (Progress::Underway(text), _) => {
            conditions.say(types::ROLLING_OUT, true, reasons::UPGRADING, text)
        }
        (Progress::Arrived, Some(text)) => {
            conditions.say(types::ROLLING_OUT, true, reasons::ROLLING_OUT, text)
        }
        (Progress::Arrived, None) => conditions.say(types::ROLLING_OUT, false, reasons::READY, ""),
    };
    for type_ in [types::READY, types::RUNNING] {
        conditions = match (obstacle, refusals.first()) {
            (Some(waiting), _) => conditions.say(type_, false, &waiting.reason, waiting.message()),
            (None, Some(refusal)) => {
                conditions.say(type_, true, reasons::RECONCILE_DEGRADED, refusal.message())
            }
            (None, None) => conditions.say(type_, true, reasons::READY, ""),
        };
    }
    let related = &world.related;
    let endpoint = related.cluster.as_ref();
    let endpoint = endpoint.and_then(|cluster| cluster.facts.endpoint.as_ref());
    let counted = counted(cluster, world);
    let (desired, ready) = (
        counted.iter().map(|pool| pool.desired).sum(),
        counted.iter().map(|pool| pool.ready).sum(),
    );
    let local = |name: String| LocalReference { name };
    let uses = match &findings.uses {
        Some(uses) => (
            Some(NamespacedReference {
                name: uses.provider.name.clone(),
                namespace: uses.provider.namespace.clone(),
            }),
            uses.image_sync.clone().map(local),
            uses.allocation.clone().map(local),
        ),
        None => (
            before.provider_config_ref.clone(),
            before.image_sync_ref.clone(),
            before.lb_allocation_ref.clone(),
        ),
    };
    TenantClusterStatus {
        last_transition_time: if before.phase == Some(phase) {
            before.last_transition_time.clone()
        } else {
            Some(Time(whole_seconds(now)))
        },
        phase: Some(phase),
        conditions: conditions.finish(),
        provider_config_ref: uses.0,
        tenant_namespace: findings.is_begun.then(|| tenant_namespace(cluster)),
        control_plane_endpoint: endpoint.map(written),
        kubeconfig_secret_ref: related.kubeconfig.clone().map(local),
        image_sync_ref: uses.1,
        ip_allocation_ref: world.machine_addresses.clone().map(local),
        lb_allocation_ref: uses.2,
        worker_nodes_ready: Some(ready),
        worker_nodes_desired: Some(desired),
        versions: versions(world),
        stages: stages(cluster, &before.stages, &findings.waits, now),
        observed_state: Some(ObservedState {
            kubernetes_version: control_plane_version(world),
            workers: Some(ObservedWorkers {
                desired,
                ready,
                nodes: related
                    .workers()
                    .filter_map(|(_, machine)| machine.node.clone())
                    .collect(),
            }),
            addons: before
                .observed_state
                .map(|state| state.addons)
                .unwrap_or_default(),
        }),
        node_pools: counted,
        observed_generation: None,
    }
}

/// Host and port, as they are written in an address.
fn written(endpoint: &ControlPlaneEndpoint) -> String {
    let ControlPlaneEndpoint { host, port } = endpoint;
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

fn phase(
    findings: &Findings,
    obstacle: Option<&Waiting>,
    was_ready: bool,
    is_rolling: bool,
) -> TenantClusterPhase {
    let Some(obstacle) = obstacle else {
        return if was_ready && is_rolling {
            TenantClusterPhase::Updating
        } else {
            TenantClusterPhase::Ready
        };
    };
    // A cluster that was ready is not failed by what happens to it later: it works, or comes back.
    if was_ready {
        return TenantClusterPhase::Updating;
    }
    if findings
        .waits
        .iter()
        .any(|waiting| waiting.turn == Turn::Person)
    {
        return TenantClusterPhase::Failed;
    }
    if !findings.is_begun {
        return TenantClusterPhase::Pending;
    }
    if obstacle.what == types::ADDONS_READY {
        TenantClusterPhase::Installing
    } else {
        TenantClusterPhase::Provisioning
    }
}

/// The workers by pool.
fn counted(cluster: &TenantCluster, world: &World) -> Vec<ObservedNodePool> {
    let name = cluster.name_any();
    let count = |pool: butler_api::normalize::tenant_cluster::Pool| {
        let found = world
            .related
            .deployments
            .get(&deployment_name(&name, &pool.name));
        let facts = found.map(|found| &found.facts);
        ObservedNodePool {
            name: pool.name,
            desired: pool.replicas,
            ready: facts.map_or(0, |facts| facts.ready),
            updated: facts.map_or(0, |facts| facts.updated),
            version: facts.and_then(|facts| facts.version.clone()),
        }
    };
    pools(&cluster.spec).into_iter().map(count).collect()
}

fn control_plane_version(world: &World) -> Option<String> {
    let control_plane = world.related.control_plane.as_ref()?;
    control_plane.facts.version.clone()
}

fn versions(world: &World) -> Option<ObservedVersions> {
    let machines = world
        .related
        .workers()
        .filter_map(|(_, machine)| machine.version.as_ref());
    let mut versions: Vec<KubernetesVersion> = machines
        .filter_map(|version| version.parse().ok())
        .collect();
    versions.sort();
    let found = ObservedVersions {
        control_plane: control_plane_version(world),
        oldest_worker: versions.first().map(ToString::to_string),
        newest_worker: versions.last().map(ToString::to_string),
    };
    (found != ObservedVersions::default()).then_some(found)
}

/// Each stage, what must not be waited for when it ends, and the stages that it needs.
const STAGES: [(StageName, &[&str], &[StageName]); 5] = [
    (
        StageName::Preparation,
        &[
            types::PROVIDER_ACCESS_GRANTED,
            types::QUOTA_SATISFIED,
            types::NETWORK_READY,
            types::IMAGE_READY,
        ],
        &[],
    ),
    (
        StageName::Infrastructure,
        &[types::INFRASTRUCTURE_READY],
        &[],
    ),
    (StageName::ControlPlane, &[types::CONTROL_PLANE_READY], &[]),
    (
        StageName::Workers,
        &[types::WORKERS_READY],
        &[StageName::Infrastructure, StageName::ControlPlane],
    ),
    (
        StageName::Addons,
        &[types::ADDONS_READY],
        &[StageName::ControlPlane, StageName::Workers],
    ),
];

/// When each stage on the way to the first `Ready` began and ended. What was written once stays.
fn stages(
    cluster: &TenantCluster,
    before: &[Stage],
    waits: &[Waiting],
    now: Timestamp,
) -> Vec<Stage> {
    let now = whole_seconds(now);
    let created = cluster
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(now, |time| time.0);
    let mut stages: Vec<Stage> = Vec::new();
    for (name, awaited, needs) in STAGES {
        let known = before.iter().find(|stage| stage.name == name);
        let ends = |needed: &StageName| {
            let mut stages = stages.iter();
            let stage = stages.find(|stage| stage.name == *needed)?;
            stage.finished_at.as_ref().map(|time| time.0)
        };
        let needed: Option<Vec<_>> = needs.iter().map(ends).collect();
        let needed = needed.map(|ends| ends.into_iter().max().unwrap_or(created));
        let started = known.map(|stage| stage.started_at.0).or(needed);
        let Some(started) = started else { continue };
        let finished = known.and_then(|stage| stage.finished_at.clone());
        let is_done = waits
            .iter()
            .all(|waiting| !awaited.contains(&waiting.what.as_str()));
        stages.push(Stage {
            name,
            started_at: Time(started),
            finished_at: finished.or_else(|| is_done.then_some(Time(now))),
        });
    }
    stages
}

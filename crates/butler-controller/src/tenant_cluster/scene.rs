//! The tenant clusters that tests speak of, what exists for them at each step of their life, and how plans for them are shown.

use butler_api::{
    butler::{
        butler_config::ButlerConfig,
        provider_config::ProviderConfig,
        tenant_cluster::{TenantCluster, TenantClusterStatus},
    },
    cluster_api::contract::ControlPlaneEndpoint,
    keys::{groups, names},
};
use butler_runtime::plan::{Next, Plan, Prune};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Effect, World,
    facts::{
        ControlPlaneFacts, DeploymentFacts, HostedFacts, InfrastructureFacts, MachineSetFacts,
    },
    related::{NamespaceSight, Related, Seen},
};
use crate::{
    cluster_api::{ClusterFacts, MachineFacts},
    projections::{ProviderCandidate, Said},
    testing::at,
};

pub(super) const UID: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

fn read<K: DeserializeOwned>(body: Value) -> K {
    serde_json::from_value(body).unwrap()
}

/// The cluster `shop` with two workers on this host, and these parts of its spec.
pub(super) fn shop(parts: &Value) -> TenantCluster {
    let mut spec = json!({ "kubernetesVersion": "v1.36.3", "workers": { "replicas": 2 } });
    spec.as_object_mut()
        .unwrap()
        .extend(parts.as_object().unwrap().clone());
    read(json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": "TenantCluster",
        "metadata": {
            "name": "shop", "namespace": names::DEFAULT_TENANT_NAMESPACE, "uid": UID, "generation": 1,
            "creationTimestamp": "1970-01-01T00:00:01Z",
        },
        "spec": spec,
    }))
}

/// The same, as its status was left by a plan.
pub(super) fn after(
    mut cluster: TenantCluster,
    plan: &Plan<TenantClusterStatus, Effect>,
) -> TenantCluster {
    cluster.status = Some(plan.status.clone());
    cluster
}

/// The same, when somebody has deleted it.
pub(super) fn deleted(mut cluster: TenantCluster) -> TenantCluster {
    cluster.metadata.deletion_timestamp = Some(read(json!("1970-01-01T00:10:00Z")));
    cluster
}

/// The same with an annotation.
pub(super) fn annotated(mut cluster: TenantCluster, key: &str, value: &str) -> TenantCluster {
    let annotations = cluster.metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), value.to_owned());
    cluster
}

/// A provider named `default`.
pub(super) fn provider(spec: &Value) -> ProviderConfig {
    read(json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": "ProviderConfig",
        "metadata": { "name": "default", "namespace": names::SYSTEM_NAMESPACE },
        "spec": spec,
    }))
}

pub(super) fn config(spec: &Value) -> ButlerConfig {
    read(json!({
        "apiVersion": groups::BUTLER_API_VERSION,
        "kind": "ButlerConfig",
        "metadata": { "name": names::BUTLER_CONFIG },
        "spec": spec,
    }))
}

/// A platform with the provider `local` and these objects of the cluster.
pub(super) fn world(related: Related) -> World {
    World {
        candidates: vec![ProviderCandidate {
            name: "default".to_owned(),
            team: None,
            deleting: false,
        }],
        provider: Some(provider(&json!({ "provider": "local" }))),
        related,
        ..World::default()
    }
}

/// Words under a type of condition.
pub(super) fn says(type_: &str, status: &str, message: &str) -> Said {
    Said {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: "Because".to_owned(),
        message: message.to_owned(),
        since: Some(at(60)),
    }
}

fn seen<T>(kind: &str, facts: T) -> Seen<T> {
    Seen {
        kind: kind.to_owned(),
        uid: format!("uid of {kind}"),
        facts,
    }
}

/// What exists a moment after the first pass.
pub(super) fn begun() -> Related {
    Related {
        namespace: Some(NamespaceSight {
            owner: Some(UID.to_owned()),
            uid: "uid of Namespace".to_owned(),
            deleted_at: None,
        }),
        cluster: Some(seen("Cluster", ClusterFacts::default())),
        control_plane: Some(seen(
            "StewardControlPlane",
            ControlPlaneFacts {
                wanted: Some("v1.36.3".to_owned()),
                ..ControlPlaneFacts::default()
            },
        )),
        hosted: Some(HostedFacts {
            conditions: vec![says(
                "DataStoreReady",
                "False",
                "the DataStore default does not exist; create it",
            )],
        }),
        infrastructure: Some(seen(
            "ButlerCluster",
            InfrastructureFacts {
                conditions: vec![says(
                    "Ready",
                    "False",
                    "waiting for the control plane to write it",
                )],
                deleted_at: None,
            },
        )),
        deployments: [(
            "shop-workers".to_owned(),
            seen("MachineDeployment", deployment("v1.36.3", 2, 0)),
        )]
        .into(),
        ..Related::default()
    }
}

/// A deployment of so many machines, of which so many are ready.
pub(super) fn deployment(version: &str, wanted: i32, ready: i32) -> DeploymentFacts {
    DeploymentFacts {
        wanted: Some(wanted),
        version: Some(version.to_owned()),
        ready,
        updated: wanted,
        present: wanted,
        is_observed: true,
        ..DeploymentFacts::default()
    }
}

/// A machine of the workers that is a node.
pub(super) fn node(version: &str) -> MachineFacts {
    MachineFacts {
        cluster: "shop".to_owned(),
        deployment: Some("shop-workers".to_owned()),
        version: Some(version.to_owned()),
        node: Some("node".to_owned()),
        conditions: vec![says("Ready", "True", "")],
        ..MachineFacts::default()
    }
}

/// What exists when the API server answers and the machines boot.
pub(super) fn serving() -> Related {
    let mut related = begun();
    let endpoint = ControlPlaneEndpoint {
        host: "192.0.2.10".to_owned(),
        port: 6443,
    };
    related.cluster = Some(seen(
        "Cluster",
        ClusterFacts {
            infrastructure_provisioned: true,
            endpoint: Some(endpoint),
            ..ClusterFacts::default()
        },
    ));
    related.control_plane = Some(seen(
        "StewardControlPlane",
        control_plane("v1.36.3", "v1.36.3"),
    ));
    related.hosted = None;
    related.kubeconfig = Some("shop-admin-kubeconfig".to_owned());
    let booting = MachineFacts {
        node: None,
        conditions: vec![says(
            "InfrastructureReady",
            "False",
            "ButlerMachine is not ready",
        )],
        ..node("v1.36.3")
    };
    related
        .machines
        .insert("shop-workers-a".to_owned(), booting);
    let words = says("Ready", "False", "the provider is making the machine");
    related
        .machine_words
        .insert("shop-workers-a".to_owned(), words);
    related.sets.insert(
        "shop-workers-1".to_owned(),
        templates("shop-worker-11111111"),
    );
    related
}

/// A set of machines that were made from templates of this name.
pub(super) fn templates(name: &str) -> MachineSetFacts {
    let kinds = ["ButlerMachineTemplate", "KubeadmConfigTemplate"];
    MachineSetFacts {
        deployment: Some("shop-workers".to_owned()),
        templates: kinds.map(|kind| (kind.to_owned(), name.to_owned())).into(),
    }
}

/// A control plane that was asked for one version and has another.
pub(super) fn control_plane(wanted: &str, version: &str) -> ControlPlaneFacts {
    ControlPlaneFacts {
        wanted: Some(wanted.to_owned()),
        version: Some(version.to_owned()),
        initialized: true,
        available: true,
        rolling_out: wanted != version,
        ..ControlPlaneFacts::default()
    }
}

/// What exists when all is as it shall be.
pub(super) fn ready() -> Related {
    let mut related = serving();
    related.machine_words.clear();
    for name in ["shop-workers-a", "shop-workers-b"] {
        related.machines.insert(name.to_owned(), node("v1.36.3"));
    }
    related.deployments.insert(
        "shop-workers".to_owned(),
        seen("MachineDeployment", deployment("v1.36.3", 2, 2)),
    );
    related
}

/// A plan in lines: phase, conditions that do not hold or say something, what is applied, removed, kept and told.
pub(super) fn lines(plan: &Plan<TenantClusterStatus, Effect>) -> String {
    let phase = plan.status.phase.map(|phase| format!("phase {phase:?}"));
    let mut lines: Vec<_> = phase.into_iter().collect();
    for condition in &plan.status.conditions {
        let words = format!(
            "{}={} {}",
            condition.type_, condition.status, condition.reason
        );
        lines.push(match condition.message.as_str() {
            "" => words,
            message => format!("{words}: {message}"),
        });
    }
    let applied = plan.apply.iter();
    lines.extend(applied.map(|manifest| format!("apply {} {}", manifest.kind, manifest.key)));
    lines.extend(plan.effects.iter().map(|effect| match effect {
        Effect::Remove { kind, key, uid } => format!("remove {kind} {key} ({uid})"),
        Effect::GiveBack { key, .. } => format!("give back {key}"),
        Effect::CopyCredentials(copy) => {
            let over = if copy.over.is_some() { "anew" } else { "first" };
            format!("copy {}@{} {over}", copy.source, copy.version)
        }
        Effect::Pause { key, uid } => format!("pause Cluster {key} ({uid})"),
        Effect::GoOn { key, uid } => format!("go on Cluster {key} ({uid})"),
    }));
    match &plan.prune {
        Prune::Keep => {}
        Prune::Unlisted => lines.push("prune".to_owned()),
        Prune::UnlistedBut(kept) => {
            let kept: Vec<_> = kept
                .iter()
                .map(|(kind, key)| format!("{kind} {}", key.name))
                .collect();
            lines.push(
                format!("prune but {}", kept.join(", "))
                    .trim_end()
                    .to_owned(),
            );
        }
    }
    let notes = plan.notes.iter();
    lines
        .extend(notes.map(|note| format!("{:?} {}: {}", note.severity, note.reason, note.message)));
    match plan.next {
        Next::AwaitChange => {}
        next => lines.push(format!("next: {next:?}")),
    }
    lines.join("\n")
}

/// The status of a plan without its conditions.
pub(super) fn shown(plan: &Plan<TenantClusterStatus, Effect>) -> String {
    let mut status = json!(plan.status);
    if let Some(fields) = status.as_object_mut() {
        fields.remove("conditions");
    }
    let fields = status.as_object().into_iter().flatten();
    let lines: Vec<_> = fields
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    lines.join("\n")
}

/// One condition of a plan.
pub(super) fn condition(plan: &Plan<TenantClusterStatus, Effect>, type_: &str) -> String {
    let mut conditions = plan.status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == type_);
    found.map_or_else(String::new, |found| {
        format!("{} {}: {}", found.status, found.reason, found.message)
    })
}

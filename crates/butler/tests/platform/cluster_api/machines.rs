//! The Machine: takes over what was cloned for it, hands bootstrap data and identity on, becomes a node, and goes in order.

use std::sync::Arc;

use butler_provider::fake::Cloud;
use butler_runtime::{
    conditions::whole_seconds,
    object::{Kind, ObjectKey},
};
use butler_testkit::simulator::{
    ObjectStore, Turn,
    players::{is_deleting, text},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    Answers, cluster_of, condition, count, delete, first, holds, is_true, let_go, list, machines,
    merge, own, referred, tell,
};

const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// How long until a tenant that did not answer is asked again.
const AGAIN: SignedDuration = SignedDuration::from_secs(20);

/// What is seen of tenants.
#[derive(Clone, Copy)]
pub(super) struct Tenants<'a> {
    /// Where their nodes run.
    pub(super) nodes: &'a Cloud,
    /// Whether their API servers answer.
    pub(super) answers: Answers,
}

pub(super) fn keep(store: &mut ObjectStore, tenants: &Tenants<'_>) -> Turn {
    let mut waits = None;
    let did = first(store, &machines(), |store, machine| {
        if !is_deleting(machine) {
            return standing(store, machine, tenants);
        }
        match teardown(store, machine, tenants.answers) {
            Turn::Did(what) => Some(what),
            Turn::Waits(until) => {
                waits = Some(waits.map_or(until, |other| until.min(other)));
                None
            }
            Turn::Rests => None,
        }
    });
    match (did, waits) {
        (None, Some(until)) => Turn::Waits(until),
        (did, _) => Turn::from(did),
    }
}

/// What a Machine names, as far as it exists.
fn part(store: &ObjectStore, machine: &Value, pointer: &str) -> Option<(Kind, Arc<Value>)> {
    let reference = machine.pointer(pointer)?;
    let kind = referred(reference)?;
    let namespace = text(machine, "/metadata/namespace");
    let key = ObjectKey::namespaced(namespace, text(reference, "/name"));
    let body = store.get(&kind, &key)?;
    Some((kind, body))
}

const BOOTSTRAP: &str = "/spec/bootstrap/configRef";
const INFRASTRUCTURE: &str = "/spec/infrastructureRef";

fn standing(store: &mut ObjectStore, machine: &Value, tenants: &Tenants<'_>) -> Option<String> {
    let key = ObjectKey::in_body(machine);
    let (_, bootstrap) = part(store, machine, BOOTSTRAP)?;
    let (_, infrastructure) = part(store, machine, INFRASTRUCTURE)?;
    for pointer in [BOOTSTRAP, INFRASTRUCTURE] {
        let (kind, body) = part(store, machine, pointer)?;
        let did = (!is_deleting(&body))
            .then(|| own(store, (&kind, &body), (&machines(), machine), true))
            .flatten();
        if did.is_some() {
            return did;
        }
    }
    let secret = text(&bootstrap, "/status/dataSecretName");
    if !secret.is_empty() && text(machine, "/spec/bootstrap/dataSecretName").is_empty() {
        let patch = json!({ "spec": { "bootstrap": { "dataSecretName": secret } } });
        merge(store, &machines(), &key, patch);
        return Some(format!("hands {key} its bootstrap data"));
    }
    let identity = text(&infrastructure, "/spec/providerID");
    let provisioned = is_true(&infrastructure, "/status/initialization/provisioned");
    if provisioned && text(machine, "/spec/providerID").is_empty() {
        assert!(!identity.is_empty(), "{key} is provisioned and nameless");
        let patch = json!({ "spec": { "providerID": identity } });
        merge(store, &machines(), &key, patch);
        return Some(format!("knows {key} as {identity}"));
    }
    let status = status(store, machine, &infrastructure, tenants);
    tell(store, &machines(), machine, status)
}

/// Whether the node of a machine reports: the machine runs, and was told how to join.
fn reports(machine: &Value, cloud: &Cloud) -> bool {
    let identity = text(machine, "/spec/providerID");
    let machines = cloud.machines();
    let mut machines = machines.iter();
    machines.any(|found| {
        found.running && found.user_data.is_some() && identity == format!("fake://{}", found.id)
    })
}

/// Of a tenant that does not answer, nothing is known that was not known before. Five minutes long the real one goes on to say what
/// it heard last; here these are over at once.
fn status(
    store: &ObjectStore,
    machine: &Value,
    infrastructure: &Value,
    tenants: &Tenants<'_>,
) -> Value {
    let answers = (tenants.answers)(store, text(machine, "/metadata/namespace"));
    let reports = answers && reports(machine, tenants.nodes);
    let node = text(machine, "/status/nodeRef/name");
    let has_joined = reports || !node.is_empty();
    let provisioned = !text(machine, "/spec/providerID").is_empty();
    let has_data = !text(machine, "/spec/bootstrap/dataSecretName").is_empty();
    let say = |type_: &str, holds: bool, otherwise: &str| {
        let (status, reason) = if holds {
            ("True", "Ready")
        } else {
            (otherwise, "NotReady")
        };
        condition(store, machine, type_, status, reason)
    };
    let works = holds(infrastructure, "Ready") == Some(true);
    let mut status = json!({
        "initialization": {
            "bootstrapDataSecretCreated": has_data, "infrastructureProvisioned": provisioned,
        },
        "phase": if has_joined { "Running" } else { "Provisioning" },
        "conditions": [
            say("InfrastructureReady", works, "False"),
            say("BootstrapConfigReady", has_data, "False"),
            say("NodeReady", reports, "Unknown"),
            say("Ready", reports && works, "False"),
        ],
    });
    if let Some(addresses) = infrastructure.pointer("/status/addresses") {
        status["addresses"] = addresses.clone();
    }
    if has_joined {
        status["nodeRef"] = json!({ "name": machine["metadata"]["name"] });
    }
    status
}

/// The node is drained and its volumes are detached, the infrastructure goes, then what it booted with, the node, and the Machine
/// last.
fn teardown(store: &mut ObjectStore, machine: &Value, answers: Answers) -> Turn {
    let has_node = node_matters(store, machine);
    let answers = answers(store, text(machine, "/metadata/namespace"));
    if has_node {
        for stage in STAGES {
            let began = time(machine, stage.began);
            let Some(began) = began else {
                return Turn::from(advance(store, machine, stage.reason, Some(stage.began)));
            };
            if !answers && let Some(until) = not_over(store, machine, began, stage.limit) {
                return Turn::Waits(until);
            }
        }
    }
    if let Some(did) = advance(store, machine, "WaitingForInfrastructureDeletion", None) {
        return Turn::Did(did);
    }
    for pointer in [INFRASTRUCTURE, BOOTSTRAP] {
        if let Some((kind, body)) = part(store, machine, pointer) {
            let key = ObjectKey::in_body(&body);
            let did = (!is_deleting(&body)).then(|| delete(store, &kind, &key));
            return Turn::from(did);
        }
    }
    let asked_at = time(machine, "/metadata/deletionTimestamp");
    if has_node
        && !answers
        && let Some(asked_at) = asked_at
        && let Some(until) = not_over(store, machine, asked_at, "nodeDeletionTimeoutSeconds")
    {
        return Turn::Waits(until);
    }
    Turn::from(let_go(store, &machines(), machine, FINALIZER))
}

/// A part of a Machine's end that needs its tenant.
struct Stage {
    reason: &'static str,
    /// Where it is written when that began.
    began: &'static str,
    /// The field that says how long it may take, in seconds.
    limit: &'static str,
}

const STAGES: [Stage; 2] = [
    Stage {
        reason: "DrainingNode",
        began: "/status/deletion/nodeDrainStartTime",
        limit: "nodeDrainTimeoutSeconds",
    },
    Stage {
        reason: "WaitingForVolumeDetach",
        began: "/status/deletion/waitForNodeVolumeDetachStartTime",
        limit: "nodeVolumeDetachTimeoutSeconds",
    },
];

/// Whether the node of a Machine is to be drained and deleted: there is one, and a cluster that is to go on without it.
fn node_matters(store: &ObjectStore, machine: &Value) -> bool {
    let has_node = !text(machine, "/status/nodeRef/name").is_empty();
    let cluster = cluster_of(store, machine).filter(|cluster| !is_deleting(cluster));
    let Some(cluster) = cluster.filter(|_| has_node) else {
        return false;
    };
    part(store, &cluster, "/spec/controlPlaneRef").is_none_or(|(_, found)| !is_deleting(&found))
}

fn time(body: &Value, pointer: &str) -> Option<Timestamp> {
    text(body, pointer).parse().ok()
}

/// When to look again at something that began then and may take as long as a Machine says, unless that is over. Without a limit it
/// may take for ever.
fn not_over(
    store: &ObjectStore,
    machine: &Value,
    began: Timestamp,
    limit: &str,
) -> Option<Timestamp> {
    let again = store.now() + AGAIN;
    match count(machine, &format!("/spec/deletion/{limit}")) {
        0 => Some(again),
        seconds => {
            let over = began + SignedDuration::from_secs(seconds);
            (over > store.now()).then(|| over.min(again))
        }
    }
}

/// Says how far the end of a Machine is, and when this part of it began.
fn advance(
    store: &mut ObjectStore,
    machine: &Value,
    reason: &str,
    began: Option<&str>,
) -> Option<String> {
    let mut told = machine.clone();
    let mut conditions: Vec<_> = list(machine, "/status/conditions")
        .filter(|condition| condition["type"] != "Deleting")
        .cloned()
        .collect();
    conditions.push(condition(store, machine, "Deleting", "True", reason));
    told["status"]["conditions"] = conditions.into();
    told["status"]["phase"] = "Deleting".into();
    if let Some(place) = began.and_then(|began| began.rsplit('/').next()) {
        told["status"]["deletion"][place] = json!(whole_seconds(store.now()));
    }
    tell(store, &machines(), machine, told["status"].take())
}

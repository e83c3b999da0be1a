//! The Machine: takes over what was cloned for it, hands bootstrap data and identity on, becomes a node, and goes in order.

use std::sync::Arc;

use butler_provider::fake::Cloud;
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    ObjectStore,
    players::{is_deleting, text},
};
use serde_json::{Value, json};

use super::{
    condition, delete, first, holds, is_true, let_go, list, machines, merge, own, referred, tell,
};

const FINALIZER: &str = "machine.cluster.x-k8s.io";

pub(super) fn keep(store: &mut ObjectStore, cloud: &Cloud) -> Option<String> {
    first(store, &machines(), |store, machine| {
        if is_deleting(machine) {
            teardown(store, machine)
        } else {
            standing(store, machine, cloud)
        }
    })
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

fn standing(store: &mut ObjectStore, machine: &Value, cloud: &Cloud) -> Option<String> {
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
    let status = status(store, machine, &infrastructure, cloud);
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

fn status(store: &ObjectStore, machine: &Value, infrastructure: &Value, cloud: &Cloud) -> Value {
    let reports = reports(machine, cloud);
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

/// The node is drained, the infrastructure goes, then what it booted with, and the Machine last.
fn teardown(store: &mut ObjectStore, machine: &Value) -> Option<String> {
    let has_node = !text(machine, "/status/nodeRef/name").is_empty();
    let stage = deleting_reason(machine);
    let next = match stage {
        "" if has_node => Some("DrainingNode"),
        "" | "DrainingNode" => Some("WaitingForInfrastructureDeletion"),
        _ => None,
    };
    if let Some(next) = next {
        let mut status = machine["status"].clone();
        if status.is_null() {
            status = json!({});
        }
        let mut conditions: Vec<_> = list(machine, "/status/conditions")
            .filter(|condition| condition["type"] != "Deleting")
            .cloned()
            .collect();
        conditions.push(condition(store, machine, "Deleting", "True", next));
        status["conditions"] = conditions.into();
        status["phase"] = "Deleting".into();
        return tell(store, &machines(), machine, status);
    }
    for pointer in [INFRASTRUCTURE, BOOTSTRAP] {
        if let Some((kind, body)) = part(store, machine, pointer) {
            let key = ObjectKey::in_body(&body);
            return (!is_deleting(&body)).then(|| delete(store, &kind, &key));
        }
    }
    let_go(store, &machines(), machine, FINALIZER)
}

fn deleting_reason(machine: &Value) -> &str {
    let mut conditions = list(machine, "/status/conditions");
    let found = conditions.find(|condition| condition["type"] == "Deleting");
    found.map_or("", |found| text(found, "/reason"))
}

//! The `MachineSet`: as many Machines as it shall have, each cloned from its templates in three writes.

use std::{cmp::Reverse, sync::Arc};

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    ObjectStore,
    players::{is_deleting, text},
};
use serde_json::{Value, json};

use super::{
    bootstrap_configs, cluster_of, clusters, count, create, delete, deployments,
    deployments::is_current, first, hold, holds, infrastructure_machines, let_go, list, machines,
    own, owned, ownership, referred, sets, tell,
};

const FINALIZER: &str = "cluster.x-k8s.io/machineset";

pub(super) fn keep(store: &mut ObjectStore, made: &mut u32) -> Option<String> {
    first(store, &sets(), |store, set| {
        if is_deleting(set) {
            teardown(store, set)
        } else {
            standing(store, set, made)
        }
    })
}

fn teardown(store: &mut ObjectStore, set: &Value) -> Option<String> {
    let machines_of = owned(store, &machines(), set);
    let mut standing = machines_of.iter().filter(|machine| !is_deleting(machine));
    if let Some(machine) = standing.next() {
        return Some(delete(store, &machines(), &ObjectKey::in_body(machine)));
    }
    if !machines_of.is_empty() {
        return None;
    }
    let_go(store, &sets(), set, FINALIZER)
}

/// The template that a reference of a set means.
fn template(store: &ObjectStore, set: &Value, pointer: &str) -> Option<(Kind, Arc<Value>)> {
    let reference = set.pointer(pointer)?;
    let kind = referred(reference)?;
    let namespace = text(set, "/metadata/namespace");
    let key = ObjectKey::namespaced(namespace, text(reference, "/name"));
    let body = store.get(&kind, &key)?;
    Some((kind, body))
}

const BOOTSTRAP: &str = "/spec/template/spec/bootstrap/configRef";
const INFRASTRUCTURE: &str = "/spec/template/spec/infrastructureRef";

fn standing(store: &mut ObjectStore, set: &Value, made: &mut u32) -> Option<String> {
    let cluster = cluster_of(store, set).filter(|cluster| !is_deleting(cluster))?;
    if let Some(did) = hold(store, &sets(), set, FINALIZER) {
        return Some(did);
    }
    for pointer in [BOOTSTRAP, INFRASTRUCTURE] {
        let (kind, body) = template(store, set, pointer)?;
        let did = own(store, (&kind, &body), (&clusters(), &cluster), false);
        if did.is_some() {
            return did;
        }
    }
    let machines_of = owned(store, &machines(), set);
    if let Some(did) = complete(store, set) {
        return Some(did);
    }
    let wanted = usize::try_from(count(set, "/spec/replicas")).unwrap();
    let mut active: Vec<_> = machines_of
        .iter()
        .filter(|machine| !is_deleting(machine))
        .collect();
    if active.len() < wanted {
        *made += 1;
        let name = format!("{}-{made:03}", text(set, "/metadata/name"));
        let (_, source) = template(store, set, BOOTSTRAP)?;
        return clone(store, set, &name, &bootstrap_configs(), &source);
    }
    if active.len() > wanted {
        // Those that do not work go first, then the youngest.
        active.sort_by_key(|machine| {
            let works = holds(machine, "Ready") == Some(true);
            (works, Reverse(text(machine, "/metadata/uid").to_owned()))
        });
        let key = ObjectKey::in_body(active.first()?);
        return Some(delete(store, &machines(), &key));
    }
    report(store, set, &machines_of)
}

/// Finishes the machine whose first steps are made.
fn complete(store: &mut ObjectStore, set: &Value) -> Option<String> {
    let configs = owned(store, &bootstrap_configs(), set);
    let mut keys = configs.iter().map(|config| ObjectKey::in_body(config));
    let key = keys.find(|key| store.get(&machines(), key).is_none())?;
    let name = key.name.clone();
    if store.get(&infrastructure_machines(), &key).is_none() {
        let (_, source) = template(store, set, INFRASTRUCTURE)?;
        return clone(store, set, &name, &infrastructure_machines(), &source);
    }
    let mut spec = set["spec"]["template"]["spec"].clone();
    for (pointer, kind) in [
        ("/bootstrap/configRef", bootstrap_configs()),
        ("/infrastructureRef", infrastructure_machines()),
    ] {
        *spec.pointer_mut(pointer)? =
            json!({ "apiGroup": kind.group, "kind": kind.kind, "name": name });
    }
    let mut labels = set["spec"]["template"]["metadata"]["labels"].clone();
    labels["cluster.x-k8s.io/set-name"] = set["metadata"]["name"].clone();
    let body = json!({
        "metadata": {
            "name": name, "namespace": set["metadata"]["namespace"], "labels": labels,
            "ownerReferences": [ownership(&sets(), set, true)],
            // The API server's admission sees to this one.
            "finalizers": ["machine.cluster.x-k8s.io"],
        },
        "spec": spec,
    });
    create(store, &machines(), body)
}

/// Makes an object from a template. It is the set's until there is a Machine.
fn clone(
    store: &mut ObjectStore,
    set: &Value,
    name: &str,
    kind: &Kind,
    template: &Value,
) -> Option<String> {
    let body = json!({
        "metadata": {
            "name": name, "namespace": set["metadata"]["namespace"],
            "labels": set["spec"]["template"]["metadata"]["labels"],
            "annotations": {
                "cluster.x-k8s.io/cloned-from-name": template["metadata"]["name"],
                "cluster.x-k8s.io/cloned-from-groupkind": format!("{}.{}", kind.kind, kind.group),
            },
            "ownerReferences": [ownership(&sets(), set, true)],
        },
        "spec": template["spec"]["template"]["spec"],
    });
    create(store, kind, body)
}

fn report(store: &mut ObjectStore, set: &Value, machines_of: &[Arc<Value>]) -> Option<String> {
    let ready = machines_of
        .iter()
        .filter(|machine| !is_deleting(machine) && holds(machine, "Ready") == Some(true));
    let ready = ready.count();
    let owner =
        list(set, "/metadata/ownerReferences").find(|owner| owner["kind"] == "MachineDeployment");
    let namespace = text(set, "/metadata/namespace");
    let deployment = owner.and_then(|owner| {
        let key = ObjectKey::namespaced(namespace, text(owner, "/name"));
        store.get(&deployments(), &key)
    });
    let current = deployment.is_some_and(|deployment| is_current(set, &deployment));
    let status = json!({
        "observedGeneration": set["metadata"]["generation"],
        "replicas": machines_of.len(),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "upToDateReplicas": if current { machines_of.len() } else { 0 },
    });
    tell(store, &sets(), set, status)
}

//! The `MachineSet`: as many Machines as it shall have, each cloned from its templates in three writes.

use std::{cmp::Reverse, sync::Arc};

use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{
    ObjectStore,
    players::{is_deleting, text},
};
use serde_json::{Value, json};

use super::{
    clones::{Mould, template},
    cluster_of, clusters, count, delete, deployments,
    deployments::is_current,
    first, hold, holds, let_go, list, machines, own, owned, sets, tell,
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
    let (_, first_steps) = template(store, set, BOOTSTRAP)?;
    let (_, infrastructure) = template(store, set, INFRASTRUCTURE)?;
    let mould = Mould {
        maker: (sets(), set),
        labels: &set["spec"]["template"]["metadata"]["labels"],
        mark: ("cluster.x-k8s.io/set-name", text(set, "/metadata/name")),
        first_steps: &first_steps["spec"]["template"]["spec"],
        infrastructure,
        machine: &set["spec"]["template"]["spec"],
    };
    if let Some(did) = mould.complete(store) {
        return Some(did);
    }
    let machines_of = owned(store, &machines(), set);
    let wanted = usize::try_from(count(set, "/spec/replicas")).unwrap();
    let mut active: Vec<_> = machines_of
        .iter()
        .filter(|machine| !is_deleting(machine))
        .collect();
    if active.len() < wanted {
        *made += 1;
        let name = format!("{}-{made:03}", text(set, "/metadata/name"));
        return mould.begin(store, &name);
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

//! The `MachineDeployment`: a `MachineSet` for each template, and the way from the old ones to the new one, within surge and
//! unavailability.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    sync::Arc,
};

use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{
    ObjectStore,
    players::{is_deleting, text},
};
use serde_json::{Value, json};

use super::{
    WHO, cluster_of, clusters, count, create, delete, deployments, first, hold, let_go, merge, own,
    owned, ownership, sets, tell,
};

const FINALIZER: &str = "cluster.x-k8s.io/machinedeployment";

pub(super) fn keep(store: &mut ObjectStore) -> Option<String> {
    first(store, &deployments(), |store, deployment| {
        if is_deleting(deployment) {
            teardown(store, deployment)
        } else {
            standing(store, deployment)
        }
    })
}

/// The part of a template that machines cannot be changed in.
fn essence(group: &Value) -> Value {
    let machine = &group["spec"]["template"]["spec"];
    json!([
        machine["version"],
        machine["bootstrap"]["configRef"],
        machine["infrastructureRef"]
    ])
}

/// Whether machines of a set are as their deployment wants them.
pub(super) fn is_current(set: &Value, deployment: &Value) -> bool {
    essence(set) == essence(deployment)
}

fn teardown(store: &mut ObjectStore, deployment: &Value) -> Option<String> {
    let sets_of = owned(store, &sets(), deployment);
    if let Some(set) = sets_of.iter().find(|set| !is_deleting(set)) {
        return Some(delete(store, &sets(), &ObjectKey::in_body(set)));
    }
    if !sets_of.is_empty() {
        return None;
    }
    let_go(store, &deployments(), deployment, FINALIZER)
}

fn standing(store: &mut ObjectStore, deployment: &Value) -> Option<String> {
    let cluster = cluster_of(store, deployment).filter(|cluster| !is_deleting(cluster))?;
    if let Some(did) = hold(store, &deployments(), deployment, FINALIZER) {
        return Some(did);
    }
    let own_it = own(
        store,
        (&deployments(), deployment),
        (&clusters(), &cluster),
        false,
    );
    if own_it.is_some() {
        return own_it;
    }
    let (new, old): (Vec<_>, Vec<_>) = owned(store, &sets(), deployment)
        .into_iter()
        .filter(|set| !is_deleting(set))
        .partition(|set| is_current(set, deployment));
    let Some(new) = new.first() else {
        return begin(store, deployment, &old);
    };
    let did = turn(store, deployment, new, &old);
    did.or_else(|| report(store, deployment))
}

fn wanted(group: &Value) -> i64 {
    count(group, "/spec/replicas")
}

/// How many machines a set has or shall have, whichever is more: one that was told to have fewer still has them.
fn present(set: &Value) -> i64 {
    wanted(set).max(count(set, "/status/replicas"))
}

fn limit(deployment: &Value, name: &str) -> i64 {
    let place = format!("/spec/rollout/strategy/rollingUpdate/{name}");
    count(deployment, &place)
}

/// How many machines there may be at once.
fn most(deployment: &Value) -> i64 {
    wanted(deployment) + limit(deployment, "maxSurge")
}

/// Makes the set of a new template.
fn begin(store: &mut ObjectStore, deployment: &Value, old: &[Arc<Value>]) -> Option<String> {
    let mut hasher = DefaultHasher::new();
    essence(deployment).to_string().hash(&mut hasher);
    let name = format!(
        "{}-{:05x}",
        text(deployment, "/metadata/name"),
        hasher.finish() & 0xf_ffff
    );
    let standing: i64 = old.iter().map(|set| present(set)).sum();
    let room = most(deployment) - standing;
    let replicas = if old.is_empty() {
        wanted(deployment)
    } else {
        wanted(deployment).min(room).max(0)
    };
    let spec = &deployment["spec"];
    let body = json!({
        "metadata": {
            "name": name, "namespace": deployment["metadata"]["namespace"],
            "labels": spec["template"]["metadata"]["labels"],
            "ownerReferences": [ownership(&deployments(), deployment, true)],
        },
        "spec": {
            "clusterName": spec["clusterName"], "replicas": replicas, "selector": spec["selector"],
            "template": spec["template"],
        },
    });
    create(store, &sets(), body)
}

/// Scales the new set up, the old ones down, and removes those that are empty.
fn turn(
    store: &mut ObjectStore,
    deployment: &Value,
    new: &Value,
    old: &[Arc<Value>],
) -> Option<String> {
    let desired = wanted(deployment);
    let standing: i64 = old.iter().map(|set| wanted(set)).sum();
    let new_wanted = wanted(new);
    let target = if old.is_empty() || new_wanted > desired {
        desired
    } else {
        let all = old.iter().map(|set| present(set)).sum::<i64>() + present(new);
        let room = (most(deployment) - all).max(0);
        desired.min(new_wanted + room)
    };
    if target != new_wanted {
        return Some(scale(store, new, target));
    }
    let available = |set: &Value| count(set, "/status/availableReplicas");
    let fewest = desired - limit(deployment, "maxUnavailable");
    let missing = (new_wanted - available(new)).max(0);
    let room = standing + new_wanted - fewest - missing;
    if room > 0 {
        // Those that do not work go first: nobody misses them.
        let ill = old
            .iter()
            .find(|set| wanted(set) > 0 && wanted(set) > available(set));
        if let Some(set) = ill {
            return Some(scale(store, set, wanted(set) - 1));
        }
        let working: i64 = old.iter().map(|set| available(set)).sum::<i64>() + available(new);
        let largest = old.iter().find(|set| wanted(set) > 0);
        if let Some(set) = largest.filter(|_| working > fewest) {
            return Some(scale(store, set, wanted(set) - 1));
        }
    }
    let empty = old
        .iter()
        .find(|set| wanted(set) == 0 && count(set, "/status/replicas") == 0);
    // One that was scaled a moment ago has not said how many it has.
    let empty = empty.filter(|set| {
        set.pointer("/status/observedGeneration") == set.pointer("/metadata/generation")
    });
    empty.map(|set| delete(store, &sets(), &ObjectKey::in_body(set)))
}

fn scale(store: &mut ObjectStore, set: &Value, replicas: i64) -> String {
    let key = ObjectKey::in_body(set);
    let patch = json!({ "spec": { "replicas": replicas } });
    merge(store, &sets(), &key, patch);
    format!("{WHO} scales {key} to {replicas}")
}

/// Adds up what the sets say, which may be behind.
fn report(store: &mut ObjectStore, deployment: &Value) -> Option<String> {
    let sets_of = owned(store, &sets(), deployment);
    let sum = |field: &str| -> i64 {
        let place = format!("/status/{field}");
        sets_of.iter().map(|set| count(set, &place)).sum()
    };
    let status = json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": sum("replicas"),
        "readyReplicas": sum("readyReplicas"),
        "availableReplicas": sum("availableReplicas"),
        "upToDateReplicas": sum("upToDateReplicas"),
    });
    tell(store, &deployments(), deployment, status)
}

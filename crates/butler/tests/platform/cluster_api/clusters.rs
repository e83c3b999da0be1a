//! The Cluster: takes possession of what it names, passes on what is initialized, and goes after everything that is its own.

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    ObjectStore,
    players::{is_deleting, text},
};
use serde_json::{Value, json};

use super::{
    clusters, delete, deployments, first, hold, is_of_control_plane, is_true, let_go, list,
    machines, merge, own, referred, sets, tell,
};

const FINALIZER: &str = "cluster.cluster.x-k8s.io";

pub(super) fn keep(store: &mut ObjectStore) -> Option<String> {
    first(store, &clusters(), |store, cluster| {
        if is_deleting(cluster) {
            teardown(store, cluster)
        } else {
            standing(store, cluster)
        }
    })
}

/// What a Cluster names in a field, as far as it exists.
fn part(store: &ObjectStore, cluster: &Value, field: &str) -> Option<(Kind, ObjectKey, Value)> {
    let reference = &cluster["spec"][field];
    let kind = referred(reference)?;
    let namespace = text(cluster, "/metadata/namespace");
    let key = ObjectKey::namespaced(namespace, text(reference, "/name"));
    let body = store.get(&kind, &key)?.as_ref().clone();
    Some((kind, key, body))
}

fn standing(store: &mut ObjectStore, cluster: &Value) -> Option<String> {
    if let Some(did) = hold(store, &clusters(), cluster, FINALIZER) {
        return Some(did);
    }
    let infrastructure = part(store, cluster, "infrastructureRef");
    let control_plane = part(store, cluster, "controlPlaneRef");
    for (kind, _, body) in [&infrastructure, &control_plane].into_iter().flatten() {
        let did = (!is_deleting(body))
            .then(|| own(store, (kind, body), (&clusters(), cluster), false))
            .flatten();
        if did.is_some() {
            return did;
        }
    }
    let said = |part: &Option<(Kind, ObjectKey, Value)>, pointer: &str| {
        let part = part.as_ref();
        part.is_some_and(|(_, _, body)| is_true(body, pointer))
    };
    let provisioned = said(&infrastructure, "/status/initialization/provisioned");
    let initialized = said(
        &control_plane,
        "/status/initialization/controlPlaneInitialized",
    );
    let sources = [
        infrastructure.filter(|_| provisioned),
        control_plane.filter(|_| initialized),
    ];
    let endpoint = sources.into_iter().flatten().find_map(|(_, _, body)| {
        let endpoint = body.pointer("/spec/controlPlaneEndpoint")?.clone();
        (!text(&endpoint, "/host").is_empty()).then_some(endpoint)
    });
    if text(cluster, "/spec/controlPlaneEndpoint/host").is_empty()
        && let Some(endpoint) = endpoint
    {
        let key = ObjectKey::in_body(cluster);
        let patch = json!({ "spec": { "controlPlaneEndpoint": endpoint } });
        merge(store, &clusters(), &key, patch);
        return Some(format!("learns where the API server of {key} is"));
    }
    // What was initialized once stays so.
    let was = |field: &str| is_true(cluster, &format!("/status/initialization/{field}"));
    let status = json!({ "initialization": {
        "infrastructureProvisioned": provisioned || was("infrastructureProvisioned"),
        "controlPlaneInitialized": initialized || was("controlPlaneInitialized"),
    } });
    tell(store, &clusters(), cluster, status)
}

/// Workers go first, then the control plane, then the infrastructure, and the Cluster last.
fn teardown(store: &mut ObjectStore, cluster: &Value) -> Option<String> {
    let namespace = &cluster["metadata"]["namespace"];
    let name = &cluster["metadata"]["name"];
    let mut descendants = Vec::new();
    for kind in [deployments(), sets(), machines()] {
        for body in store.objects(&kind) {
            let is_own =
                body["metadata"]["namespace"] == *namespace && body["spec"]["clusterName"] == *name;
            // Machines of a control plane go with it.
            if is_own && !is_of_control_plane(&body) {
                descendants.push((kind.clone(), body));
            }
        }
    }
    let mut standing = descendants.iter().filter(|(_, body)| !is_deleting(body));
    if let Some((kind, body)) = standing.next() {
        return Some(delete(store, kind, &ObjectKey::in_body(body)));
    }
    if !descendants.is_empty() {
        return None;
    }
    for field in ["controlPlaneRef", "infrastructureRef"] {
        if let Some((kind, key, body)) = part(store, cluster, field) {
            return (!is_deleting(&body)).then(|| delete(store, &kind, &key));
        }
    }
    let is_held = list(cluster, "/metadata/finalizers").any(|held| *held == FINALIZER);
    is_held
        .then(|| let_go(store, &clusters(), cluster, FINALIZER))
        .flatten()
}

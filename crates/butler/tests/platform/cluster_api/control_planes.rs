//! The `KubeadmControlPlane`: the administrator's kubeconfig as soon as it is known where the API server will be, then one Machine
//! after the other. The first one makes the tenant; no other comes or goes before all that are there work.

use std::sync::Arc;

use butler_api::keys::{labels, names};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    ObjectStore,
    players::{is_deleting, text},
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use serde_json::{Value, json};

use super::{
    clones::{Mould, source, template},
    cluster_of, clusters, condition, control_planes, count, create, delete, first, hold, holds,
    is_owned_by, is_true, let_go, machines, own, owned, ownership, tell,
};

const FINALIZER: &str = "kubeadm.controlplane.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "/spec/machineTemplate/spec/infrastructureRef";

pub(super) fn keep(store: &mut ObjectStore, made: &mut u32) -> Option<String> {
    first(store, &control_planes(), |store, plane| {
        if is_deleting(plane) {
            teardown(store, plane)
        } else {
            standing(store, plane, made)
        }
    })
}

/// Whether a Machine belongs to a control plane.
pub(crate) fn is_of_control_plane(machine: &Value) -> bool {
    let labels = machine.pointer("/metadata/labels");
    labels.is_some_and(|found| found.get(labels::CLUSTER_API_CONTROL_PLANE).is_some())
}

/// Workers go first: they need an API server to be drained. Then all of the control plane goes at once.
fn teardown(store: &mut ObjectStore, plane: &Value) -> Option<String> {
    let namespace = &plane["metadata"]["namespace"];
    let all = store.objects(&machines());
    let mut workers = all
        .iter()
        .filter(|machine| machine["metadata"]["namespace"] == *namespace);
    if workers.any(|machine| !is_of_control_plane(machine)) {
        return None;
    }
    let own = owned(store, &machines(), plane);
    let mut standing = own.iter().filter(|machine| !is_deleting(machine));
    if let Some(machine) = standing.next() {
        return Some(delete(store, &machines(), &ObjectKey::in_body(machine)));
    }
    if !own.is_empty() {
        return None;
    }
    let_go(store, &control_planes(), plane, FINALIZER)
}

fn standing(store: &mut ObjectStore, plane: &Value, made: &mut u32) -> Option<String> {
    let cluster = cluster_of(store, plane).filter(|cluster| !is_deleting(cluster))?;
    if !is_owned_by(plane, &cluster) {
        return None;
    }
    if let Some(did) = hold(store, &control_planes(), plane, FINALIZER) {
        return Some(did);
    }
    let (kind, infrastructure) = template(store, plane, INFRASTRUCTURE)?;
    let taken = own(
        store,
        (&kind, &infrastructure),
        (&clusters(), &cluster),
        false,
    );
    if taken.is_some() {
        return taken;
    }
    if !is_true(&cluster, "/status/initialization/infrastructureProvisioned") {
        return None;
    }
    if let Some(did) = kubeconfig(store, plane) {
        return Some(did);
    }
    let name = text(plane, "/metadata/name");
    let labels = json!({
        labels::CLUSTER_API_CLUSTER: cluster["metadata"]["name"],
        labels::CLUSTER_API_CONTROL_PLANE: "",
    });
    let machine = json!({
        "clusterName": cluster["metadata"]["name"],
        "version": plane["spec"]["version"],
        "deletion": plane["spec"]["machineTemplate"]["spec"]["deletion"],
    });
    let mould = Mould {
        maker: (control_planes(), plane),
        labels: &labels,
        mark: ("cluster.x-k8s.io/control-plane-name", name),
        first_steps: &plane["spec"]["kubeadmConfigSpec"],
        infrastructure,
        machine: &machine,
    };
    let did = mould.complete(store);
    let did = did.or_else(|| turn(store, plane, &mould, made));
    did.or_else(|| report(store, plane))
}

/// Makes the kubeconfig that everybody connects with.
fn kubeconfig(store: &mut ObjectStore, plane: &Value) -> Option<String> {
    let kind = Kind::of::<Secret>();
    let name = format!(
        "{}{}",
        text(plane, "/metadata/name"),
        names::KUBECONFIG_SUFFIX
    );
    let key = ObjectKey::namespaced(text(plane, "/metadata/namespace"), &name);
    if store.get(&kind, &key).is_some() {
        return None;
    }
    let body = json!({
        "metadata": {
            "name": name, "namespace": plane["metadata"]["namespace"],
            "labels": { labels::CLUSTER_API_CLUSTER: plane["metadata"]["name"] },
            "ownerReferences": [ownership(&control_planes(), plane, true)],
        },
        "type": "cluster.x-k8s.io/secret",
        "data": { "value": ByteString(b"apiVersion: v1\nkind: Config\n".to_vec()) },
    });
    create(store, &kind, body)
}

/// Whether a Machine is as its control plane says.
fn is_current(store: &ObjectStore, machine: &Value, plane: &Value) -> bool {
    let wanted = format!("{INFRASTRUCTURE}/name");
    machine["spec"]["version"] == plane["spec"]["version"]
        && source(store, machine).is_some_and(|source| source == text(plane, &wanted))
}

/// One more Machine, or one fewer.
fn turn(
    store: &mut ObjectStore,
    plane: &Value,
    mould: &Mould<'_>,
    made: &mut u32,
) -> Option<String> {
    let own = owned(store, &machines(), plane);
    let wanted = usize::try_from(count(plane, "/spec/replicas")).unwrap();
    let works =
        |machine: &Arc<Value>| !is_deleting(machine) && holds(machine, "Ready") == Some(true);
    if !own.iter().all(works) {
        return None;
    }
    let old = own
        .iter()
        .find(|machine| !is_current(store, machine, plane));
    let is_missing = own.len() < wanted || (own.len() == wanted && old.is_some());
    if is_missing {
        *made += 1;
        let name = format!("{}-{made:03}", text(plane, "/metadata/name"));
        return mould.begin(store, &name);
    }
    let surplus = old.or_else(|| own.first()).filter(|_| own.len() > wanted)?;
    Some(delete(store, &machines(), &ObjectKey::in_body(surplus)))
}

fn report(store: &mut ObjectStore, plane: &Value) -> Option<String> {
    let own = owned(store, &machines(), plane);
    let ready: Vec<_> = own
        .iter()
        .filter(|machine| !is_deleting(machine) && holds(machine, "Ready") == Some(true))
        .collect();
    let current = own
        .iter()
        .filter(|machine| is_current(store, machine, plane));
    let current = current.count();
    // What was initialized once stays so.
    let initialized = is_true(plane, "/status/initialization/controlPlaneInitialized");
    let say = |type_: &str, holds: bool| {
        let (status, reason) = if holds {
            ("True", type_)
        } else {
            ("False", "NotYet")
        };
        condition(store, plane, type_, status, reason)
    };
    // Its store agrees on nothing without more than half of its members.
    let available = ready.len() * 2 > own.len();
    let mut status = json!({
        "observedGeneration": plane["metadata"]["generation"],
        "initialization": { "controlPlaneInitialized": initialized || !ready.is_empty() },
        "replicas": own.len(),
        "readyReplicas": ready.len(),
        "availableReplicas": ready.len(),
        "upToDateReplicas": current,
        "conditions": [
            say("Available", available),
            say("RollingOut", current < own.len()),
        ],
    });
    let versions = own.iter().map(|machine| text(machine, "/spec/version"));
    if let Some(oldest) = versions.min() {
        status["version"] = oldest.into();
    }
    tell(store, &control_planes(), plane, status)
}

//! Kubernetes' own controllers that stories need, in a few lines each: somebody gives Services their addresses, somebody rolls
//! Deployments out. Each is a habit for [`super::Simulation::foreign`] and does one thing at a time, as the real ones would.
//!
//! Must not: know any kind of ours.

use std::{collections::BTreeSet, net::Ipv4Addr};

use butler_runtime::object::{Kind, ObjectKey};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use serde_json::{Value, json};

use super::{operation::Operation, store::ObjectStore};

/// The first address inside of the cluster that a Service gets.
const FIRST_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
/// The first address of a load balancer.
const FIRST_BALANCED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 4);

/// The text at a place in a body; empty if there is none.
pub fn text<'a>(body: &'a Value, pointer: &str) -> &'a str {
    let found = body.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// Whether an object is on its way out.
pub fn is_deleting(body: &Value) -> bool {
    body.pointer("/metadata/deletionTimestamp").is_some()
}

/// The lowest address that nobody has.
fn free(taken: &BTreeSet<String>, first: Ipv4Addr) -> String {
    let mut addresses = (first.to_bits()..).map(|bits| Ipv4Addr::from_bits(bits).to_string());
    let free = addresses.find(|address| !taken.contains(address));
    free.unwrap_or_default()
}

/// Gives Services their addresses, no two the same.
pub fn services(store: &mut ObjectStore) -> Option<String> {
    const WHO: &str = "services";
    const INSIDE: &str = "/spec/clusterIP";
    const BALANCED: &str = "/status/loadBalancer/ingress/0/ip";
    let kind = Kind::of::<Service>();
    let services = store.objects(&kind);
    let taken = |pointer: &str| -> BTreeSet<String> {
        let services = services.iter();
        let found = services.map(|service| text(service, pointer).to_owned());
        found.collect()
    };
    for service in &services {
        let key = ObjectKey::in_body(service);
        if text(service, INSIDE).is_empty() {
            let address = free(&taken(INSIDE), FIRST_INSIDE);
            let patch = json!({ "spec": { "clusterIP": address } });
            let merge = Operation::Merge(kind, key.clone(), patch);
            return match store.perform(WHO, merge) {
                Ok(_) => Some(format!("gives {key} an address")),
                Err(error) => Some(format!("cannot give {key} an address: {error}")),
            };
        }
        let is_balanced = service.pointer("/status/loadBalancer/ingress").is_some();
        if text(service, "/spec/type") == "LoadBalancer" && !is_balanced {
            let address = free(&taken(BALANCED), FIRST_BALANCED);
            let status = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
            store.update_status(WHO, &kind, &key, status);
            return Some(format!("balances {key}"));
        }
    }
    None
}

/// Makes pods ready, one step at a time: first the new ones exist, then they serve.
pub fn deployments(store: &mut ObjectStore) -> Option<String> {
    deployments_that(store, |_, _| true)
}

/// The same in a world where the pods of a Deployment serve only if they can.
pub fn deployments_that(
    store: &mut ObjectStore,
    can_serve: impl Fn(&ObjectStore, &Value) -> bool,
) -> Option<String> {
    const WHO: &str = "deployments";
    let kind = Kind::of::<Deployment>();
    for deployment in store.objects(&kind) {
        if is_deleting(&deployment) {
            continue;
        }
        let key = ObjectKey::in_body(&deployment);
        let generation = &deployment["metadata"]["generation"];
        let wanted = &deployment["spec"]["replicas"];
        let status = &deployment["status"];
        let serving = if can_serve(store, &deployment) {
            wanted
        } else {
            &json!(0)
        };
        let numbers = |ready: &Value| {
            json!({
                "observedGeneration": generation, "replicas": wanted, "updatedReplicas": wanted,
                "readyReplicas": ready,
            })
        };
        if status["observedGeneration"] != *generation {
            let before = status["readyReplicas"].as_i64().unwrap_or_default();
            store.update_status(WHO, &kind, &key, numbers(&json!(before)));
            return Some(format!("sees {key}"));
        }
        if status["readyReplicas"] != *serving {
            store.update_status(WHO, &kind, &key, numbers(serving));
            return Some(format!("has {serving} pods of {key} serve"));
        }
    }
    None
}

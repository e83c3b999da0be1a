//! Machines as those make them who want several alike: each in three writes, what it boots with, its infrastructure, and itself.

use std::sync::Arc;

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{ObjectStore, players::text};
use serde_json::{Value, json};

use super::{
    bootstrap_configs, create, infrastructure_machines, machines, owned, ownership, referred,
};

/// What Machines are made from.
pub(super) struct Mould<'a> {
    /// Who makes them.
    pub(super) maker: (Kind, &'a Value),
    /// What all three objects are labelled with.
    pub(super) labels: &'a Value,
    /// What the Machine alone is labelled with.
    pub(super) mark: (&'static str, &'a str),
    /// What they boot with.
    pub(super) first_steps: &'a Value,
    /// The template of their infrastructure.
    pub(super) infrastructure: Arc<Value>,
    /// What they are, but for what is made with each of them.
    pub(super) machine: &'a Value,
}

/// The template that somebody refers to.
pub(super) fn template(
    store: &ObjectStore,
    body: &Value,
    pointer: &str,
) -> Option<(Kind, Arc<Value>)> {
    let reference = body.pointer(pointer)?;
    let kind = referred(reference)?;
    let namespace = text(body, "/metadata/namespace");
    let key = ObjectKey::namespaced(namespace, text(reference, "/name"));
    let body = store.get(&kind, &key)?;
    Some((kind, body))
}

/// The template that the infrastructure of a Machine was made from.
pub(super) fn source(store: &ObjectStore, machine: &Value) -> Option<String> {
    let machine = store.get(&infrastructure_machines(), &ObjectKey::in_body(machine))?;
    let place = "/metadata/annotations/cluster.x-k8s.io~1cloned-from-name";
    Some(text(&machine, place).to_owned())
}

impl Mould<'_> {
    /// Begins a Machine with what it boots with.
    pub(super) fn begin(&self, store: &mut ObjectStore, name: &str) -> Option<String> {
        let body = json!({ "metadata": self.metadata(name), "spec": self.first_steps });
        create(store, &bootstrap_configs(), body)
    }

    /// Finishes the Machine that was begun.
    pub(super) fn complete(&self, store: &mut ObjectStore) -> Option<String> {
        let configs = owned(store, &bootstrap_configs(), self.maker.1);
        let mut keys = configs.iter().map(|config| ObjectKey::in_body(config));
        let key = keys.find(|key| store.get(&machines(), key).is_none())?;
        let name = key.name.clone();
        let infrastructure = infrastructure_machines();
        if store.get(&infrastructure, &key).is_none() {
            let mut metadata = self.metadata(&name);
            metadata["annotations"] = json!({
                "cluster.x-k8s.io/cloned-from-name": self.infrastructure["metadata"]["name"],
                "cluster.x-k8s.io/cloned-from-groupkind":
                    format!("{}.{}", infrastructure.kind, infrastructure.group),
            });
            let spec = &self.infrastructure["spec"]["template"]["spec"];
            let body = json!({ "metadata": metadata, "spec": spec });
            return create(store, &infrastructure, body);
        }
        let reference =
            |kind: &Kind| json!({ "apiGroup": kind.group, "kind": kind.kind, "name": name });
        let mut spec = self.machine.clone();
        spec["bootstrap"] = json!({ "configRef": reference(&bootstrap_configs()) });
        spec["infrastructureRef"] = reference(&infrastructure);
        let mut metadata = self.metadata(&name);
        metadata["labels"][self.mark.0] = self.mark.1.into();
        // The API server's admission sees to this one.
        metadata["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
        create(
            store,
            &machines(),
            json!({ "metadata": metadata, "spec": spec }),
        )
    }

    /// What is made is its maker's until there is a Machine.
    fn metadata(&self, name: &str) -> Value {
        let (kind, maker) = &self.maker;
        json!({
            "name": name, "namespace": maker["metadata"]["namespace"], "labels": self.labels,
            "ownerReferences": [ownership(kind, maker, true)],
        })
    }
}

//! A controller to try the simulator with: a Greeting is shown in a `ConfigMap` of the same name.

use butler_runtime::{
    cache::Owned,
    failure::Failure,
    object::{Kind, Manifest, ObjectKey},
    plan::{Next, Note, Plan, Prune},
    reconciler::{Context, NoEffect, Reconciler, Sources},
};
use butler_testkit::simulator::{Operation, Simulation};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{CustomResource, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(
    group = "butler.test",
    version = "v1",
    kind = "Greeting",
    namespaced,
    status = "GreetingStatus",
    schema = "disabled"
)]
pub(crate) struct GreetingSpec {
    text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GreetingStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

/// Shows greetings.
#[derive(Clone, Copy)]
pub(crate) struct Greeter {
    /// Whether what it applies goes with its owner.
    pub(crate) owner_references: bool,
}

/// Whether the `ConfigMap` is there.
pub(crate) struct Shown(bool);

impl Reconciler for Greeter {
    const NAME: &'static str = "greeter";
    const FINALIZER: Option<&'static str> = Some("butler.test/greeter");
    type Object = Greeting;
    type Status = GreetingStatus;
    type World = Shown;
    type Effect = NoEffect;

    fn sources(&self, sources: &mut Sources<'_, Greeting>) {
        sources.owns::<ConfigMap>();
    }

    async fn observe(&self, greeting: &Greeting, context: &Context) -> Result<Shown, Failure> {
        let config_map = context
            .cache::<Owned<ConfigMap>>()
            .get(&ObjectKey::of(greeting));
        Ok(Shown(config_map.is_some()))
    }

    fn plan(
        &self,
        greeting: &Greeting,
        shown: &Shown,
        _: Timestamp,
    ) -> Plan<GreetingStatus, NoEffect> {
        let mut plan = Plan::status(GreetingStatus::default());
        plan.prune = Prune::Unlisted;
        if greeting.meta().deletion_timestamp.is_some() {
            plan.next = if shown.0 {
                Next::AwaitChange
            } else {
                Next::Done
            };
            return plan;
        }
        let mut body = json!({
            "metadata": { "name": greeting.name_any(), "namespace": greeting.namespace() },
            "data": { "text": greeting.spec.text },
        });
        if self.owner_references {
            body["metadata"]["ownerReferences"] = json!([greeting.controller_owner_ref(&())]);
        }
        plan.apply
            .push(Manifest::new(Kind::of::<ConfigMap>(), body));
        if shown.0 {
            plan.status.shown = Some(greeting.spec.text.clone());
            plan.notes
                .push(Note::normal("Shown", "the greeting is shown"));
        }
        plan
    }

    async fn perform(&self, _: &Greeting, effect: &NoEffect, _: &Context) -> Result<(), Failure> {
        match *effect {}
    }
}

pub(crate) const NAMESPACE: &str = "shop";

pub(crate) fn greeting_key() -> ObjectKey {
    ObjectKey::namespaced(NAMESPACE, "hello")
}

pub(crate) fn greeting(text: &str) -> Value {
    json!({ "metadata": { "name": "hello", "namespace": NAMESPACE }, "spec": { "text": text } })
}

/// A world with the namespace greetings live in.
pub(crate) fn world(seed: u64) -> Simulation {
    let mut simulation = Simulation::new(seed);
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    let namespace = Operation::create(Kind::of::<Namespace>(), namespace);
    let created = simulation.store_mut().perform("admin", namespace);
    created.expect("an empty store takes a namespace");
    simulation
}

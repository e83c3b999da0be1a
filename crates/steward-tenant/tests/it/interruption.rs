//! Passes that are cut off anywhere, requests that get lost, a process that forgets, a user who interferes: in the end the tenant
//! is as it should be, and then nothing is written.

use std::sync::{Arc, Mutex};

use butler_api::steward::tenant_control_plane::WritePermissions;
use butler_runtime::api_server::{Answer, ApiError, ApiServer, Cause, Part, Preconditions};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{ObjectStore, SimulatedApiServer, for_seeds};
use futures::FutureExt as _;
use futures::executor::block_on;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use steward_tenant::{ImageOverride, KubeProxyFacts, Report, TenantFacts, TenantSide, desired};

use crate::scene::facts;

/// Passes in the rough.
const ROUNDS: usize = 8;
/// Passes after which calm must have made everything right: one, and one more for what had to go first.
const CALM_PASSES: usize = 2;

/// Loses requests: some before they are handled, some after.
struct Flaky {
    inner: SimulatedApiServer,
    random: Mutex<StdRng>,
}

impl Flaky {
    fn loses(&self) -> bool {
        self.random.lock().unwrap().random_bool(0.05)
    }

    fn line<'a, T: Send + 'a>(&'a self, request: Answer<'a, T>) -> Answer<'a, T> {
        let lost = ApiError {
            verb: "reach",
            kind: "API server".to_owned(),
            key: ObjectKey::cluster("tenant"),
            cause: Cause::Unavailable,
            message: "lost".to_owned(),
        };
        if self.loses() {
            return async { Err(lost) }.boxed();
        }
        let answer_is_lost = self.loses();
        async move {
            let answer = request.await;
            if answer_is_lost { Err(lost) } else { answer }
        }
        .boxed()
    }
}

impl ApiServer for Flaky {
    fn get<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey) -> Answer<'a, Option<Value>> {
        self.line(self.inner.get(kind, key))
    }

    fn list<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: Option<&'a str>,
        labels: Option<&'a str>,
    ) -> Answer<'a, Vec<Value>> {
        self.line(self.inner.list(kind, namespace, labels))
    }

    fn create<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        self.line(self.inner.create(kind, key, body))
    }

    fn replace<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        self.line(self.inner.replace(kind, key, body))
    }

    fn apply<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        part: Part,
        manager: &'a str,
        body: Value,
    ) -> Answer<'a, Value> {
        self.line(self.inner.apply(kind, key, part, manager, body))
    }

    fn merge<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, patch: Value) -> Answer<'a, Value> {
        self.line(self.inner.merge(kind, key, patch))
    }

    fn delete<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        self.line(self.inner.delete(kind, key, preconditions))
    }

    fn delete_after_dependents<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        self.line(self.inner.delete_after_dependents(kind, key, preconditions))
    }
}

struct World {
    random: StdRng,
    store: Arc<Mutex<ObjectStore>>,
    user: SimulatedApiServer,
    facts: TenantFacts,
    side: TenantSide,
}

impl World {
    fn new(seed: u64) -> Self {
        let store = Arc::new(Mutex::new(ObjectStore::new()));
        let user = SimulatedApiServer::direct("user", Arc::clone(&store));
        for name in ["kube-system", "kube-public"] {
            let body =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            block_on(user.create(&Kind::of::<Namespace>(), &ObjectKey::cluster(name), body))
                .unwrap();
        }
        let theirs = ObjectKey::namespaced("kube-system", "theirs");
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "namespace": "kube-system", "name": "theirs" },
        });
        block_on(user.create(&Kind::of::<ConfigMap>(), &theirs, body)).unwrap();
        Self {
            random: StdRng::seed_from_u64(seed),
            store,
            user,
            facts: facts(),
            side: TenantSide::new(),
        }
    }

    fn wish_anew(&mut self) {
        let mut yes = || self.random.random_bool(0.5);
        self.facts = TenantFacts {
            core_dns: yes().then(ImageOverride::default),
            kube_proxy: yes().then(KubeProxyFacts::default),
            write_permissions: WritePermissions {
                block_creation: yes(),
                block_update: yes(),
                block_deletion: false,
            },
            frozen: yes() && yes() && yes(),
            ..facts()
        };
    }

    /// Somebody changes or deletes one of our objects.
    fn interfere(&mut self) {
        let ours: Vec<(Kind, ObjectKey)> = {
            let store = self.store.lock().unwrap();
            let labelled = store.everything().filter(|(_, _, body)| is_labelled(body));
            labelled
                .map(|(kind, key, _)| (kind.clone(), key.clone()))
                .collect()
        };
        let Some((kind, key)) = ours.choose(&mut self.random) else {
            return;
        };
        let outcome = match self.random.random_range(0..3) {
            0 => block_on(self.user.delete(kind, key, Preconditions::default())),
            1 => {
                let patch =
                    json!({ "metadata": { "labels": { "steward.butlerlabs.dev/name": "red" } } });
                block_on(self.user.merge(kind, key, patch)).map(|_| ())
            }
            _ => {
                let patch = json!({ "metadata": { "annotations": { "theirs": "1" } } });
                block_on(self.user.merge(kind, key, patch)).map(|_| ())
            }
        };
        outcome.unwrap();
    }

    fn rough_pass(&mut self) {
        if self.random.random_bool(0.3) {
            self.side = TenantSide::new();
        }
        let flaky = Flaky {
            inner: SimulatedApiServer::direct("steward", Arc::clone(&self.store)),
            random: Mutex::new(StdRng::seed_from_u64(self.random.random())),
        };
        // What becomes of it is no matter.
        let _ = block_on(self.side.reconcile(&flaky, &self.facts));
    }

    fn calm_pass(&mut self) -> Report {
        let api = SimulatedApiServer::direct("steward", Arc::clone(&self.store));
        block_on(self.side.reconcile(&api, &self.facts)).unwrap()
    }
}

fn is_labelled(body: &Value) -> bool {
    body["metadata"]["labels"]["steward.butlerlabs.dev/project"] == "steward"
}

#[test]
fn whatever_happens_a_tenant_becomes_whole() {
    for_seeds(0..300, |seed| {
        let mut world = World::new(seed);
        for _ in 0..ROUNDS {
            world.wish_anew();
            world.rough_pass();
            world.interfere();
        }
        world.facts.frozen = false;
        for _ in 0..CALM_PASSES {
            world.calm_pass();
        }
        let report = world.calm_pass();
        if !report.applied.is_empty() || !report.deleted.is_empty() || !report.is_complete() {
            return Err(format!("not at rest: {report:#?}"));
        }
        let mut wanted: Vec<String> = desired(&world.facts)
            .objects
            .iter()
            .map(|object| object.id().to_string())
            .collect();
        let store = world.store.lock().unwrap();
        let mut there: Vec<String> = store
            .everything()
            .filter(|(_, _, body)| is_labelled(body))
            .map(|(kind, key, _)| format!("{kind} {key}"))
            .collect();
        wanted.sort();
        there.sort();
        if wanted != there {
            return Err(format!("wanted {wanted:#?}\nthere {there:#?}"));
        }
        let theirs = ObjectKey::namespaced("kube-system", "theirs");
        if store.get(&Kind::of::<ConfigMap>(), &theirs).is_none() {
            return Err("an object of somebody else is gone".to_owned());
        }
        Ok(())
    })
    .unwrap_or_else(|failed| panic!("{failed}"));
}

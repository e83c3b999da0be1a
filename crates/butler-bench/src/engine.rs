//! What a pass of the engine costs, without a network: the real controller on an API server in memory.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};
use butler_api::butler::provider_config::ProviderConfig;
use butler_controller::{provider_config::ProviderConfigReconciler, run::COMPONENT};
use butler_runtime::{
    api_server::{Answer, ApiServer, Part, Preconditions},
    cache::{Caches, Delta},
    engine::Engine,
    object::{Kind, ObjectKey},
};
use butler_testkit::simulator::{ObjectStore, Operation, SimulatedApiServer};
use serde_json::Value;

use crate::{
    fleet, progress,
    report::{Bar, Row, Unit, median, number},
};

const OBJECTS: usize = 1000;
const ROUNDS: usize = 20;

/// Measures first and unchanged passes.
pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    progress(&format!(
        "passing over {OBJECTS} objects in memory, {ROUNDS} times unchanged"
    ));
    let bench = Bench::new();
    let keys = bench.create_objects()?;

    bench.bring_caches_up_to_date();
    let (first, first_calls) = bench.pass_over(&keys).await?;
    ensure!(
        first_calls >= keys.len(),
        "the first passes wrote nothing: {first_calls} calls"
    );
    bench.bring_caches_up_to_date();
    let (mut unchanged, mut unchanged_calls) = (Vec::new(), 0);
    for _ in 0..ROUNDS {
        let (took, calls) = bench.pass_over(&keys).await?;
        unchanged.push(took);
        unchanged_calls += calls;
    }

    let unchanged = median(unchanged);
    let per_object = |took: Duration| took.as_secs_f64() * 1e9 / number(keys.len());
    Ok(vec![
        Row::count(
            format!("API calls of {ROUNDS} × {OBJECTS} passes over unchanged objects"),
            unchanged_calls,
        )
        .held_to(Bar::AtMost(0.0)),
        Row::new(
            "pass over an unchanged object",
            per_object(unchanged),
            Unit::Nanoseconds,
        ),
        Row::new(
            "first pass over an object, server in memory included",
            per_object(first),
            Unit::Nanoseconds,
        ),
        Row::new(
            "API calls of a first pass",
            number(first_calls) / number(keys.len()),
            Unit::Count,
        ),
        Row::ratio("unchanged pass : first pass", unchanged, first),
    ])
}

struct Bench {
    store: Arc<Mutex<ObjectStore>>,
    api: Arc<Counted>,
    caches: Arc<Caches>,
    engine: Engine<ProviderConfigReconciler>,
}

impl Bench {
    fn new() -> Self {
        let store = Arc::new(Mutex::new(ObjectStore::new()));
        let server = SimulatedApiServer::direct(COMPONENT, Arc::clone(&store));
        let api = Arc::new(Counted {
            server,
            calls: AtomicUsize::new(0),
        });
        let caches = Arc::new(Caches::default());
        let counted: Arc<dyn ApiServer> = Arc::<Counted>::clone(&api);
        // Passes are made by hand, in order: nothing needs to be enqueued, and the seed of the backoff is never used.
        let engine = Engine::new(
            ProviderConfigReconciler::default(),
            COMPONENT,
            counted,
            Arc::clone(&caches),
            Arc::new(|_| {}),
            0,
        );
        Self {
            store,
            api,
            caches,
            engine,
        }
    }

    fn store(&self) -> MutexGuard<'_, ObjectStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create_objects(&self) -> anyhow::Result<Vec<ObjectKey>> {
        let kind = Kind::of::<ProviderConfig>();
        for number in 0..OBJECTS {
            let create = Operation::create(kind.clone(), fleet::provider(number));
            self.store().perform(fleet::USER_AGENT, create)?;
        }
        Ok(self
            .store()
            .objects(&kind)
            .iter()
            .map(|body| ObjectKey::in_body(body))
            .collect())
    }

    fn bring_caches_up_to_date(&self) {
        for cache in self.caches.all() {
            let objects = self.store().objects(&cache.kind());
            cache.ingest(Delta::Reset(
                objects.iter().map(|body| body.as_ref().clone()).collect(),
            ));
        }
    }

    /// One pass over each object: how long all took, and how many calls they made.
    async fn pass_over(&self, keys: &[ObjectKey]) -> anyhow::Result<(Duration, usize)> {
        let now = self.store().now();
        let before = self.api.calls.load(Ordering::Relaxed);
        let started = Instant::now();
        for key in keys {
            let report = self.engine.pass(key, now).await;
            if let Some(failure) = report.failure {
                bail!("the pass over {key} failed: {failure}");
            }
        }
        let took = started.elapsed();
        Ok((took, self.api.calls.load(Ordering::Relaxed) - before))
    }
}

/// An API server that counts its calls.
struct Counted {
    server: SimulatedApiServer,
    calls: AtomicUsize,
}

impl Counted {
    fn counted(&self) -> &SimulatedApiServer {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.server
    }
}

impl ApiServer for Counted {
    fn get<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey) -> Answer<'a, Option<Value>> {
        self.counted().get(kind, key)
    }

    fn list<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: Option<&'a str>,
        labels: Option<&'a str>,
    ) -> Answer<'a, Vec<Value>> {
        self.counted().list(kind, namespace, labels)
    }

    fn create<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        self.counted().create(kind, key, body)
    }

    fn replace<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        self.counted().replace(kind, key, body)
    }

    fn apply<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        part: Part,
        manager: &'a str,
        body: Value,
    ) -> Answer<'a, Value> {
        self.counted().apply(kind, key, part, manager, body)
    }

    fn merge<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, patch: Value) -> Answer<'a, Value> {
        self.counted().merge(kind, key, patch)
    }

    fn delete<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        self.counted().delete(kind, key, preconditions)
    }

    fn delete_after_dependents<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        self.counted()
            .delete_after_dependents(kind, key, preconditions)
    }
}

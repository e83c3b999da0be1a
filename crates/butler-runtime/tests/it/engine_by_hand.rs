//! The engine one pass at a time, with caches that show what the test lets them show.

use std::{sync::Arc, time::Duration};

use butler_api::keys::labels;
use butler_runtime::{
    cache::{AnyStore, Caches, Delta, Fetch},
    engine::{Engine, Report, Verdict},
    failure::Class,
    kube_api_server::KubeApiServer,
    object::ObjectKey,
    reconciler::Reconciler,
};
use butler_testkit::{ApiServer, TestNamespace};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::engine_workshop::{Carpenter, Inspector, Shelf, quiet_server, shelf};

/// A namespace and an engine that works in it when told to.
pub(crate) struct Bench<R: Reconciler> {
    pub(crate) server: &'static ApiServer,
    pub(crate) namespace: TestNamespace,
    user_agent: String,
    pub(crate) caches: Arc<Caches>,
    pub(crate) engine: Engine<R>,
}

impl<R: Reconciler> Bench<R> {
    pub(crate) async fn new(reconciler: R) -> Self {
        let server = quiet_server().await;
        let namespace = server.namespace("bench").await;
        // Of one's own, so that requests can be counted.
        let user_agent = format!("bench-{}", namespace.name());
        let caches = Arc::new(Caches::default());
        let api = Arc::new(KubeApiServer::new(server.client_as(&user_agent)));
        let engine = Engine::new(
            reconciler,
            "bench",
            api,
            Arc::clone(&caches),
            Arc::new(|_| {}),
            1,
        );
        Self {
            server,
            namespace,
            user_agent,
            caches,
            engine,
        }
    }

    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.name(), name)
    }

    pub(crate) fn shelves(&self) -> Api<Shelf> {
        self.namespace.api(self.server.client())
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> Shelf {
        let body = serde_json::from_value(shelf(name, spec)).unwrap();
        self.shelves()
            .create(&PostParams::default(), &body)
            .await
            .unwrap()
    }

    pub(crate) async fn pass(&self, name: &str) -> Report {
        self.engine.pass(&self.key(name), Timestamp::now()).await
    }

    /// Shows a cache what there is in the namespace.
    async fn show(&self, store: &dyn AnyStore) {
        let resource = store.kind().api_resource();
        let api = Api::<DynamicObject>::namespaced_with(
            self.server.client(),
            self.namespace.name(),
            &resource,
        );
        let selected = store.labels().map_or_else(ListParams::default, |labels| {
            ListParams::default().labels(labels)
        });
        let found = api.list(&selected).await.unwrap().items;
        store.ingest(Delta::Reset(
            found.iter().map(|object| json!(object)).collect(),
        ));
    }

    /// Shows every cache what there is in the namespace.
    pub(crate) async fn show_all(&self) {
        for store in self.caches.all() {
            self.show(store.as_ref()).await;
        }
    }

    /// Passes over an object until nothing is left to do.
    pub(crate) async fn settle(&self, name: &str) {
        for _ in 0..10 {
            self.show_all().await;
            let report = self.pass(name).await;
            assert_eq!(report.failure, None);
            if report.writes == 0 && report.verdict == Verdict::AwaitChange {
                return;
            }
        }
        panic!("{name} does not come to rest");
    }
}

#[tokio::test]
async fn a_dry_run_shows_the_plan_and_asks_for_nothing() {
    let bench = Bench::new(Carpenter).await;
    let rack = bench.create("rack", json!({ "boards": 2 })).await;
    bench.show_all().await;
    let plan = bench.engine.dry_run(&rack, Timestamp::now()).await.unwrap();
    let names: Vec<_> = plan
        .apply
        .iter()
        .map(|manifest| manifest.key.name.as_str())
        .collect();
    assert_eq!(names, ["rack-0", "rack-1"]);
    assert_eq!(plan.status.boards, Some(2));
    let requests = bench.server.audit().all().by_user_agent(&bench.user_agent);
    assert!(requests.is_empty(), "{requests}");
}

#[tokio::test]
async fn an_unchanged_world_causes_no_request_not_even_after_a_restart() {
    let bench = Bench::new(Carpenter).await;
    bench
        .create("rack", json!({ "boards": 2, "mood": "labels" }))
        .await;
    bench.settle("rack").await;
    let written = bench.server.audit().all().by_user_agent(&bench.user_agent);
    assert_eq!(
        written.count(),
        4,
        "two boards, a label and a status\n{written}"
    );

    let mark = bench.server.audit().mark();
    bench.show_all().await;
    assert_eq!(bench.pass("rack").await.writes, 0);
    // A new process: it remembers nothing.
    let api = Arc::new(KubeApiServer::new(
        bench.server.client_as(&bench.user_agent),
    ));
    let engine = Engine::new(
        Carpenter,
        "bench",
        api,
        Arc::clone(&bench.caches),
        Arc::new(|_| {}),
        2,
    );
    let report = engine.pass(&bench.key("rack"), Timestamp::now()).await;
    assert_eq!((report.writes, report.verdict), (0, Verdict::AwaitChange));
    let requests = bench
        .server
        .audit()
        .since(mark)
        .by_user_agent(&bench.user_agent);
    assert!(requests.is_empty(), "{requests}");
}

#[tokio::test]
async fn an_object_deleted_behind_our_back_does_not_come_back() {
    let bench = Bench::new(Carpenter).await;
    bench.create("ghost", json!({ "mood": "labels" })).await;
    bench.show_all().await;
    bench
        .shelves()
        .delete("ghost", &DeleteParams::default())
        .await
        .unwrap();

    let report = bench.pass("ghost").await;
    assert_eq!(
        report.failure.map(|failure| failure.class),
        Some(Class::Stale)
    );
    assert!(bench.shelves().get_opt("ghost").await.unwrap().is_none());
}

#[tokio::test]
async fn a_namesake_is_not_taken_for_the_object_we_knew() {
    let bench = Bench::new(Carpenter).await;
    bench.create("twin", json!({ "mood": "labels" })).await;
    bench.show_all().await;
    bench
        .shelves()
        .delete("twin", &DeleteParams::default())
        .await
        .unwrap();
    let twin = bench.create("twin", json!({})).await;

    let report = bench.pass("twin").await;
    assert_eq!(
        report.failure.map(|failure| failure.class),
        Some(Class::Stale)
    );
    let found = bench.shelves().get("twin").await.unwrap();
    assert_eq!(found.metadata.uid, twin.metadata.uid);
    assert!(found.labels().is_empty(), "{found:?}");
}

#[tokio::test]
async fn a_stale_cache_leads_to_no_second_board() {
    let bench = Bench::new(Carpenter).await;
    bench.create("rack", json!({ "boards": 1 })).await;
    bench.show_all().await;
    assert_eq!(bench.pass("rack").await.writes, 2, "a board and a status");
    // The caches show nothing of it yet: wait, do not write again.
    let report = bench.pass("rack").await;
    assert_eq!(report.writes, 0);
    assert!(matches!(report.verdict, Verdict::After(_)), "{report:?}");
}

#[tokio::test]
async fn a_cache_that_only_others_read_is_not_waited_for() {
    let bench = Bench::new(Carpenter).await;
    // In the same process, somebody else reads shelves another way, and that watch is slow.
    let api = Arc::new(KubeApiServer::new(bench.server.client()));
    let _other = Engine::new(
        Inspector,
        "bench",
        api,
        Arc::clone(&bench.caches),
        Arc::new(|_| {}),
        3,
    );
    bench.create("rack", json!({})).await;
    bench.show_all().await;
    assert_eq!(bench.pass("rack").await.writes, 1, "a status");
    for store in bench
        .caches
        .all()
        .into_iter()
        .filter(|store| store.fetch() == Fetch::Objects)
    {
        bench.show(store.as_ref()).await;
    }
    let report = bench.pass("rack").await;
    assert_eq!(report.verdict, Verdict::AwaitChange, "{report:?}");
}

#[tokio::test]
async fn a_failed_pass_does_not_claim_to_have_observed_the_new_spec() {
    let bench = Bench::new(Carpenter).await;
    let rack = bench.create("rack", json!({ "boards": 1 })).await;
    bench.settle("rack").await;
    bench.show_all().await;
    let mut changed = bench.shelves().get("rack").await.unwrap();
    changed.spec.boards = 2;
    bench
        .shelves()
        .replace("rack", &PostParams::default(), &changed)
        .await
        .unwrap();
    bench.show_all().await;

    bench
        .engine
        .overdue(&bench.key("rack"), Duration::from_secs(1), Timestamp::now())
        .await;
    let found = bench.shelves().get("rack").await.unwrap();
    let status = found.status.unwrap();
    assert_eq!(status.boards, Some(1), "what was known stays");
    assert_eq!(
        status.observed_generation, rack.metadata.generation,
        "and says of which spec it was known"
    );
    assert!(
        status
            .conditions
            .iter()
            .any(|condition| condition.reason == "DeadlineExceeded")
    );
}

#[tokio::test]
async fn boards_have_the_labels_that_pruning_needs() {
    let bench = Bench::new(Carpenter).await;
    let rack = bench.create("rack", json!({ "boards": 1 })).await;
    bench.settle("rack").await;
    let boards = bench.namespace.api::<ConfigMap>(bench.server.client());
    let board = boards.get("rack-0").await.unwrap();
    let managed = board.metadata.managed_fields.as_ref().unwrap();
    assert_eq!(managed[0].manager.as_deref(), Some(bench.engine.manager()));
    assert_eq!(
        board.labels().get(labels::OWNER_UID),
        rack.metadata.uid.as_ref()
    );
    assert_eq!(
        board.labels().get(labels::OWNER_KIND).map(String::as_str),
        Some("Shelf")
    );
}

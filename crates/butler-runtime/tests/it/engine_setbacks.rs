//! One thing of a plan fails, on a real API server: the rest is done, nothing is deleted, and the status says what failed.

use std::sync::{Arc, Mutex};

use butler_api::conditions::{reasons, types};
use butler_runtime::{
    engine::{Report, Verdict},
    failure::{Class, Failure},
    object::{Kind, Manifest},
    plan::{Next, Plan, Prune},
    reconciler::{Context, Needs, Reconciler, Sources},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    engine_by_hand::Bench,
    engine_workshop::{Shelf, ShelfStatus},
};

/// What is done to a shelf beside its boards, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Deed {
    /// It needs nothing.
    Sweep,
    /// It needs the deeds before it.
    Sand,
    /// It needs all boards and the deeds before it.
    Varnish,
    /// It needs nothing, and comes last.
    Lock,
}

const DEEDS: [Deed; 4] = [Deed::Sweep, Deed::Sand, Deed::Varnish, Deed::Lock];

/// The controller of shelves whose boards may be crooked, and whose deeds may fail.
#[derive(Clone, Default)]
struct Joiner {
    /// The deed that fails.
    clumsy: Option<Deed>,
    done: Arc<Mutex<Vec<Deed>>>,
}

impl Reconciler for Joiner {
    const NAME: &'static str = "joiner";
    const FINALIZER: Option<&'static str> = Some("butler.test/joiner");
    type Object = Shelf;
    type Status = ShelfStatus;
    type World = ();
    type Effect = Deed;

    fn sources(&self, sources: &mut Sources<'_, Shelf>) {
        sources.owns::<ConfigMap>();
    }

    async fn observe(&self, _: &Shelf, _: &Context) -> Result<(), Failure> {
        Ok(())
    }

    fn plan(&self, object: &Shelf, (): &(), _: Timestamp) -> Plan<ShelfStatus, Deed> {
        let names = object.annotations().get("boards");
        let names: Vec<_> = names
            .into_iter()
            .flat_map(|names| names.split(' '))
            .collect();
        let deleting = object.meta().deletion_timestamp.is_some();
        Plan {
            apply: boards(object, &names),
            prune: Prune::Unlisted,
            effects: DEEDS.to_vec(),
            next: if deleting {
                Next::Done
            } else {
                Next::AwaitChange
            },
            ..Plan::status(ShelfStatus {
                boards: u32::try_from(names.len()).ok(),
                ..ShelfStatus::default()
            })
        }
    }

    fn needs(&self, deed: &Deed) -> Needs {
        match deed {
            Deed::Sweep | Deed::Lock => Needs::Nothing,
            Deed::Sand => Needs::EarlierEffects,
            Deed::Varnish => Needs::Everything,
        }
    }

    async fn perform(&self, _: &Shelf, deed: &Deed, _: &Context) -> Result<(), Failure> {
        if self.clumsy == Some(*deed) {
            return Err(Failure::retry(reasons::FAILED, format!("{deed:?} failed")));
        }
        self.done.lock().unwrap().push(*deed);
        Ok(())
    }
}

/// The boards with these names. The API server takes none that is crooked; one that leans needs the board before it.
fn boards(shelf: &Shelf, names: &[&str]) -> Vec<Manifest> {
    let mut boards: Vec<Manifest> = Vec::new();
    for name in names {
        let label = if name.starts_with("crooked") {
            "not a label!"
        } else {
            "straight"
        };
        let metadata =
            json!({ "name": name, "namespace": shelf.namespace(), "labels": { "form": label } });
        let board = Manifest::new(Kind::of::<ConfigMap>(), json!({ "metadata": metadata }));
        let before = boards.last().filter(|_| name.starts_with("leaning"));
        let board = before.map_or_else(|| board.clone(), |before| board.clone().needing(before));
        boards.push(board);
    }
    boards
}

/// A joiner's bench with one shelf.
struct Shop {
    bench: Bench<Joiner>,
    joiner: Joiner,
}

impl Shop {
    async fn new(clumsy: Option<Deed>) -> Self {
        let joiner = Joiner {
            clumsy,
            ..Joiner::default()
        };
        let bench = Bench::new(joiner.clone()).await;
        bench.create("rack", json!({})).await;
        Self { bench, joiner }
    }

    /// Asks for these boards, shows the joiner everything, and lets him work once.
    async fn work(&self, boards: &str) -> Report {
        let patch = json!({ "metadata": { "annotations": { "boards": boards } } });
        self.patch(&patch).await;
        self.joiner.done.lock().unwrap().clear();
        self.bench.show_all().await;
        self.bench.pass("rack").await
    }

    async fn patch(&self, patch: &Value) {
        let shelves = self.bench.shelves();
        let patch = Patch::Merge(patch);
        shelves
            .patch("rack", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// The boards that are there.
    async fn boards(&self) -> Vec<String> {
        let boards = self
            .bench
            .namespace
            .api::<ConfigMap>(self.bench.server.client());
        let ours = ListParams::default().labels("form");
        let found = boards.list(&ours).await.unwrap().items;
        found.iter().map(ResourceExt::name_any).collect()
    }

    fn done(&self) -> Vec<Deed> {
        self.joiner.done.lock().unwrap().clone()
    }

    /// What the shelf says of the last pass, and of how many boards.
    async fn said(&self) -> (String, Option<u32>) {
        let rack = self.bench.shelves().get("rack").await.unwrap();
        let status = rack.status.unwrap();
        let mut conditions = status.conditions.into_iter();
        let said = conditions.find(|condition| condition.type_ == types::RECONCILED);
        let said = said.filter(|said| said.status == "False");
        (
            said.map(|said| said.message).unwrap_or_default(),
            status.boards,
        )
    }
}

#[tokio::test]
async fn a_refused_board_keeps_the_others_and_the_deeds_from_nothing() {
    let shop = Shop::new(None).await;
    let report = shop.work("first crooked last").await;

    assert_eq!(shop.boards().await, ["first", "last"]);
    assert_eq!(shop.done(), [Deed::Sweep, Deed::Sand, Deed::Lock]);
    let (words, planned) = shop.said().await;
    assert!(
        words.contains("crooked") && !words.contains("more"),
        "{words}"
    );
    assert_eq!(planned, Some(3), "the plan's own words stand beside it");
    let failure = report.failure.unwrap();
    assert_eq!((failure.class, failure.message), (Class::Terminal, words));
    assert!(
        matches!(report.verdict, Verdict::After(_)),
        "it is tried again"
    );
}

#[tokio::test]
async fn several_refused_boards_are_told_in_one_sentence() {
    let shop = Shop::new(None).await;
    shop.work("crooked-1 straight crooked-2 leaning").await;

    assert_eq!(shop.boards().await, ["straight"]);
    let (words, _) = shop.said().await;
    assert!(words.contains("crooked-1"), "the first by name: {words}");
    assert!(
        words.ends_with("; and 1 more"),
        "what leans has not failed: {words}"
    );
}

#[tokio::test]
async fn no_board_goes_while_another_is_refused() {
    let shop = Shop::new(None).await;
    shop.work("old").await;
    shop.work("crooked").await;
    assert_eq!(shop.boards().await, ["old"]);

    shop.work("new").await;
    assert_eq!(shop.boards().await, ["new"], "now it goes");
    assert_eq!(shop.said().await.0, "");
}

#[tokio::test]
async fn a_failed_deed_stops_those_that_build_upon_it_and_the_pruning() {
    let shop = Shop::new(Some(Deed::Sand)).await;
    shop.work("old").await;
    shop.work("new").await;

    assert_eq!(shop.boards().await, ["new", "old"]);
    assert_eq!(shop.done(), [Deed::Sweep, Deed::Lock]);
    assert_eq!(shop.said().await.0, "Sand failed");
}

#[tokio::test]
async fn a_deleted_shelf_stays_until_all_went_well() {
    let shop = Shop::new(None).await;
    shop.work("first").await;
    let shelves = shop.bench.shelves();
    shelves
        .delete("rack", &DeleteParams::default())
        .await
        .unwrap();
    let report = shop.work("crooked").await;
    assert!(report.failure.is_some());
    assert!(shelves.get_opt("rack").await.unwrap().is_some());

    let report = shop.work("first").await;
    assert_eq!(report.failure, None);
    assert!(shelves.get_opt("rack").await.unwrap().is_none());
}

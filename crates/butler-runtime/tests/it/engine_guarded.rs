//! Status writes on a real API server, from a picture that is out of date.

use std::time::Duration;

use butler_api::keys::annotations;
use butler_runtime::{
    cache::{AnyStore, Delta, Whole},
    engine::{Report, Verdict},
    failure::Class,
};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    engine_by_hand::Bench,
    engine_workshop::{Carpenter, Shelf},
};

/// Changes a shelf behind the back of the caches.
async fn change(bench: &Bench<Carpenter>, name: &str, spec: Value) {
    let patch = Patch::Merge(json!({ "spec": spec }));
    let (shelves, parameters) = (bench.shelves(), PatchParams::default());
    shelves.patch(name, &parameters, &patch).await.unwrap();
}

fn assert_stale(report: &Report) {
    let class = report.failure.as_ref().map(|failure| failure.class);
    assert_eq!(class, Some(Class::Stale), "{report:?}");
    assert!(matches!(report.verdict, Verdict::After(_)), "{report:?}");
    assert_eq!(report.told, [], "nothing is told of what was refused");
}

async fn assert_no_events(bench: &Bench<Carpenter>) {
    let events: Api<Event> = bench.namespace.api(bench.server.client());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    assert!(events.is_empty(), "{events:#?}");
}

#[tokio::test]
async fn a_status_planned_from_an_old_spec_is_refused_and_planned_again() {
    let bench = Bench::new(Carpenter).await;
    bench.create("rack", json!({})).await;
    bench.settle("rack").await;
    change(&bench, "rack", json!({ "boards": 1 })).await;
    bench.show_all().await;
    change(&bench, "rack", json!({ "boards": 2 })).await;

    assert_stale(&bench.pass("rack").await);
    let status = bench.shelves().get("rack").await.unwrap().status.unwrap();
    assert_eq!(status.boards, Some(0), "the old plan did not reach it");

    bench.settle("rack").await;
    let status = bench.shelves().get("rack").await.unwrap().status.unwrap();
    assert_eq!(status.boards, Some(2));
}

#[tokio::test]
async fn a_shelf_that_labels_itself_does_not_pass_an_old_spec_off_as_the_new_one() {
    let bench = Bench::new(Carpenter).await;
    bench.create("table", json!({ "mood": "labels" })).await;
    bench.show_all().await;
    change(&bench, "table", json!({ "boards": 2 })).await;

    assert_stale(&bench.pass("table").await);
    let table = bench.shelves().get("table").await.unwrap();
    assert_eq!(table.status, None);
    bench.settle("table").await;
    let table = bench.shelves().get("table").await.unwrap();
    assert_eq!(table.status.unwrap().boards, Some(2));
}

#[tokio::test]
async fn a_status_does_not_land_on_a_namesake() {
    let bench = Bench::new(Carpenter).await;
    bench.create("twin", json!({})).await;
    bench.show_all().await;
    let shelves = bench.shelves();
    let deletion = DeleteParams::default();
    shelves.delete("twin", &deletion).await.unwrap();
    bench.create("twin", json!({})).await;

    assert_stale(&bench.pass("twin").await);
    assert_eq!(shelves.get("twin").await.unwrap().status, None);
}

#[tokio::test]
async fn a_deadline_is_not_held_against_an_object_that_has_changed_since() {
    let bench = Bench::new(Carpenter).await;
    bench.create("rack", json!({ "mood": "hangs" })).await;
    bench.show_all().await;
    change(&bench, "rack", json!({ "mood": "calm" })).await;

    let (key, now) = (bench.key("rack"), Timestamp::now());
    let deadline = Duration::from_secs(1);
    assert_stale(&bench.engine.overdue(&key, deadline, now).await);
    assert_eq!(bench.shelves().get("rack").await.unwrap().status, None);
    assert_no_events(&bench).await;
}

#[tokio::test]
async fn neither_pause_nor_malformation_is_shown_on_an_object_that_has_changed_since() {
    let paused = json!({ "metadata": { "annotations": { annotations::PAUSED: "true" } } });
    let malformed = json!({ "spec": { "boards": "many" } });
    for (what, differs) in [("paused", paused), ("malformed", malformed)] {
        let bench = Bench::new(Carpenter).await;
        let mut seen = json!(bench.create("rack", json!({})).await);
        for (part, value) in differs.as_object().unwrap() {
            for (name, value) in value.as_object().unwrap() {
                seen[part][name] = value.clone();
            }
        }
        bench
            .caches
            .store::<Whole<Shelf>>()
            .ingest(Delta::Reset(vec![seen]));
        change(&bench, "rack", json!({ "boards": 1 })).await;

        assert_stale(&bench.pass("rack").await);
        let status = bench.shelves().get("rack").await.unwrap().status;
        assert_eq!(status, None, "{what}");
        bench.settle("rack").await;
    }
}

use butler_runtime::{
    cache::{AnyStore as _, Caches, Delta},
    task,
};
use butler_testkit::{ApiServer, Options, eventually};
use jiff::Timestamp;
use kube::{Api, ResourceExt as _, api::PostParams};
use pretty_assertions::assert_eq;

use super::*;

const PATIENCE: Duration = Duration::from_mins(1);

fn waiting(count: usize) -> Waiting {
    Waiting {
        count,
        since: (count > 0).then(|| Timestamp::from_second(1_767_225_600).unwrap()),
    }
}

fn stand(count: usize, version: u64) -> Stand {
    Stand {
        told: told(waiting(count)),
        version,
    }
}

#[test]
fn who_waits_is_told_and_nobody_is_not() {
    assert_eq!(told(waiting(0)), Told::default());
    let expected = Told {
        count: Some("2".to_owned()),
        since: Some("2026-01-01T00:00:00Z".to_owned()),
    };
    assert_eq!(told(waiting(2)), expected);
}

#[test]
fn what_stands_there_is_not_written_again() {
    let wanted = Some(waiting(1));
    assert_eq!(due(wanted, Some(&stand(1, 7)), None), None);
    assert_eq!(
        due(wanted, Some(&stand(0, 7)), None),
        Some(told(waiting(1)))
    );
    // Nothing is known of the Services yet, or of the cluster.
    assert_eq!(due(None, Some(&stand(1, 7)), None), None);
    assert_eq!(due(wanted, None, None), None);
    assert_eq!(due(wanted, None, Some(&stand(0, 9))), None);
}

#[test]
fn what_was_written_counts_until_the_cache_is_as_new() {
    let written = stand(1, 9);
    // The cache shows what was there before, or what somebody else wrote before us.
    for shown in [stand(0, 7), stand(0, 8)] {
        assert_eq!(due(Some(waiting(1)), Some(&shown), Some(&written)), None);
        let nobody = due(Some(waiting(0)), Some(&shown), Some(&written));
        assert_eq!(nobody, Some(Told::default()), "the 1 must go");
    }
    assert_eq!(
        due(Some(waiting(1)), Some(&stand(1, 9)), Some(&written)),
        None
    );
    // Somebody has taken it off since.
    let again = due(Some(waiting(1)), Some(&stand(0, 10)), Some(&written));
    assert_eq!(again, Some(told(waiting(1))));
}

fn count(found: Option<&ButlerCluster>) -> Option<&str> {
    let said = found?
        .annotations()
        .get(annotations::WAITING_LOAD_BALANCERS)?;
    Some(said)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_right_however_late_the_cache_is_and_nothing_is_written_at_rest() {
    const REPORTER: &str = "reporter";
    let server = ApiServer::start(Options::default()).await.unwrap();
    let namespace = server.namespace("shop").await;
    let clusters: Api<ButlerCluster> = namespace.api(server.client_as("story"));
    let body = json!({
        "metadata": { "name": "shop" },
        "spec": { "providerRef": { "name": "local", "namespace": "butler-system" } },
    });
    let made: ButlerCluster = serde_json::from_value(body).unwrap();
    let made = clusters
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    let key = ObjectKey::of(&made);

    // The test is the watch: the cache shows what it is given, and when.
    let store = Caches::default().store::<ClusterFacts>();
    let say = watch::Sender::new(None);
    let reporting = report(
        server.client_as(REPORTER),
        Clusters::new(Arc::clone(&store)),
        key,
        say.subscribe(),
    );
    let reporting = task::spawn("report", reporting);
    let writes = || {
        let requests = server.audit().all().by_user_agent(REPORTER);
        requests.writes().count()
    };
    let shows = |cluster: &ButlerCluster| store.ingest(Delta::Upsert(json!(cluster)));

    // It is known before the cluster is, and told as soon as that is seen.
    say.send_replace(Some(waiting(1)));
    shows(&made);
    let one = eventually(
        &clusters,
        "shop",
        "says that one waits",
        PATIENCE,
        |found| count(found) == Some("1"),
    )
    .await;
    // The Service has its address before the cache shows that it waited.
    say.send_replace(Some(waiting(0)));
    let none = eventually(
        &clusters,
        "shop",
        "says that none waits",
        PATIENCE,
        |found| found.is_some() && count(found).is_none(),
    )
    .await;
    assert_eq!(writes(), 2);
    // What comes late changes nothing, and what was told already is not told again.
    shows(&one);
    shows(&none);
    say.send_replace(Some(waiting(0)));
    say.send_replace(Some(waiting(3)));
    let three = eventually(
        &clusters,
        "shop",
        "says that three wait",
        PATIENCE,
        |found| count(found) == Some("3"),
    )
    .await;
    assert_eq!(writes(), 3);
    shows(&three);
    // What somebody takes off is said again.
    let taken =
        json!({ "metadata": { "annotations": { annotations::WAITING_LOAD_BALANCERS: null } } });
    let taken = clusters
        .patch(
            "shop",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(&taken),
        )
        .await
        .unwrap();
    shows(&taken);
    eventually(&clusters, "shop", "says it again", PATIENCE, |found| {
        count(found) == Some("3")
    })
    .await;
    assert_eq!(writes(), 4);
    reporting.abort();
}

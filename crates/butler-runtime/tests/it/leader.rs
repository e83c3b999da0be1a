use std::time::Duration;

use butler_runtime::leader::{Elector, LeaderError, LeaderSettings, LeaseName};
use butler_runtime::metrics::Metrics;
use butler_runtime::task;
use butler_testkit::{ApiServer, eventually};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use kube::api::PostParams;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::http::PATIENCE;

const LEASE: &str = "butler-controller";

/// A candidate whose work waits until it is told to end.
struct Candidate {
    leading: watch::Receiver<bool>,
    shutdown: CancellationToken,
    work_ended: CancellationToken,
    run: JoinHandle<Result<Option<&'static str>, LeaderError>>,
}

impl Candidate {
    fn start(server: &ApiServer, namespace: &str, me: &str, settings: LeaderSettings) -> Self {
        let lease = LeaseName {
            namespace: namespace.to_owned(),
            name: LEASE.to_owned(),
        };
        let client = server.client_as("butler-controller");
        let elector = Elector::new(client, lease, me.to_owned(), settings, Metrics::new());
        let (shutdown, work_ended) = (CancellationToken::new(), CancellationToken::new());
        let leading = elector.leading();
        let ended = work_ended.clone();
        let run = elector.run(shutdown.clone(), |token| async move {
            let _ended = ended.drop_guard();
            token.cancelled().await;
            "finished"
        });
        Self {
            leading,
            shutdown,
            work_ended,
            run: task::spawn(me, run),
        }
    }

    async fn leads(&mut self, within: Duration) {
        let led = timeout(within, self.leading.wait_for(|leading| *leading)).await;
        led.expect("leads in time").expect("is a candidate still");
    }
}

fn quick() -> LeaderSettings {
    let (duration, deadline) = (Duration::from_secs(3), Duration::from_secs(2));
    LeaderSettings::new(duration, deadline, Duration::from_millis(500)).expect("safe")
}

async fn record(leases: &Api<Lease>) -> LeaseSpec {
    leases
        .get(LEASE)
        .await
        .expect("the lease exists")
        .spec
        .expect("has a record")
}

#[tokio::test]
async fn a_leader_that_stops_hands_over_at_once() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("leader").await;
    let leases: Api<Lease> = namespace.api(server.client());
    // A lease of a quarter of an hour: only a release can let the second one in.
    let minutes = Duration::from_mins(15);
    let settings = LeaderSettings::new(minutes, Duration::from_mins(10), Duration::from_secs(2));
    let settings = settings.expect("safe");

    let mut first = Candidate::start(server, namespace.name(), "first", settings);
    first.leads(PATIENCE).await;
    let mut second = Candidate::start(server, namespace.name(), "second", settings);

    first.shutdown.cancel();
    let output = first.run.await.expect("no panic").expect("not lost");
    assert_eq!(
        output,
        Some("finished"),
        "the work ended before the lease was given back"
    );
    second.leads(PATIENCE).await;
    let record = record(&leases).await;
    assert_eq!(record.holder_identity.as_deref(), Some("second"));
    assert_eq!(record.lease_transitions, Some(1));

    second.shutdown.cancel();
    second.run.await.expect("no panic").expect("not lost");
    let released = leases
        .get(LEASE)
        .await
        .expect("stays")
        .spec
        .expect("has a record");
    assert_eq!(released.holder_identity.as_deref(), Some(""));
}

#[tokio::test]
async fn a_leader_that_dies_is_replaced_when_its_lease_ends() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("leader").await;
    let leases: Api<Lease> = namespace.api(server.client());

    let mut first = Candidate::start(server, namespace.name(), "first", quick());
    first.leads(PATIENCE).await;
    let mut second = Candidate::start(server, namespace.name(), "second", quick());
    let held = eventually(&leases, LEASE, "is renewed", PATIENCE, |lease| {
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        spec.is_some_and(|spec| spec.renew_time > spec.acquire_time)
    })
    .await;
    assert_eq!(
        held.spec.expect("a record").holder_identity.as_deref(),
        Some("first")
    );
    assert!(!*second.leading.borrow(), "only one leads");

    first.run.abort();
    let died = Instant::now();
    timeout(PATIENCE, first.work_ended.cancelled())
        .await
        .expect("the work ends with it");
    second.leads(PATIENCE).await;
    assert!(
        died.elapsed() > Duration::from_secs(1),
        "the lease of the dead was respected"
    );
    let record = record(&leases).await;
    assert_eq!(record.holder_identity.as_deref(), Some("second"));
    assert_eq!(record.lease_transitions, Some(1));
    second.shutdown.cancel();
    second.run.await.expect("no panic").expect("not lost");
}

#[tokio::test]
async fn a_leader_that_was_robbed_stops_its_work() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("leader").await;
    let leases: Api<Lease> = namespace.api(server.client());
    let mut leader = Candidate::start(server, namespace.name(), "leader", quick());
    leader.leads(PATIENCE).await;

    // The leader renews meanwhile, so that a first try may be a conflict.
    loop {
        let mut lease = leases.get(LEASE).await.expect("exists");
        let spec = lease.spec.as_mut().expect("a record");
        spec.holder_identity = Some("robber".to_owned());
        spec.lease_duration_seconds = Some(600);
        match leases.replace(LEASE, &PostParams::default(), &lease).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(error) => panic!("cannot take the lease: {error}"),
        }
    }
    let outcome = timeout(PATIENCE, &mut leader.run)
        .await
        .expect("ends")
        .expect("no panic");
    assert!(
        matches!(outcome, Err(LeaderError::Lost { .. })),
        "{outcome:?}"
    );
    assert!(leader.work_ended.is_cancelled(), "the work ended");
    let record = record(&leases).await;
    assert_eq!(
        record.holder_identity.as_deref(),
        Some("robber"),
        "what is not ours is not released"
    );
}

#[tokio::test]
async fn a_deleted_lease_is_made_again_by_its_leader() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("leader").await;
    let leases: Api<Lease> = namespace.api(server.client());
    let mut leader = Candidate::start(server, namespace.name(), "leader", quick());
    leader.leads(PATIENCE).await;
    let before = leases.get(LEASE).await.expect("exists").metadata.uid;
    leases
        .delete(LEASE, &kube::api::DeleteParams::default())
        .await
        .expect("deleted");
    eventually(&leases, LEASE, "is made again", PATIENCE, |lease| {
        lease.is_some_and(|lease| lease.metadata.uid != before)
    })
    .await;
    assert!(*leader.leading.borrow(), "it leads still");
    leader.shutdown.cancel();
    leader.run.await.expect("no panic").expect("not lost");
}

#[tokio::test]
async fn a_standby_that_is_stopped_never_worked() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("leader").await;
    let mut leader = Candidate::start(server, namespace.name(), "leader", quick());
    leader.leads(PATIENCE).await;
    let standby = Candidate::start(server, namespace.name(), "standby", quick());
    standby.shutdown.cancel();
    let outcome = timeout(PATIENCE, standby.run)
        .await
        .expect("ends")
        .expect("no panic");
    assert!(matches!(outcome, Ok(None)), "{outcome:?}");
    leader.shutdown.cancel();
    leader.run.await.expect("no panic").expect("not lost");
}

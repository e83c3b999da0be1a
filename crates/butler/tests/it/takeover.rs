//! Two replicas: when the leader dies, the other finishes the work, and nothing is done twice.

use butler_api::butler::provider_config::ProviderConfig;
use butler_testkit::{ApiServer, Options, audit::Request, eventually, eventually_all};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::{
    fleet::{self, CONTROLLER, PATIENCE, USER_AGENT},
    history::History,
    replica::Replica,
};

const FLEET: usize = 60;
/// What the controllers write for one provider: a finalizer and a status when it is made, a status when it is changed.
const WRITES: usize = 3;
/// What becomes of one provider: it is made and changed by its user, beside what the controllers write.
const REVISIONS: usize = WRITES + 2;
const LEASE: &str = "butler-controller.butlerlabs.dev";

/// Whether the lease is held by the replica of this name.
fn held_by(lease: Option<&Lease>, name: &str) -> bool {
    let holder = lease
        .and_then(|lease| lease.spec.as_ref())
        .and_then(|spec| spec.holder_identity.as_deref());
    holder.is_some_and(|holder| holder.starts_with(name))
}

async fn leads(leases: &Api<Lease>, name: &str) {
    eventually(leases, LEASE, &format!("{name} leads"), PATIENCE, |lease| {
        held_by(lease, name)
    })
    .await;
}

#[tokio::test]
async fn a_standby_finishes_what_a_killed_leader_began_and_writes_nothing_twice() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as(USER_AGENT);
    let leases = Api::<Lease>::default_namespaced(client.clone());
    let providers = Api::<ProviderConfig>::default_namespaced(client);

    let history = History::start(&providers).await;
    let mut first = Replica::start(&server, "first");
    leads(&leases, "first").await;
    let mut second = Replica::start(&server, "second");

    // The leader dies in the middle of its work.
    let ((), begun) = tokio::join!(
        fleet::create(&providers, FLEET),
        eventually_all(
            &providers,
            "",
            "some providers are done",
            PATIENCE,
            |found| {
                found
                    .iter()
                    .filter(|provider| fleet::is_settled(provider))
                    .count()
                    >= FLEET / 4
            }
        ),
    );
    first.kill();
    assert!(!begun.is_empty());
    leads(&leases, "second").await;
    fleet::settled(&providers, FLEET).await;

    // A later change is the standby's alone.
    let mark = server.audit().mark();
    fleet::change(&providers, FLEET).await;
    fleet::settled(&providers, FLEET).await;
    let changes = server
        .audit()
        .since(mark)
        .by_user_agent(CONTROLLER)
        .writes()
        .except_resource("leases");
    assert_eq!(
        changes.count(),
        FLEET,
        "one status write a change\n{changes}"
    );

    // Over all, for every provider: it is made, gets a finalizer and a status, is changed, and gets a status.
    let counts = history.counts(&providers).await;
    assert_eq!(counts.len(), FLEET);
    for (name, revisions) in counts {
        assert_eq!(revisions, REVISIONS, "{name}");
    }
    // Nor was anything asked for that would have changed nothing. What the dead leader had on the wire ends with 504,
    // whether it was done or not.
    let writes = server.audit().all().by_user_agent(CONTROLLER).writes();
    let writes = writes.filter(|request| request.resource.starts_with("providerconfigs"));
    let (writes, refused) = writes.partition(Request::is_done);
    let cut_off = refused.iter().all(|request| request.status == Some(504));
    assert!(cut_off, "only what was cut off fails\n{refused:#?}");
    assert!(writes.count() <= FLEET * WRITES, "{writes}");

    assert!(second.stop(), "a replica that is asked to stop ends well");
    eventually(
        &leases,
        LEASE,
        "the lease is given back",
        PATIENCE,
        |lease| !held_by(lease, "second"),
    )
    .await;
}

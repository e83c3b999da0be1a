//! A fleet at rest costs nothing.

use std::time::Duration;

use butler_api::butler::provider_config::ProviderConfig;
use butler_testkit::{ApiServer, Options};
use kube::Api;

use crate::{
    fleet::{self, CONTROLLER, USER_AGENT},
    replica::Replica,
};

const FLEET: usize = 500;
/// Long enough for every lease renewal, resync or requeue there could be.
const WINDOW: Duration = Duration::from_mins(1);

#[tokio::test]
async fn five_hundred_providers_at_rest_cause_no_request_but_lease_renewals() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let providers = Api::<ProviderConfig>::default_namespaced(server.client_as(USER_AGENT));
    let _replica = Replica::start(&server, "only");
    fleet::create(&providers, FLEET).await;
    fleet::settled(&providers, FLEET).await;

    let mark = server.audit().mark();
    // Not a wait for something to happen: the minute in which nothing may happen.
    tokio::time::sleep(WINDOW).await;
    let requests = server.audit().since(mark).by_user_agent(CONTROLLER);
    let renewals = requests.clone().for_resource("leases").writes().count();
    assert!(
        renewals > 0,
        "the controller is alive and leads\n{requests}"
    );
    let rest = requests.except_resource("leases");
    assert_eq!(rest.clone().writes().count(), 0, "{rest}");
    let reads = rest.filter(|request| request.verb != "watch");
    assert_eq!(reads.count(), 0, "{reads}");
}

#[tokio::test]
async fn a_restart_writes_nothing_that_is_written_already() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let providers = Api::<ProviderConfig>::default_namespaced(server.client_as(USER_AGENT));
    let mut replica = Replica::start(&server, "before");
    fleet::create(&providers, 20).await;
    fleet::settled(&providers, 20).await;
    assert!(replica.stop());

    let mark = server.audit().mark();
    let _replica = Replica::start(&server, "after");
    // When this change is observed, the passes over the others have begun as well: one queue, in order.
    fleet::change(&providers, 1).await;
    fleet::settled(&providers, 20).await;
    let writes = server
        .audit()
        .since(mark)
        .by_user_agent(CONTROLLER)
        .writes()
        .except_resource("leases");
    assert_eq!(writes.count(), 1, "only the changed one\n{writes}");
}

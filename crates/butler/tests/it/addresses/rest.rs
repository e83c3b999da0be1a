//! Addresses at rest cost nothing.

use std::time::Duration;

use butler_testkit::{
    ApiServer, Options,
    audit::{Mark, Request, Requests},
};
use futures::future::join_all;
use tokio::time::{sleep, timeout};

use super::{
    orders::{self, Writer},
    record::{Record, Recorder},
    replay::Numbers,
};
use crate::{
    fleet::{CONTROLLER, PATIENCE, USER_AGENT},
    replica::Replica,
};

/// Of which a third is deleted again.
const ALLOCATIONS: usize = 360;
const STAY: usize = 200;
/// What an allocation takes from its creation to its grant: its finalizer, that it waits, and what it was granted.
const WRITES: usize = 3;
/// As long as nothing is asked for before it counts as rest.
const BREATH: Duration = Duration::from_secs(1);
/// Longer than a controller puts anything off that it has begun.
const WINDOW: Duration = Duration::from_secs(5);

/// What the controllers asked for since, but for leases; a watch that goes on is no question.
fn asked(server: &ApiServer, mark: Mark) -> Requests {
    let requests = server.audit().since(mark).by_user_agent(CONTROLLER);
    let requests = requests.except_resource("leases");
    requests.filter(|request| request.verb != "watch")
}

/// Waits until the controllers have nothing to do and ask for nothing any more. Silence alone is no rest: a controller that
/// has just started looks at thousands of objects before it finds one to write.
pub(crate) async fn come_to_rest(server: &ApiServer, replicas: &[&Replica]) {
    let rests = timeout(PATIENCE, async {
        loop {
            let mark = server.audit().mark();
            let idle_before = are_idle(replicas).await;
            // Not a wait for something to happen: the time in which nothing happens.
            sleep(BREATH).await;
            if idle_before && are_idle(replicas).await && asked(server, mark).is_empty() {
                return;
            }
        }
    });
    rests.await.expect("the controllers come to rest");
}

async fn are_idle(replicas: &[&Replica]) -> bool {
    let idle = join_all(replicas.iter().map(|replica| replica.is_idle()));
    idle.await.into_iter().all(|idle| idle)
}

/// The controllers ask for nothing in a time in which nothing happens.
pub(crate) async fn stays_at_rest(server: &ApiServer) {
    let mark = server.audit().mark();
    // Not a wait for something to happen: the time in which nothing may happen.
    sleep(WINDOW).await;
    let requests = asked(server, mark);
    assert!(requests.is_empty(), "{requests}");
}

#[tokio::test]
async fn two_hundred_allocations_take_three_writes_each_and_no_request_at_rest() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as(USER_AGENT);
    let recorder = Recorder::start(&client).await;
    let replica = Replica::start(&server, "only");
    orders::create_pool(&client).await;
    let writer = Writer::new(&client, 3, 0, ALLOCATIONS).await;
    writer.write(&recorder).await;
    let stay = writer.stay();
    let settled = |record: &Record| record.settled == stay;
    recorder.until("all are granted or refused", settled).await;
    come_to_rest(&server, &[&replica]).await;
    let requests = server.audit().all().by_user_agent(CONTROLLER);
    let own = |request: &Request| request.resource.starts_with("ipallocations");
    // Who insists on addresses that another has is refused first and granted later.
    let undemanding = writer.undemanding();
    assert!(undemanding.len() >= STAY, "{}", undemanding.len());
    let refused = recorder.read(|record| record.refused.clone());
    assert_eq!(refused.intersection(&undemanding).next(), None);
    for name in &undemanding {
        // What the API server refuses, because somebody changed the object meanwhile, is no write.
        let of_this = requests.iter().filter(|request| request.name == *name);
        let asked: Vec<&Request> = of_this.filter(|request| own(request)).collect();
        let done = asked.iter().filter(|request| request.is_done()).count();
        assert!(done <= WRITES, "{name} took {done} writes\n{asked:#?}");
    }
    stays_at_rest(&server).await;
    recorder.replay(Numbers::Exact);
}

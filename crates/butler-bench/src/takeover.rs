//! How long nobody leads when a replica is asked to stop and another stands by.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context;
use butler_api::keys::names;
use butler_controller::run::COMPONENT;
use butler_testkit::{ApiServer, audit::Mark};
use futures::StreamExt;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    fleet::USER_AGENT,
    laboratory::{self, Laboratory},
    progress,
    replica::{PATIENCE, Replica, Role, holder},
    report::{Row, median},
};

const TAKEOVERS: usize = 5;
const ROUND_TRIPS: usize = 50;
/// The object that is written.
const ROUND_TRIP: &str = "round-trip";
/// Between two looks whether a standby watches; it is not what is measured.
const PAUSE: Duration = Duration::from_millis(50);
/// A standby has usually stood by for long: the beginning of its watch is not what is measured.
const CALM: Duration = Duration::from_secs(1);

/// Measures takeovers, and an API write beside them.
pub(crate) async fn measure(laboratory: &mut Laboratory) -> anyhow::Result<Vec<Row>> {
    let butler = laboratory::butler()?;
    let server = laboratory.server().await?;
    let leases = Api::<Lease>::default_namespaced(server.client_as(USER_AGENT));
    let mut leader = Replica::start(&butler, server, Role::Controller, "replica-0")?;
    leader.leads(&leases).await?;
    let mut takeovers = Vec::new();
    for number in 1..=TAKEOVERS {
        progress(&format!("takeover {number} of {TAKEOVERS}"));
        let standby = standby(&butler, server, number).await?;
        takeovers.push(takeover(&leases, &leader, &standby).await?);
        std::mem::replace(&mut leader, standby).ended().await?;
    }
    leader.ask_to_stop().await?;
    leader.ended().await?;
    let takeover = median(takeovers);
    let round_trip = round_trip(server).await?;
    Ok(vec![
        Row::milliseconds(
            format!("lease given back → the standby leads: median of {TAKEOVERS}"),
            takeover,
        ),
        Row::milliseconds(
            format!("one API write, there and back: median of {ROUND_TRIPS}"),
            round_trip,
        ),
        Row::ratio("takeover : API write", takeover, round_trip),
    ])
}

/// A replica that watches the lease of another.
async fn standby(butler: &Path, server: &ApiServer, number: usize) -> anyhow::Result<Replica> {
    let mark = server.audit().mark();
    let standby = Replica::start(
        butler,
        server,
        Role::Controller,
        &format!("replica-{number}"),
    )?;
    let watching = async {
        while !somebody_watches_leases(server, mark) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    timeout(PATIENCE, watching)
        .await
        .context("the standby does not watch the lease")?;
    Ok(standby)
}

fn somebody_watches_leases(server: &ApiServer, mark: Mark) -> bool {
    let requests = server.audit().since(mark).by_user_agent(COMPONENT);
    requests
        .for_resource("leases")
        .with_verbs(&["watch"])
        .count()
        > 0
}

/// From the moment the leader's release is seen to the moment the standby's name is seen, by one and the same watch.
async fn takeover(
    leases: &Api<Lease>,
    leader: &Replica,
    standby: &Replica,
) -> anyhow::Result<Duration> {
    let mut states = std::pin::pin!(watcher::watch_object(
        leases.clone(),
        names::CONTROLLER_LEASE
    ));
    let watching = async {
        let (mut asked, mut released) = (false, None);
        while let Some(state) = states.next().await {
            let Some(lease) = state.context("the watch of the lease failed")? else {
                continue;
            };
            if !asked && leader.holds(&lease) {
                tokio::time::sleep(CALM).await;
                leader.ask_to_stop().await?;
                asked = true;
            } else if asked && holder(&lease).is_none() {
                released = Some(Instant::now());
            } else if standby.holds(&lease) {
                let released: Instant =
                    released.context("the standby took a lease that was not given back")?;
                return Ok(released.elapsed());
            }
        }
        anyhow::bail!("the watch of the lease ended")
    };
    timeout(PATIENCE, watching)
        .await
        .context("the standby does not take over")?
}

/// The same kind of request a takeover consists of: a write that etcd must store.
async fn round_trip(server: &ApiServer) -> anyhow::Result<Duration> {
    let settings = Api::<ConfigMap>::default_namespaced(server.client_as(USER_AGENT));
    let parameters = PatchParams::apply(USER_AGENT);
    let mut round_trips = Vec::new();
    for number in 0..ROUND_TRIPS {
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": ROUND_TRIP },
            "data": { "number": number.to_string() },
        });
        let started = Instant::now();
        settings
            .patch(ROUND_TRIP, &parameters, &Patch::Apply(body))
            .await
            .context("could not write a ConfigMap")?;
        round_trips.push(started.elapsed());
    }
    Ok(median(round_trips))
}

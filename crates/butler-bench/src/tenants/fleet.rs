//! Many tenant clusters: how quickly they come to rest, what they cost on the way, and what they cost when they are there.
//!
//! The API server and `butler controller` are real, and so is all that this process has: tenant clusters, addresses,
//! infrastructure and machines of Cluster API. Cluster API, Steward and the provider are played by [`super::played`].

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use butler_api::{butler::tenant_cluster::TenantCluster, conditions::types};
use butler_controller::run::COMPONENT;
use butler_runtime::conditions::holds;
use butler_testkit::{ApiServer, Options, audit::Requests};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    discovery,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{bars, played, scene};
use crate::{
    fleet::USER_AGENT,
    laboratory, progress,
    replica::{Replica, Role},
    report::{Row, Unit, number},
    upkeep::{Rest, Size, memory_rows},
};

/// How long the largest step may take.
const PATIENCE: Duration = Duration::from_mins(15);
/// Requests under way at the same time when objects are created.
const TOGETHER: usize = 8;
/// What is at rest is looked at after its last echoes.
const CALM: Duration = Duration::from_secs(5);
/// What rows begin with: nothing but the controller is real.
const WHAT: &str = "played";
/// Says nothing to anybody.
const ANNOTATION: &str = "bench.butlerlabs.dev/looked-at";

/// Measures the controller alone.
pub(super) async fn measure(window: Duration) -> anyhow::Result<Vec<Row>> {
    let butler = laboratory::butler()?;
    progress("starting an API server with the definitions of Butler and of Cluster API");
    let mut options = Options::default();
    options.custom_resources.extend(scene::definitions().await?);
    let server = ApiServer::start(options)
        .await
        .context("could not start an API server (`cargo xtask assets` provides its binaries)")?;
    let client = server.client_as(USER_AGENT);
    for object in scene::platform() {
        create(&client, object).await?;
    }
    let controller = Replica::start(&butler, &server, Role::Controller, "tenants")?;
    controller
        .leads(&Api::<Lease>::default_namespaced(client.clone()))
        .await?;
    let fleet = Fleet {
        server: &server,
        controller: &controller,
        clusters: Api::namespaced(client.clone(), scene::NAMESPACE),
    };
    let rows = tokio::select! {
        rows = Box::pin(fleet.grow(window)) => rows?,
        failed = Box::pin(played::play(client)) => return Err(failed),
    };
    controller.ask_to_stop().await?;
    controller.ended().await?;
    Ok(rows)
}

/// Creates an object of any kind.
async fn create(client: &Client, object: Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let kind = object.types.clone().context("an object has no kind")?;
    let name = object.name_any();
    let (resource, capabilities) = discovery::pinned_kind(client, &(&kind).try_into()?).await?;
    let api: Api<DynamicObject> = match (capabilities.scope, object.namespace()) {
        (discovery::Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
        _ => Api::all_with(client.clone(), &resource),
    };
    let created = api.create(&PostParams::default(), &object).await;
    created
        .map(drop)
        .with_context(|| format!("could not create {} {name}", kind.kind))
}

/// What it took to bring some clusters to rest.
struct Growth {
    created: usize,
    took: Duration,
    requests: Requests,
}

struct Fleet<'servers> {
    server: &'servers ApiServer,
    controller: &'servers Replica,
    clusters: Api<TenantCluster>,
}

impl Fleet<'_> {
    async fn grow(&self, window: Duration) -> anyhow::Result<Vec<Row>> {
        sleep(CALM).await;
        let process = self.controller.process()?;
        let mut sizes = vec![Size {
            count: 0,
            memory: process.memory()?,
        }];
        let mut rows = Vec::new();
        for count in bars::FLEETS {
            let before = sizes.last().map_or(0, |size| size.count);
            let growth = self.grow_to(before, count).await?;
            sizes.push(Size {
                count,
                memory: process.memory()?,
            });
            rows = growth_rows(&growth);
        }
        let count = sizes.last().map_or(0, |size| size.count);
        rows.push(self.unchanged(count).await?);
        rows.extend(self.rest(count, window).await?);
        // What has just worked has more than it needs: the last size is that after the rest.
        if let Some(last) = sizes.last_mut() {
            last.memory = process.memory()?;
        }
        rows.extend(memory_rows(WHAT, &sizes, bars::memory));
        Ok(rows)
    }

    async fn grow_to(&self, before: usize, count: usize) -> anyhow::Result<Growth> {
        progress(&format!("tenant clusters: from {before} to {count}"));
        let (mark, began) = (self.server.audit().mark(), Instant::now());
        let (created, settled) =
            tokio::join!(self.create(before, count), Box::pin(self.settled(count)));
        created?;
        let took = settled?.duration_since(began);
        sleep(CALM).await;
        let requests = self.server.audit().since(mark).by_user_agent(COMPONENT);
        let requests = requests.except_resource("leases");
        let requests = requests.filter(|request| request.verb != "watch");
        progress(&format!(
            "requests for {} more clusters:\n{requests}",
            count - before
        ));
        Ok(Growth {
            created: count - before,
            took,
            requests,
        })
    }

    async fn create(&self, from: usize, to: usize) -> anyhow::Result<()> {
        let numbers = stream::iter((from..to).map(anyhow::Ok));
        let created = numbers.try_for_each_concurrent(TOGETHER, |number| async move {
            let cluster = scene::cluster(&name(number))?;
            self.clusters
                .create(&PostParams::default(), &cluster)
                .await?;
            Ok(())
        });
        created.await.context("could not create a tenant cluster")
    }

    /// Waits until all are Ready, and tells when that was seen.
    async fn settled(&self, count: usize) -> anyhow::Result<Instant> {
        let events = watcher(self.clusters.clone(), watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let (mut ready, mut words) = (BTreeSet::new(), String::new());
        let watching = async {
            while ready.len() < count {
                let Some(Ok(Event::Apply(cluster) | Event::InitApply(cluster))) =
                    events.next().await
                else {
                    continue;
                };
                if is_settled(&cluster) {
                    ready.insert(cluster.name_any());
                } else {
                    words = said(&cluster);
                }
            }
            Instant::now()
        };
        let seen = timeout(PATIENCE, watching).await;
        seen.with_context(|| {
            let log = self.controller.log_end();
            format!(
                "only {} of {count} tenant clusters became Ready within {PATIENCE:?}; one said: {words}; the log of the \
                 controller:\n{log}",
                ready.len()
            )
        })
    }

    /// Has the controller look at every cluster again, of which nothing has changed that it knows of.
    async fn unchanged(&self, count: usize) -> anyhow::Result<Row> {
        progress("touching every tenant cluster");
        let process = self.controller.process()?;
        let (mark, before) = (self.server.audit().mark(), process.cpu_time()?);
        let body = &json!({ "metadata": { "annotations": { ANNOTATION: "once" } } });
        let numbers = stream::iter((0..count).map(anyhow::Ok));
        let touched = numbers.try_for_each_concurrent(TOGETHER, |number| async move {
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(body));
            self.clusters
                .patch(&name(number), &parameters, &patch)
                .await?;
            Ok(())
        });
        touched.await.context("could not touch a tenant cluster")?;
        sleep(CALM).await;
        ensure!(
            process.cpu_time()? > before,
            "the controller did nothing when every cluster was touched: was it alive?"
        );
        let requests = self.server.audit().since(mark).by_user_agent(COMPONENT);
        let requests = requests.except_resource("leases");
        let requests = requests.filter(|request| request.verb != "watch");
        if !requests.is_empty() {
            progress(&format!("requests of unchanged passes:\n{requests}"));
        }
        let what = format!("{WHAT}: API requests of passes over {count} unchanged clusters");
        Ok(Row::count(what, requests.count()).held_to(bars::REQUESTS_UNCHANGED))
    }

    /// What is done while nothing happens.
    async fn rest(&self, count: usize, window: Duration) -> anyhow::Result<Vec<Row>> {
        let seconds = window.as_secs();
        progress(&format!(
            "watching {count} tenant clusters at rest for {seconds} s"
        ));
        let rest = Rest::of(self.server, self.controller, COMPONENT, window).await?;
        Ok(vec![
            Row::count(
                format!("{WHAT}: writes in {seconds} s at rest, leases excepted"),
                rest.writes,
            )
            .held_to(bars::WRITES_AT_REST),
            Row::count(
                format!("{WHAT}: reads in {seconds} s at rest, leases and watches excepted"),
                rest.reads,
            )
            .held_to(bars::READS_AT_REST),
            Row::new(
                format!("{WHAT}: CPU in {seconds} s at rest, {count} clusters"),
                rest.cpu,
                Unit::PercentOfCore,
            )
            .held_to(bars::cpu(count)),
        ])
    }
}

fn name(number: usize) -> String {
    format!("tenant-{number:03}")
}

/// Whether the status speaks of the present spec and says that the cluster is ready.
fn is_settled(cluster: &TenantCluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| {
        status.observed_generation == cluster.metadata.generation
            && holds(&status.conditions, types::READY)
    })
}

/// What a cluster waits for.
fn said(cluster: &TenantCluster) -> String {
    let status = cluster.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let ready = conditions.find(|condition| condition.type_ == types::READY);
    let words = ready.map_or("nothing yet", |ready| ready.message.as_str());
    format!("{}: {words}", cluster.name_any())
}

fn growth_rows(growth: &Growth) -> Vec<Row> {
    let created = growth.created;
    let all = growth.requests.count();
    let writes = growth.requests.clone().writes().count();
    let each = |what: &str, count: usize| {
        Row::new(
            format!("{WHAT}: API {what} for each of {created}"),
            number(count) / number(created),
            Unit::Count,
        )
    };
    vec![
        Row::seconds(
            format!("{WHAT}: {created} more clusters, first create → all Ready"),
            growth.took,
        ),
        each("writes", writes),
        each("reads", all - writes),
    ]
}

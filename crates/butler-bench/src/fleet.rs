//! Many providers: how quickly they come to rest, and what they cost when they are.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::Context;
use butler_api::butler::provider_config::ProviderConfig;
use butler_controller::run::COMPONENT;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    laboratory::{self, Laboratory},
    progress,
    replica::{PATIENCE, Replica, Role},
    report::{Bar, Row, Unit, number},
    upkeep::Rest,
};

/// What this program is to the API server.
pub(crate) const USER_AGENT: &str = "butler-bench";

const FLEET: usize = 500;
/// Requests under way at the same time when objects are created.
const AT_ONCE: usize = 8;
/// What is at rest is looked at after its last echoes.
const CALM: Duration = Duration::from_secs(3);

const MEMORY_WITHOUT_OBJECTS: f64 = 30.0;
const MEMORY_PER_OBJECT: f64 = 0.25;
const CPU_PERCENT_PER_OBJECT: f64 = 0.01;

/// Measures a fleet of providers of the machine they stand on.
pub(crate) async fn measure(laboratory: &mut Laboratory) -> anyhow::Result<Vec<Row>> {
    let (butler, window) = (laboratory::butler()?, laboratory.window());
    let server = laboratory.server().await?;
    let providers = Api::<ProviderConfig>::default_namespaced(server.client_as(USER_AGENT));

    progress(&format!("creating {FLEET} objects that nobody looks at"));
    let creation = creation_alone(&providers).await?;

    let replica = Replica::start(&butler, server, Role::Controller, "fleet")?;
    replica
        .leads(&Api::<Lease>::default_namespaced(
            server.client_as(USER_AGENT),
        ))
        .await?;
    sleep(CALM).await;
    let process = replica.process()?;
    let memory_before = process.memory()?;

    progress(&format!(
        "creating {FLEET} objects and waiting until all are settled"
    ));
    let started = Instant::now();
    let (created, settled) = tokio::join!(create(&providers), settled(&providers));
    let settling = settled?.duration_since(started);
    created?;

    progress(&format!(
        "watching the fleet at rest for {} s",
        window.as_secs()
    ));
    sleep(CALM).await;
    let rest = Rest::of(server, &replica, COMPONENT, window).await?;
    let memory = process.memory()?;
    replica.ask_to_stop().await?;
    replica.ended().await?;

    let per_object = (memory - memory_before) / number(FLEET);
    let most_memory = MEMORY_WITHOUT_OBJECTS + MEMORY_PER_OBJECT * number(FLEET);
    let seconds = window.as_secs();
    Ok(vec![
        Row::new(
            format!("{FLEET} objects, first create → all settled"),
            settling.as_secs_f64(),
            Unit::Seconds,
        ),
        Row::new(
            format!("creating {FLEET} objects, without a controller"),
            creation.as_secs_f64(),
            Unit::Seconds,
        ),
        Row::ratio("settling : merely creating", settling, creation),
        Row::count(
            format!("writes in {seconds} s at rest, leases excepted"),
            rest.writes,
        )
        .held_to(Bar::AtMost(0.0)),
        Row::count(
            format!("reads in {seconds} s at rest, leases and watches excepted"),
            rest.reads,
        )
        .held_to(Bar::AtMost(0.0)),
        Row::new(
            format!("CPU in {seconds} s at rest, {FLEET} objects"),
            rest.cpu,
            Unit::PercentOfCore,
        )
        .held_to(Bar::Below(CPU_PERCENT_PER_OBJECT * number(FLEET))),
        Row::new(
            "memory (RSS) without objects",
            memory_before,
            Unit::Mebibytes,
        )
        .held_to(Bar::AtMost(MEMORY_WITHOUT_OBJECTS)),
        Row::new(
            format!("memory (RSS) with {FLEET} objects at rest"),
            memory,
            Unit::Mebibytes,
        )
        .held_to(Bar::AtMost(most_memory)),
        Row::new("memory (RSS) for each object", per_object, Unit::Mebibytes)
            .held_to(Bar::AtMost(MEMORY_PER_OBJECT)),
    ])
}

/// A provider without credentials, so that one API server is all that is needed.
pub(crate) fn provider(number: usize) -> Value {
    json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "ProviderConfig",
        "metadata": { "namespace": "default", "name": format!("provider-{number:04}") },
        "spec": { "provider": "local", "limits": { "maxClustersPerTeam": 3 } },
    })
}

async fn create(providers: &Api<ProviderConfig>) -> anyhow::Result<()> {
    let objects = stream::iter((0..FLEET).map(anyhow::Ok));
    let created = objects.try_for_each_concurrent(AT_ONCE, |number| async move {
        let provider: ProviderConfig = serde_json::from_value(provider(number))?;
        providers.create(&PostParams::default(), &provider).await?;
        Ok(())
    });
    created.await.context("could not create a provider")
}

/// How long it takes to create the objects when no controller reacts; they are gone again afterwards.
async fn creation_alone(providers: &Api<ProviderConfig>) -> anyhow::Result<Duration> {
    // The first objects of a kind find a cold server.
    create_and_delete(providers).await?;
    create_and_delete(providers).await
}

async fn create_and_delete(providers: &Api<ProviderConfig>) -> anyhow::Result<Duration> {
    let started = Instant::now();
    create(providers).await?;
    let took = started.elapsed();
    let deleted = providers
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await;
    deleted.context("could not delete the providers")?;
    Ok(took)
}

/// Waits until all are settled, and tells when that was seen.
async fn settled(providers: &Api<ProviderConfig>) -> anyhow::Result<Instant> {
    let events = watcher(providers.clone(), watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut names = BTreeSet::new();
    let watching = async {
        while names.len() < FLEET {
            if let Some(Ok(Event::Apply(provider) | Event::InitApply(provider))) =
                events.next().await
                && is_settled(&provider)
            {
                names.insert(provider.name_any());
            }
        }
        Instant::now()
    };
    let seen = timeout(PATIENCE, watching).await;
    seen.with_context(|| {
        format!(
            "only {} of {FLEET} providers settled within {PATIENCE:?}",
            names.len()
        )
    })
}

/// Whether the status speaks of the present spec and says that the provider is ready.
fn is_settled(provider: &ProviderConfig) -> bool {
    let ready = provider
        .status
        .as_ref()
        .filter(|status| status.ready == Some(true));
    ready.is_some_and(|status| status.observed_generation == provider.metadata.generation)
}

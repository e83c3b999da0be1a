//! The store that control planes of tenants keep their state in, as Steward knows it.

use std::slice;

use butler_api::{conditions::types, steward::data_store::DataStore};
use butler_runtime::conditions::holds;
use kube::{Api, Client, runtime::wait::await_condition};

use super::{
    Run, charts,
    cluster::webhooks_answer,
    prepare::{Images, Parts},
};
use crate::{
    adm::apply::{apply, missing, within},
    output::progress::Outcome,
};

/// Tells Steward of the store, and waits until it can use it.
pub(super) async fn data_store(
    run: &Run,
    client: &Client,
    parts: &Parts,
    images: &Images,
) -> anyhow::Result<Outcome> {
    let store = charts::data_store(run, parts, images).await?;
    let name = store["metadata"]["name"].as_str().unwrap_or_default();
    let step = run.progress.begin(format!("Data store {name}"));
    // What is there may have been changed by whoever runs the platform.
    let outcome = if missing(client, slice::from_ref(&store)).await?.is_empty() {
        Outcome::Unchanged
    } else {
        webhooks_answer(run, client, slice::from_ref(&store), &step).await?;
        apply(client, slice::from_ref(&store)).await?;
        Outcome::Done
    };
    let stores = Api::<DataStore>::all(client.clone());
    let ready = await_condition(stores, name, |store: Option<&DataStore>| {
        store.is_some_and(store_is_ready)
    });
    let advice = format!("kubectl describe datastore {name} tells why");
    within(
        run.patience(),
        &format!("data store {name}"),
        &advice,
        ready,
    )
    .await?;
    step.end(outcome);
    Ok(outcome)
}

/// Whether Steward could use a store when it asked last.
pub(crate) fn store_is_ready(store: &DataStore) -> bool {
    let status = store.status.as_ref();
    status.is_some_and(|status| holds(&status.conditions, types::READY))
}

//! Hosted control planes beside the same by hand and beside a bare kube-apiserver; and how much Steward needs for many.
//!
//! Owns: the order of the parts. [`objects`] needs nothing but this machine's loopback; [`hosted`] needs a management cluster
//! and so root. What they are held to is in [`bars`] alone. Everything that is made here is removed again, however the run
//! ends.

mod bare;
mod bars;
mod hosted;
mod manifests;
mod objects;
mod played;
pub(crate) mod readiness;
mod store;

use std::time::Duration;

use butler_runtime::client;

use crate::{
    laboratory::{self, Laboratory},
    local,
    report::Outcome,
};

/// What everybody can reach when control planes are objects only.
const LOOPBACK: &str = "127.0.0.1";

/// Measures Steward: all of it where `butleradm doctor` says that the host can run machines, else what needs none.
pub(crate) async fn measure(laboratory: &Laboratory) -> anyhow::Result<Outcome> {
    client::install_crypto();
    let measuring = measured(laboratory.window(), laboratory.rounds());
    local::unless_interrupted(Box::pin(measuring)).await
}

async fn measured(window: Duration, rounds: u32) -> anyhow::Result<Outcome> {
    let alone = Box::pin(objects::measure(window)).await?;
    let butleradm = laboratory::butleradm()?;
    let place = match local::clean_place(&butleradm).await? {
        Ok(place) => place,
        Err(reason) => return Ok(Outcome::Partly(alone, reason)),
    };
    let mut rows = Box::pin(hosted::measure(&place, &butleradm, window, rounds)).await?;
    rows.extend(alone);
    Ok(Outcome::Measured(rows))
}

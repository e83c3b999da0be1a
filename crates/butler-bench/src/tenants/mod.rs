//! Tenant clusters: made on this host beside the same by hand, and many of which all but Butler's controller is played.
//!
//! Owns: the order of the parts. [`made`] needs a management cluster and so root; [`fleet`] needs nothing but this machine's
//! loopback. What they are held to is in [`bars`] alone. Everything that is made here is removed again, however the run ends.

mod bars;
mod fleet;
mod made;
mod played;
mod scene;

use std::time::Duration;

use butler_runtime::client;

use crate::{
    laboratory::{self, Laboratory},
    local,
    report::{Outcome, Row},
};

/// Measures tenant clusters on this host, unless `butleradm doctor` says that the host cannot run machines.
pub(crate) async fn measure(laboratory: &Laboratory) -> anyhow::Result<Outcome> {
    client::install_crypto();
    let measuring = measured(laboratory.window(), laboratory.rounds());
    local::unless_interrupted(Box::pin(measuring)).await
}

async fn measured(window: Duration, rounds: u32) -> anyhow::Result<Outcome> {
    let butleradm = laboratory::butleradm()?;
    let place = match local::clean_place(&butleradm).await? {
        Ok(place) => place,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let rows = Box::pin(made::measure(&place, &butleradm, window, rounds)).await?;
    Ok(Outcome::Measured(rows))
}

/// Measures what Butler's controller needs for many.
pub(crate) async fn measure_fleet(window: Duration) -> anyhow::Result<Vec<Row>> {
    client::install_crypto();
    Box::pin(fleet::measure(window)).await
}

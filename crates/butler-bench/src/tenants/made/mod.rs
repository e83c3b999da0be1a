//! Tenant clusters in a management cluster that `butleradm up` has made, beside the same by hand on the same host.
//!
//! Owns: the order of the measurements. Butler goes first each time: whatever the second finds warmer is to its advantage. What is
//! made by hand is made while the management cluster stands by, as it does for the other side.

mod life;
mod rest;

use std::{path::Path, time::Duration};

use crate::{
    local::{
        by_hand::{ByHand, Images, TenantTimes},
        installation::{Installation, Memory},
        place::Place,
        shell,
        supplies::Supplies,
    },
    progress,
    report::{Row, median},
};
use life::{Life, Management};
use rest::Rest;

use super::bars::{TIMES_BY_HAND, WORKERS};

/// What one round has measured.
struct Round {
    life: Life,
    by_hand: TenantTimes,
}

/// Measures tenant clusters on a management cluster of our own.
pub(super) async fn measure(
    place: &Place,
    butleradm: &Path,
    window: Duration,
    rounds: u32,
) -> anyhow::Result<Vec<Row>> {
    let supplies = Supplies::gather().await?;
    let installation = Installation::new(place, butleradm, &supplies.cache, Memory::Usual);
    progress("making a management cluster with butleradm up");
    installation.up(&[]).await?;
    let management = Management::of(installation.client().await?);
    progress("unpacking images for machines by hand");
    let images = Images::unpack(place, &supplies).await?;
    let (mut made, mut rest) = (Vec::new(), None);
    for number in 0..rounds {
        progress("a tenant cluster by Butler");
        shell::settle().await?;
        // Of the first one; the others are for the times.
        let watched_for = rest.is_none().then_some(window);
        let name = format!("bench-{number}");
        let (life, rested) = Box::pin(management.live(&name, watched_for)).await?;
        progress(&life.to_string());
        rest = rest.or(rested);
        let by_hand = Box::pin(by_hand(place, &supplies, &images)).await?;
        made.push(Round { life, by_hand });
    }
    installation.remove().await?;
    let mut rows = rows(&made);
    rows.extend(rest.iter().flat_map(Rest::rows));
    Ok(rows)
}

async fn by_hand(
    place: &Place,
    supplies: &Supplies,
    images: &Images,
) -> anyhow::Result<TenantTimes> {
    progress("the same by hand");
    let by_hand = ByHand::new(place, supplies)?;
    shell::settle().await?;
    let times = Box::pin(by_hand.make_tenant(images)).await?;
    progress(&times.to_string());
    by_hand.remove()?;
    Ok(times)
}

fn rows(rounds: &[Round]) -> Vec<Row> {
    let middle = |of: fn(&Round) -> Duration| median(rounds.iter().map(of).collect());
    let workers = middle(|round| round.life.workers);
    let by_hand = middle(|round| round.by_hand.whole());
    vec![
        Row::seconds(
            format!("tenant cluster: created → {WORKERS} workers Ready"),
            workers,
        ),
        Row::seconds(
            format!("by hand with kubeadm: nothing → {WORKERS} workers Ready"),
            by_hand,
        ),
        Row::ratio("tenant cluster : by hand", workers, by_hand).held_to(TIMES_BY_HAND),
        Row::seconds(
            "tenant cluster: created → /readyz",
            middle(|round| round.life.serves),
        ),
        Row::seconds(
            "tenant cluster: created → machines asked for",
            middle(|round| round.life.machines),
        ),
        Row::seconds(
            "tenant cluster: created → status Ready",
            middle(|round| round.life.told),
        ),
        Row::seconds(
            "tenant cluster: deleted → nothing left",
            middle(|round| round.life.gone),
        ),
    ]
}

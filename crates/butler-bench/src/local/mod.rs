//! Butler on this host beside doing the same by hand: a management cluster, a worker, machines.
//!
//! Owns: the order of the parts, and what their numbers are called. Everything that is made here is removed again, however
//! the run ends; what a run has left that was killed, the next one removes first.

mod boot;
pub(crate) mod by_hand;
mod containerd;
mod disk;
pub(crate) mod installation;
pub(crate) mod place;
pub(crate) mod shell;
pub(crate) mod supplies;

use std::{path::Path, time::Duration};

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    laboratory, progress,
    report::{Bar, Outcome, Row, Unit, median},
};
use boot::{BootTimes, Machines};
use by_hand::{ByHand, ClusterTimes, WorkerTimes};
use installation::{Installation, Memory, WorkerDurations};
use place::Place;
use supplies::Supplies;

/// What making the cluster may cost beside making a smaller one by hand.
const UP_TIMES_BY_HAND: f64 = 1.25;

/// Measures Butler on this host, unless `butleradm doctor` says that the host cannot run machines.
pub(crate) async fn measure(rounds: u32) -> anyhow::Result<Outcome> {
    unless_interrupted(Box::pin(measured(rounds))).await
}

/// Measures until a signal comes. What is dropped by a signal removes what it has made.
pub(crate) async fn unless_interrupted(
    measuring: impl Future<Output = anyhow::Result<Outcome>>,
) -> anyhow::Result<Outcome> {
    let mut terminate = signal(SignalKind::terminate()).context("could not listen to signals")?;
    tokio::select! {
        outcome = measuring => outcome,
        _ = tokio::signal::ctrl_c() => bail!("it was interrupted; everything was removed"),
        _ = terminate.recv() => bail!("it was asked to end; everything was removed"),
    }
}

/// A place with nothing of an earlier run in it, or why this host cannot run machines.
pub(crate) async fn clean_place(butleradm: &Path) -> anyhow::Result<Result<Place, String>> {
    if Place::was_left() {
        progress("removing what an earlier run has left");
        remove_leftovers(&Place::take()?, butleradm).await?;
    }
    match installation::unfit(butleradm).await? {
        Some(reason) => Ok(Err(reason)),
        None => Place::take().map(Ok),
    }
}

async fn measured(rounds: u32) -> anyhow::Result<Outcome> {
    let (butler, butleradm) = (laboratory::butler()?, laboratory::butleradm()?);
    let place = match clean_place(&butleradm).await? {
        Ok(place) => place,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let supplies = Supplies::gather().await?;
    // It holds the kernel's settings for what is made by hand as well.
    let machines = Machines::prepare(&place, &supplies, &butler).await?;

    let mut rounds_made = Vec::new();
    for _ in 0..rounds {
        rounds_made.push(Box::pin(round(&place, &supplies, &butleradm)).await?);
    }
    let boots = machines.measure(&supplies).await?;
    machines.remove().await?;
    Ok(Outcome::Measured(rows(&rounds_made, &boots)))
}

/// What one round has measured.
struct Round {
    up: Duration,
    worker: WorkerDurations,
    cluster_by_hand: ClusterTimes,
    worker_by_hand: WorkerTimes,
}

/// Butler goes first: whatever the second finds warmer is to its advantage.
async fn round(place: &Place, supplies: &Supplies, butleradm: &Path) -> anyhow::Result<Round> {
    let installation = Installation::new(place, butleradm, &supplies.cache, Memory::Little);
    progress("making a cluster with butleradm up");
    shell::settle().await?;
    let up = installation.up(&[]).await?;
    progress("adding a worker with butleradm up --workers 1");
    let worker = Box::pin(installation.add_worker()).await?;
    installation.remove().await?;

    let by_hand = ByHand::new(place, supplies)?;
    progress("making a cluster by hand");
    shell::settle().await?;
    let cluster_by_hand = by_hand.make_cluster().await?;
    progress(&cluster_by_hand.to_string());
    progress("adding a worker by hand");
    let worker_by_hand = by_hand.add_worker().await?;
    progress(&worker_by_hand.to_string());
    by_hand.remove()?;
    Ok(Round {
        up,
        worker,
        cluster_by_hand,
        worker_by_hand,
    })
}

async fn remove_leftovers(place: &Place, butleradm: &Path) -> anyhow::Result<()> {
    installation::remove_leftovers(place, butleradm).await?;
    by_hand::remove_leftovers(place)?;
    boot::remove_leftovers(place).await
}

fn rows(rounds: &[Round], boots: &BootTimes) -> Vec<Row> {
    let middle = |of: &dyn Fn(&Round) -> Duration| median(rounds.iter().map(of).collect());
    let up = middle(&|round| round.up);
    let by_hand = middle(&|round| round.cluster_by_hand.whole());
    let worker = middle(&|round| round.worker.request_to_ready);
    let worker_by_hand = middle(&|round| round.worker_by_hand.whole());
    let machine_by_hand = middle(&|round| round.worker_by_hand.with_images());
    let boot = median(boots.one_by_one.clone());
    let count = boots.one_by_one.len();
    let disk_by_hand = rounds.first().map_or(0, |round| round.worker_by_hand.disk);
    vec![
        Row::seconds("butleradm up, programs and images at hand", up),
        Row::seconds("the same by hand, without Butler in it", by_hand),
        Row::ratio("up : by hand", up, by_hand).held_to(Bar::AtMost(UP_TIMES_BY_HAND)),
        Row::seconds("worker: MachineRequest → node Ready", worker),
        Row::seconds("worker by hand: nothing → node Ready", worker_by_hand),
        Row::ratio("worker : by hand", worker, worker_by_hand),
        Row::seconds(
            "butleradm up --workers 1, cluster at hand",
            middle(&|round| round.worker.command),
        ),
        Row::seconds(
            format!("machine with images: create → containerd answers, median of {count}"),
            boot,
        ),
        Row::seconds(
            "machine by hand: nothing → containerd answers",
            middle(&|round| round.worker_by_hand.boot),
        ),
        Row::seconds("machine by hand: nothing → images in it", machine_by_hand),
        Row::ratio("machine : by hand with images", boot, machine_by_hand),
        Row::seconds(
            format!("{count} machines at once: create → containerd of all answers"),
            boots.at_once,
        ),
        megabytes("disk of a machine with images", boots.disk_of_one),
        megabytes(
            &format!("disk of a machine, one of {count}"),
            boots.disk_of_each,
        ),
        megabytes("disk of a machine by hand with images", disk_by_hand),
    ]
}

fn megabytes(what: &str, bytes: u64) -> Row {
    let kibibytes = f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX));
    Row::new(what, kibibytes * 1024.0 / 1e6, Unit::Megabytes)
}

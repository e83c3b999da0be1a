//! Control planes in a management cluster that `butleradm up` has made, beside the same pods by hand and beside bare API
//! servers on the same host.
//!
//! Owns: the order of the measurements. Steward goes first each time: whatever the second finds warmer is to its advantage.

mod by_hand;
mod management;
mod rows;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use ::steward::run::COMPONENT;
use anyhow::Context;
use butler_assets::Settings;
use tokio::time::sleep;

use super::{bare::BareServers, bars, store::Store};
use crate::{
    local::{
        installation::{Installation, Memory},
        place::Place,
        shell,
    },
    process::Process,
    progress,
    report::Row,
    watched::Watched,
};
use management::{Management, Removal};

/// One control plane is made at least as often: a single start says little.
const LEAST_TURNS: u32 = 3;
/// What is at rest is looked at after its last echoes.
const CALM: Duration = Duration::from_secs(5);

/// How one control plane came up, in all three ways.
struct One {
    hosted: Duration,
    /// Seconds from `/readyz` to the status that says so; negative if the status was first.
    status_after: f64,
    by_hand: Duration,
    bare: Duration,
}

/// How several came up at the same time, in all three ways.
struct Several {
    hosted: Duration,
    writes: usize,
    by_hand: Duration,
    bare: Duration,
}

/// The memory of Steward with so many control planes, in MiB.
struct Need {
    count: usize,
    resident: f64,
    working_set: f64,
}

/// What Steward does while nothing happens.
struct Rest {
    window: Duration,
    writes: usize,
    /// Percent of a core.
    cpu: f64,
}

/// All that was measured.
struct Measured {
    ones: Vec<One>,
    several: Vec<Several>,
    needs: Vec<Need>,
    rest: Rest,
    removal: Removal,
}

/// Measures control planes on a management cluster of our own.
pub(super) async fn measure(
    place: &Place,
    butleradm: &Path,
    window: Duration,
    rounds: u32,
) -> anyhow::Result<Vec<Row>> {
    let cache = Settings::from_env()?.cache;
    let installation = Installation::new(place, butleradm, &cache, Memory::Usual);
    progress("making a management cluster with butleradm up");
    installation.up(&[]).await?;
    let management = Management::of(installation.client().await?).await?;
    let steward = Watched::of(installation.client().await?, COMPONENT).await?;
    // Bare API servers have a store of their own: what they keep must not slow the others down.
    let store = Store::start().await?;
    let scene = Scene {
        management,
        steward,
        store,
    };
    let measured = Box::pin(scene.measure(window, rounds)).await?;
    drop(scene);
    installation.remove().await?;
    Ok(rows::of(&measured))
}

/// What is measured with.
struct Scene {
    management: Management,
    steward: Watched,
    store: Store,
}

impl Scene {
    async fn measure(&self, window: Duration, rounds: u32) -> anyhow::Result<Measured> {
        let (mut ones, mut several, mut needs) = (Vec::new(), Vec::new(), Vec::new());
        let process = self.steward.process().await?;
        for turn in 0..rounds.max(LEAST_TURNS) {
            let wants_memory = needs.is_empty();
            let (one, need) = self.one(turn, wants_memory.then_some(process)).await?;
            ones.push(one);
            needs.extend(need);
        }
        // Of the first round; the others are for the times.
        let mut last = None;
        for round in 0..rounds {
            let (hosted, writes) = self.several_hosted(round).await?;
            if last.is_none() {
                last = Some(self.ten(round, process, window).await?);
            }
            self.management.clear().await?;
            several.push(self.beside_several(round, hosted, writes).await?);
        }
        let (need, rest, removal) = last.context("there was no round")?;
        needs.push(need);
        Ok(Measured {
            ones,
            several,
            needs,
            rest,
            removal,
        })
    }

    /// One control plane, each way; and how much Steward needs for it, if that is asked.
    async fn one(
        &self,
        turn: u32,
        process: Option<Process>,
    ) -> anyhow::Result<(One, Option<Need>)> {
        progress("one control plane by Steward");
        shell::settle().await?;
        let name = format!("one-{turn}");
        let birth = Box::pin(self.management.born(&name)).await?;
        self.management.configured(&name).await?;
        let need = match process {
            Some(process) => Some(need(process, 1).await?),
            None => None,
        };
        self.management.clear().await?;

        progress("the same pod by hand");
        let prepared =
            vec![Box::pin(by_hand::prepare(&self.management, &format!("hand-{turn}"))).await?];
        shell::settle().await?;
        let by_hand = by_hand::start(&self.management, &prepared).await?;
        self.management.clear().await?;

        progress("a bare kube-apiserver");
        let bare = self.bare(&format!("one-{turn}"), 1).await?;
        let one = One {
            hosted: birth.took,
            status_after: birth.status_after,
            by_hand,
            bare,
        };
        progress(&format!(
            "by Steward {:.2?}, status {:.2} s after, by hand {:.2?}, bare {:.2?}",
            one.hosted, one.status_after, one.by_hand, one.bare
        ));
        Ok((one, need))
    }

    /// Several at once by Steward, and how many writes that took. They stay.
    async fn several_hosted(&self, round: u32) -> anyhow::Result<(Duration, usize)> {
        progress(&format!(
            "{} control planes at once by Steward",
            bars::AT_ONCE
        ));
        shell::settle().await?;
        let names = names("several", round, bars::AT_ONCE);
        let before = self.steward.writes().await?;
        let hosted = self.management.born_together(&names).await?;
        for name in &names {
            self.management.configured(name).await?;
        }
        sleep(CALM).await;
        let writes = self.steward.writes().await?.saturating_sub(before);
        Ok((hosted, writes))
    }

    /// As many at once by hand, and bare. Nothing else is there.
    async fn beside_several(
        &self,
        round: u32,
        hosted: Duration,
        writes: usize,
    ) -> anyhow::Result<Several> {
        progress(&format!("{} such pods at once by hand", bars::AT_ONCE));
        let mut prepared = Vec::new();
        for name in names("hands", round, bars::AT_ONCE) {
            prepared.push(Box::pin(by_hand::prepare(&self.management, &name)).await?);
        }
        shell::settle().await?;
        let by_hand = by_hand::start(&self.management, &prepared).await?;
        self.management.clear().await?;

        progress(&format!("{} bare kube-apiservers at once", bars::AT_ONCE));
        let bare = self
            .bare(&format!("several-{round}"), bars::AT_ONCE)
            .await?;
        progress(&format!(
            "at once: by Steward {hosted:.2?} with {writes} writes, by hand {by_hand:.2?}, bare {bare:.2?}"
        ));
        Ok(Several {
            hosted,
            writes,
            by_hand,
            bare,
        })
    }

    /// As many more as it takes to have ten: their need, their rest, their end.
    async fn ten(
        &self,
        round: u32,
        process: Process,
        window: Duration,
    ) -> anyhow::Result<(Need, Rest, Removal)> {
        let count = bars::DELETED;
        for name in names("more", round, count - bars::AT_ONCE) {
            Box::pin(self.management.born(&name)).await?;
            self.management.configured(&name).await?;
        }
        let need = need(process, count).await?;
        progress(&format!(
            "watching {count} control planes at rest for {} s",
            window.as_secs()
        ));
        let (writes, cpu, began) = (
            self.steward.writes().await?,
            process.cpu_time()?,
            Instant::now(),
        );
        sleep(window).await;
        let cpu = process.cpu_time()?.saturating_sub(cpu).as_secs_f64();
        let rest = Rest {
            window,
            writes: self.steward.writes().await?.saturating_sub(writes),
            cpu: cpu / began.elapsed().as_secs_f64() * 100.0,
        };
        progress(&format!("deleting {count} control planes"));
        shell::settle().await?;
        let removal = self.management.clear().await?;
        Ok((need, rest, removal))
    }

    async fn bare(&self, prefix: &str, count: usize) -> anyhow::Result<Duration> {
        let mut servers = BareServers::prepare(&self.store, prefix, count).await?;
        shell::settle().await?;
        servers.start().await
    }
}

fn names(kind: &str, round: u32, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{kind}-{round}-{number}"))
        .collect()
}

async fn need(process: Process, count: usize) -> anyhow::Result<Need> {
    sleep(CALM).await;
    Ok(Need {
        count,
        resident: process.memory()?,
        working_set: process.working_set()?,
    })
}

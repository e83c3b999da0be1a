//! What several measurements share: the binary under measurement and one API server.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use butler_testkit::{ApiServer, Options};

use crate::{
    progress,
    report::{Row, Unit},
};

/// The binary that was built with this program.
pub(crate) fn butler() -> anyhow::Result<PathBuf> {
    built("butler")
}

/// The operators' command line that was built with this program.
pub(crate) fn butleradm() -> anyhow::Result<PathBuf> {
    built("butleradm")
}

fn built(name: &str) -> anyhow::Result<PathBuf> {
    let myself = std::env::current_exe().context("could not find out where this program is")?;
    let program = myself.with_file_name(name);
    ensure!(
        program.is_file(),
        "{} does not exist: run `make bench`, or first `cargo build --release --bin {name}`",
        program.display()
    );
    Ok(program)
}

/// Where measurements are made.
pub(crate) struct Laboratory {
    window: Duration,
    rounds: u32,
    server: Option<(ApiServer, Duration)>,
}

impl Laboratory {
    /// A laboratory that watches a fleet at rest for so long, and makes clusters so often.
    pub(crate) fn new(window: Duration, rounds: u32) -> Self {
        Self {
            window,
            rounds,
            server: None,
        }
    }

    /// How long a fleet is watched at rest.
    pub(crate) fn window(&self) -> Duration {
        self.window
    }

    /// How often clusters are made on this host.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The API server, started by the first measurement that needs it.
    pub(crate) async fn server(&mut self) -> anyhow::Result<&ApiServer> {
        self.timed_server().await.map(|(server, _)| server)
    }

    /// How long the API server took to start.
    pub(crate) async fn server_start(&mut self) -> anyhow::Result<Row> {
        let (_, took) = self.timed_server().await?;
        Ok(Row::new(
            "API server of tests: nothing → all definitions served",
            took.as_secs_f64(),
            Unit::Seconds,
        ))
    }

    async fn timed_server(&mut self) -> anyhow::Result<&(ApiServer, Duration)> {
        if self.server.is_none() {
            progress("starting an API server");
            let started = Instant::now();
            let server = ApiServer::start(Options::default()).await.context(
                "could not start an API server (`cargo xtask assets` provides its binaries)",
            )?;
            self.server = Some((server, started.elapsed()));
        }
        self.server.as_ref().context("the API server is gone")
    }
}

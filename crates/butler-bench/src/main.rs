//! Measures what Butler holds itself to, side by side in one run, and prints a table of measurements and bars.
//!
//! A bar that is missed is shown, not failed: times depend on the machine, so no exit code hangs on them. The exit code tells
//! only whether everything could be measured. Where time is involved, something comparable is timed in the same run and the
//! ratio is shown beside it.

mod binary;
mod engine;
mod fleet;
mod ipam;
mod laboratory;
mod local;
mod process;
mod replica;
mod report;
mod scrape;
mod steward;
mod takeover;
mod tenants;
mod upkeep;
mod watched;

use std::{process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};
use serde::Serialize;

use laboratory::Laboratory;
use report::{Outcome, Report};

/// Measures what Butler holds itself to.
#[derive(Parser)]
#[command(about)]
struct Arguments {
    /// Measure only this; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<Measurement>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// How long a fleet is watched at rest, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    window: u32,
    /// How often clusters are made on this host, by Butler and by hand in turns; the median counts
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// What can be measured, in the order in which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Measurement {
    /// Size and start of the binary
    Binary,
    /// A pass over an unchanged object
    Engine,
    /// The book of an address pool: granting, giving back, opening
    Ipam,
    /// Start of the API server that tests use
    Server,
    /// From one replica to the next
    Takeover,
    /// Many providers, coming to rest and at rest
    Fleet,
    /// A management cluster and machines on this host, beside the same by hand; needs root
    Local,
    /// Hosted control planes beside the same by hand; most of it needs root
    Steward,
    /// Tenant clusters on machines of this host, beside the same by hand with kubeadm; needs root
    Tenants,
    /// Many tenant clusters, coming to rest and at rest; all that is not Butler's controller is played
    TenantFleet,
}

impl Measurement {
    /// As the command line spells it.
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    async fn measure(self, laboratory: &mut Laboratory) -> anyhow::Result<Outcome> {
        let rows = match self {
            Self::Binary => binary::measure(),
            Self::Engine => engine::measure().await,
            Self::Ipam => ipam::measure(),
            Self::Server => laboratory.server_start().await.map(|row| vec![row]),
            Self::Takeover => takeover::measure(laboratory).await,
            Self::Fleet => fleet::measure(laboratory).await,
            Self::Local => return local::measure(laboratory.rounds()).await,
            Self::Steward => return steward::measure(laboratory).await,
            Self::Tenants => return tenants::measure(laboratory).await,
            Self::TenantFleet => tenants::measure_fleet(laboratory.window()).await,
        };
        rows.map(Outcome::Measured)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments {
        only,
        json,
        window,
        rounds,
    } = Arguments::parse();
    let mut report = Report::of_this_machine();
    if !report.optimised {
        progress("this is an unoptimised build: its numbers mean little; use --release");
    }
    let mut laboratory = Laboratory::new(Duration::from_secs(window.into()), rounds);
    let wanted = |measurement: &&Measurement| only.is_empty() || only.contains(*measurement);
    for measurement in Measurement::value_variants().iter().filter(wanted) {
        let outcome = measurement.measure(&mut laboratory).await;
        report.add(*measurement, outcome);
    }
    say(&if json {
        report.as_json()
    } else {
        report.to_string()
    });
    if report.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[expect(clippy::print_stdout, reason = "the one place that prints the report")]
fn say(text: &str) {
    println!("{text}");
}

/// Tells on standard error what goes on, so that the report can be piped elsewhere.
#[expect(clippy::print_stderr, reason = "the one place that prints progress")]
fn progress(text: &str) {
    eprintln!("bench: {text}");
}

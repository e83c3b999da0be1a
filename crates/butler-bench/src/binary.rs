//! The size of the binary, and how long it takes to say who it is.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};

use crate::{
    laboratory, progress,
    report::{Bar, Row, Unit, median},
};

const RUNS: usize = 50;
/// A program that does nothing: what starting any program costs here.
const NOTHING: &str = "/bin/true";
const LARGEST_MEGABYTES: f64 = 25.0;
const SLOWEST_MILLISECONDS: f64 = 10.0;

/// Measures the release binary.
pub(crate) fn measure() -> anyhow::Result<Vec<Row>> {
    let butler = laboratory::butler()?;
    let bytes = butler
        .metadata()
        .with_context(|| format!("could not look at {}", butler.display()))?
        .len();
    let megabytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / 1e6;
    progress(&format!(
        "starting butler {RUNS} times, and {NOTHING} as often"
    ));

    // In turns, so that a busy moment of the machine hits all of them.
    let (mut version, mut help, mut nothing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        nothing.push(start(Path::new(NOTHING), &[])?);
        version.push(start(&butler, &["--version"])?);
        help.push(start(&butler, &["--help"])?);
    }
    let (version, help, nothing) = (median(version), median(help), median(nothing));
    let start_bar = Bar::AtMost(SLOWEST_MILLISECONDS);
    Ok(vec![
        Row::new("butler: size", megabytes, Unit::Megabytes)
            .held_to(Bar::AtMost(LARGEST_MEGABYTES)),
        Row::milliseconds(
            format!("butler --version: median of {RUNS} starts"),
            version,
        )
        .held_to(start_bar),
        Row::milliseconds(format!("butler --help: median of {RUNS} starts"), help)
            .held_to(start_bar),
        Row::milliseconds(format!("{NOTHING}: median of {RUNS} starts"), nothing),
        Row::ratio(format!("butler --version : {NOTHING}"), version, nothing),
    ])
}

/// How long a program takes from start to end.
fn start(program: &Path, arguments: &[&str]) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("could not run {}", program.display()))?;
    let took = started.elapsed();
    ensure!(
        status.success(),
        "{} {} ended with {status}",
        program.display(),
        arguments.join(" ")
    );
    Ok(took)
}

//! Checks and generators of the workspace: everything with logic that `make` calls.

mod assets;
mod failures;
mod generate;
mod layers;
mod proto;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about, bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Fails if a crate depends on one above it.
    CheckLayers {
        /// The workspace to check.
        #[arg(long, default_value = "Cargo.toml")]
        manifest_path: PathBuf,
    },
    /// Writes the generated files: custom resource definitions, the chart that carries them, code of foreign protocols.
    Generate {
        /// Writes nothing and fails if a file is not what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Writes the code of foreign protocols alone: the first step after a change of a `.proto` file, when the rest of
    /// the workspace does not build yet.
    Proto,
    /// Finds, downloads or builds the binaries the tests run, and prints where they are.
    Assets,
    /// Tells what failed in a run of tests, and why.
    Failures {
        /// What the run printed.
        output: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::CheckLayers { manifest_path } => layers::check(&manifest_path),
        Task::Generate { check } => generate::run(check),
        Task::Proto => proto::run(&generate::root()),
        Task::Assets => assets::run(),
        Task::Failures { output } => failures::tell(&output),
    };
    match outcome {
        Ok(summary) => {
            say(&summary);
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the one place that prints")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "the one place that complains")]
fn complain(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

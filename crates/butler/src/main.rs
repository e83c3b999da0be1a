//! The `butler` binary: every component, one executable.

use std::process::ExitCode;

use butler_runtime::{
    shutdown::Shutdown,
    telemetry::{self, LogSettings},
};
use clap::{Parser, Subcommand};

/// Butler: Kubernetes as a service, on your infrastructure.
#[derive(Parser)]
#[command(
    version,
    about,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    component: Component,
}

#[derive(Subcommand)]
enum Component {
    /// Run the controllers of the management cluster
    #[command(after_help = "Examples:\n  \
        butler controller                                      in the management cluster\n  \
        butler controller --kubeconfig k --leader-elect=false  on your own machine")]
    Controller(butler_controller::run::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run(Arguments::parse())).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    telemetry::init(&LogSettings::from_environment()?)?;
    let shutdown = Shutdown::on_signals()?;
    match arguments.component {
        Component::Controller(arguments) => {
            butler_controller::run::run(arguments, env!("CARGO_PKG_VERSION"), shutdown).await?;
        }
    }
    Ok(())
}

#[expect(
    clippy::print_stderr,
    reason = "the last words of a process go to its terminal, whatever the log says"
)]
fn complain(error: &anyhow::Error) {
    eprintln!("butler: {error:#}");
}

//! The `butleradm` binary: what operators do to a platform.

use std::process::ExitCode;

use butler_cli::adm;
use clap::Parser as _;

#[tokio::main]
async fn main() -> ExitCode {
    adm::run(adm::Arguments::parse()).await
}

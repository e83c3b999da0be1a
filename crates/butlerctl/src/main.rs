//! The `butlerctl` binary: what users of a platform do with clusters.

use std::process::ExitCode;

use butler_cli::ctl;
use clap::Parser as _;

#[tokio::main]
async fn main() -> ExitCode {
    ctl::run(ctl::Arguments::parse()).await
}

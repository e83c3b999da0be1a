//! `butleradm`: what operators do to a platform.
//!
//! Owns: the commands, what they print and how they end. Results go to standard output, progress and complaints to standard
//! error. Exit codes: 0 well, 1 failed or not healthy, 2 not understood.

mod apply;
mod boots;
mod cluster_api;
mod doctor;
mod down;
mod error;
mod host_process;
mod image;
pub(crate) mod installation;
mod kubeadm;
mod machine;
pub mod recipe;
mod status;
mod up;
mod versions;

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use butler_api::name::ClusterName;
use clap::{Args, Parser, Subcommand};

use self::{doctor::Level, error::Error, installation::Places};

const DEFAULT_NAME: &str = "butler-local";
const DEFAULT_STATE: &str = "/var/lib/butler";

/// Operate a Butler platform
#[derive(Parser, Debug)]
#[command(
    name = "butleradm",
    version,
    about = "Operate a Butler platform",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Which installation, and how much is told.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Which installation")]
pub(crate) struct Global {
    /// Name of the installation
    #[arg(long, global = true, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: ClusterName,
    /// Where installations keep their state
    #[arg(long, global = true, value_name = "DIRECTORY", env = "BUTLER_STATE", hide_env_values = true, default_value = DEFAULT_STATE)]
    state_directory: PathBuf,
    /// Tell more
    #[arg(long, short, global = true)]
    verbose: bool,
}

impl Global {
    /// The flags that mean this installation, for commands that the reader is to type.
    fn flags(&self) -> String {
        let name = (self.name.as_str() != DEFAULT_NAME).then(|| format!(" --name {}", self.name));
        let elsewhere = self.state_directory != std::path::Path::new(DEFAULT_STATE);
        let state =
            elsewhere.then(|| format!(" --state-directory {}", self.state_directory.display()));
        [name, state].into_iter().flatten().collect()
    }

    fn installation(&self) -> ClusterName {
        self.name.clone()
    }

    fn places(&self) -> Result<Places, Error> {
        let home = std::env::home_dir().ok_or_else(|| Error::File {
            doing: "find",
            path: "the home directory; set HOME".into(),
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        Ok(Places::new(&self.state_directory, &home, &self.name))
    }
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Make this host a management cluster, or complete what is missing of it
    #[command(
        after_help = "Examples:\n  butleradm up\n  butleradm up --workers 2 --memory 4Gi\n  butleradm up --egress nat --dry-run"
    )]
    Up(up::Arguments),
    /// Make a management cluster on an infrastructure
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Bootstrap {
        #[command(subcommand)]
        provider: Bootstrap,
    },
    /// Remove the installation: machines, network, files
    #[command(after_help = "Examples:\n  butleradm down\n  butleradm down --keep-cache")]
    Down(down::Arguments),
    /// Say whether everything is healthy; the exit code says so too
    Status,
    /// Look into the machines of this host
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Machine {
        #[command(subcommand)]
        command: machine::Command,
    },
    /// Look at the images that machines can pull, or add some
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Image {
        #[command(subcommand)]
        command: image::Command,
    },
    /// Say whether this host can run machines, and what to do where it cannot
    Doctor {
        /// Addresses that the machines are to have
        #[arg(long, value_name = "CIDR", default_value = "172.30.0.0/20")]
        range: ipnet::Ipv4Net,
        /// What machines may reach outside
        #[arg(long, value_enum, default_value = "off")]
        egress: up::EgressChoice,
    },
    /// Keep the host process of an installation running
    #[command(hide = true)]
    Supervise {
        /// Directory of the installation
        root: PathBuf,
    },
}

#[derive(Subcommand, Debug)]
enum Bootstrap {
    /// The same as "butleradm up"
    Local(up::Arguments),
}

/// Complains to who could not do anything to this host.
fn as_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Error::NotRoot)
    }
}

/// Carries out a command line.
pub async fn run(arguments: Arguments) -> ExitCode {
    let outcome = Box::pin(carry_out(arguments)).await;
    match outcome {
        Ok((text, code)) => {
            // Who closed our standard output does not want to know.
            drop(std::io::stdout().write_all(text.as_bytes()));
            ExitCode::from(code)
        }
        Err(error) => {
            drop(writeln!(std::io::stderr(), "butleradm: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn carry_out(Arguments { global, command }: Arguments) -> anyhow::Result<(String, u8)> {
    match command {
        Command::Up(arguments)
        | Command::Bootstrap {
            provider: Bootstrap::Local(arguments),
        } => Ok((up::up(&arguments, &global).await?, 0)),
        Command::Down(arguments) => Ok((down::down(&arguments, &global).await?, 0)),
        Command::Status => {
            let (text, healthy) = status::status(&global).await?;
            Ok((text, u8::from(!healthy)))
        }
        Command::Machine { command } => machine::run(&command, &global).await,
        Command::Image { command } => Ok((image::run(&command, &global).await?, 0)),
        Command::Doctor { range, egress } => {
            let bridge = installation::bridge(&global.name)?;
            let wish = doctor::Wish {
                range,
                state: &global.state_directory,
                bridge: bridge.as_str(),
                egress: egress.into(),
            };
            let findings = doctor::examine(wish).await;
            let failed = findings.iter().any(|finding| finding.level == Level::Fail);
            Ok((doctor::report(&findings), u8::from(failed)))
        }
        Command::Supervise { root } => {
            host_process::supervise(&root).await?;
            Ok((String::new(), 0))
        }
    }
}

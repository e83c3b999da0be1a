//! `butlerctl`: what users of a platform do with clusters.
//!
//! Owns: the commands, what they print and how they end. Results go to standard output, progress and complaints to standard
//! error. Exit codes: 0 well, 1 failed, 2 not understood, 3 not done within the time given.

mod cluster;
mod error;
mod platform;

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

use self::error::Error;

/// Create and use clusters on a Butler platform
#[derive(Parser, Debug)]
#[command(
    name = "butlerctl",
    version,
    about = "Create and use clusters on a Butler platform",
    after_help = "Examples:\n  butlerctl cluster create demo --workers 2\n  butlerctl cluster kubeconfig demo --merge\n  butlerctl cluster why demo\n\nExit codes:\n  0  it is done\n  1  it failed, or was refused\n  2  the command line was not understood\n  3  it was not done within the time given by --timeout, and goes on",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Which platform, and how much is told.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Which platform")]
pub(crate) struct Global {
    /// The kubeconfig of the management cluster [default: KUBECONFIG, then ~/.butler/*-kubeconfig, then ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[arg(
        long,
        short,
        global = true,
        value_name = "NAMESPACE",
        env = "BUTLER_NAMESPACE",
        hide_env_values = true,
        help = "Namespace of the clusters [default: the one that ButlerConfig names; of a new cluster with a team, the team's]"
    )]
    namespace: Option<String>,
    /// Tell more
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Create, look at, change and destroy clusters
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Cluster {
        #[command(subcommand)]
        command: cluster::Command,
    },
}

/// Carries out a command line.
pub async fn run(arguments: Arguments) -> ExitCode {
    let Arguments { global, command } = arguments;
    let outcome = match command {
        Command::Cluster { command } => Box::pin(cluster::run(command, &global)).await,
    };
    match outcome {
        Ok(text) => {
            // Who closed our standard output does not want to know.
            drop(std::io::stdout().write_all(text.as_bytes()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            drop(writeln!(std::io::stderr(), "butlerctl: {error:#}"));
            let code = error.downcast_ref::<Error>().map_or(1, Error::exit_code);
            ExitCode::from(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn refusal(arguments: &[&str]) -> Option<i32> {
        let all = std::iter::once("butlerctl").chain(arguments.iter().copied());
        Arguments::try_parse_from(all)
            .err()
            .map(|error| error.exit_code())
    }

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    /// The examples of a command and of those below it.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let own = help
            .lines()
            .filter_map(|line| line.strip_prefix("  butlerctl "));
        let own = own.map(|line| line.split(" > ").next().unwrap_or_default().to_owned());
        let below = command.get_subcommands().flat_map(examples);
        own.chain(below).collect()
    }

    #[test]
    fn every_command_has_examples_and_they_are_understood() {
        let command = Arguments::command();
        for line in examples(&command) {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(refusal(&words), None, "{line}");
        }
        let clusters = command.find_subcommand("cluster").unwrap();
        for verb in clusters.get_subcommands() {
            let name = verb.get_name();
            let call = format!("cluster {name} ");
            let own = examples(verb);
            assert!(!own.is_empty(), "{name} has no example");
            let is_own = |line: &String| format!("{line} ").starts_with(&call);
            assert!(own.iter().all(is_own), "{own:?}");
        }
    }

    #[test]
    fn what_the_readme_types_is_understood() {
        for line in [
            "cluster create demo",
            "cluster create demo --workers 2 --memory 4Gi --no-wait",
            "cluster create -f cluster.yaml --timeout 30m",
            "cluster ls -A -o json",
            "cluster get demo -n team -o yaml",
            "cluster kubeconfig demo --merge",
            "cluster kubeconfig demo --user jane --group dev --group ops --ttl 1h -o jane.conf",
            "cluster scale demo --workers 0",
            "cluster scale demo --pool large -w 3",
            "cluster upgrade demo --version v1.36.3",
            "cluster delete demo --yes --no-wait",
            "cluster why demo",
        ] {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(refusal(&words), None, "{line}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_exit_code_2() {
        for line in [
            "cluster",
            "cluster create",
            "cluster create Demo_1",
            "cluster create demo -f cluster.yaml",
            "cluster create demo --workers -1",
            "cluster create demo --kubernetes-version latest",
            "cluster create demo --wait --no-wait",
            "cluster kubeconfig demo --group dev",
            "cluster kubeconfig demo --user jane --ttl 5m",
            "cluster kubeconfig demo --merge -o file",
            "cluster scale demo",
            "cluster upgrade demo",
        ] {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(refusal(&words), Some(2), "{line}");
        }
    }
}

//! `butleradm machine`: what runs on this host, seen from the host.

use butler_api::name::MachineName;
use butler_host::host::{Host, Machine, MachineState};
use clap::Subcommand;

use super::{Global, error::Error};
use crate::output::table::table;

/// Verbs of `butleradm machine`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// List the machines of this host
    List,
    /// Open a shell in a machine, or run a command in it
    #[command(
        after_help = "Examples:\n  butleradm machine shell butler-local-cp-0\n  \
        butleradm machine shell butler-local-cp-0 -- ctr -n k8s.io containers ls"
    )]
    Shell {
        /// Name of the machine
        #[arg(value_name = "NAME")]
        machine: MachineName,
        /// A command instead of a shell
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Show what the first process of a machine says
    Logs {
        /// Name of the machine
        #[arg(value_name = "NAME")]
        machine: MachineName,
        /// The last lines alone
        #[arg(long, value_name = "N")]
        tail: Option<usize>,
    },
}

/// Carries out a verb. Gives what to print and how to end.
pub(crate) async fn run(command: &Command, global: &Global) -> anyhow::Result<(String, u8)> {
    let places = global.places()?;
    let installation = places.read()?.ok_or_else(|| Error::NotInstalled {
        name: global.installation(),
    })?;
    let host = Host::open(installation.host_config(&places)?)?;
    match command {
        Command::List => Ok((list(&host.list().await?), 0)),
        Command::Logs { machine, tail } => Ok((host.logs(machine, *tail).await?, 0)),
        Command::Shell { machine, command } => {
            let status = host
                .interactive(machine, command)
                .await?
                .status()
                .await
                .map_err(|source| Error::File {
                    doing: "run",
                    path: "runc".into(),
                    source,
                })?;
            let code = status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1);
            Ok((String::new(), code))
        }
    }
}

/// A table of machines.
pub(crate) fn list(machines: &[Machine]) -> String {
    let rows = machines.iter().map(|machine| {
        let state = match &machine.state {
            MachineState::Running { .. } => "Running".to_owned(),
            MachineState::Stopped => "Stopped".to_owned(),
            MachineState::Broken { reason } => format!("Broken: {reason}"),
        };
        let spec = machine.spec.as_ref();
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            machine.name.to_string(),
            state,
            or_nothing(spec.map(|spec| spec.address.addr().to_string())),
            or_nothing(spec.map(|spec| format!("{}", spec.cpu_millicores.div_ceil(1000)))),
            or_nothing(spec.map(|spec| memory(spec.memory_bytes))),
        ]
    });
    table(["NAME", "STATE", "ADDRESS", "CPUS", "MEMORY"], rows)
}

/// As people write it: `3Gi`, or `3500Mi` where that is not even.
fn memory(bytes: u64) -> String {
    let mebibytes = bytes >> 20;
    if mebibytes >= 1024 && mebibytes.is_multiple_of(1024) {
        format!("{}Gi", mebibytes / 1024)
    } else {
        format!("{mebibytes}Mi")
    }
}

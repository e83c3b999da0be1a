//! What is asked for: flags, what an earlier run was asked for, and what follows for who asks for nothing.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use butler_api::{Quantity, name::ClusterName, version::KubernetesVersion};
use butler_assets::{Asset, Component};
use butler_host::{
    machine::{HostFacts, MachineId},
    network::Egress,
};
use clap::{Args, ValueEnum};
use ipnet::Ipv4Net;
use rand::RngExt as _;

use crate::{
    adm::{
        error::Error,
        installation::{Installation, Places, bridge},
    },
    flags::duration,
};

const DEFAULT_RANGE: &str = "172.30.0.0/20";
/// A host, a machine, a few workers and Services.
const LONGEST_PREFIX: u8 = 28;
/// More than this one machine rarely needs, unless it is asked for.
const GENEROUS_MEMORY_MIB: u64 = 16 * 1024;
/// What a control plane with Cluster API and Butler needs to start at all.
const LEAST_MEMORY_MIB: u64 = 2 * 1024;
const MIB: u64 = 1024 * 1024;

/// What machines may reach beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EgressChoice {
    /// Nothing
    Off,
    /// Public addresses, by the host's own; private ranges stay closed
    Nat,
}

impl From<EgressChoice> for Egress {
    fn from(choice: EgressChoice) -> Self {
        match choice {
            EgressChoice::Off => Self::Off,
            EgressChoice::Nat => Self::Nat,
        }
    }
}

/// Flags of `butleradm up`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Machines beside the first [default: 0]
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Processors of each machine [default: all of this host's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    cpus: Option<u32>,
    /// Memory of each machine, such as 8Gi [default: its share of three quarters of this host's, 2Gi to 16Gi]
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<Quantity>,
    /// What the management cluster runs [default: the newest that assets are pinned for]
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<KubernetesVersion>,
    /// Addresses of machines and load balancers [default: 172.30.0.0/20]
    #[arg(long, value_name = "CIDR")]
    range: Option<Ipv4Net>,
    /// What machines may reach outside [default: off]
    #[arg(long, value_enum)]
    egress: Option<EgressChoice>,
    /// Say what would be made, and make nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long it may take, in seconds or as 20m
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// The butler binary that machines and the cluster run [default: the one beside butleradm]
    #[arg(long, value_name = "FILE")]
    butler_binary: Option<PathBuf>,
    /// Where Butler's charts are [default: the folder charts above this directory or above butleradm]
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "BUTLER_CHARTS",
        hide_env_values = true
    )]
    charts: Option<PathBuf>,
}

impl Arguments {
    /// The binary that becomes the first process of machines and the image of the controllers.
    pub(crate) fn butler(&self) -> Result<PathBuf, Error> {
        let beside = || env::current_exe().map(|me| me.with_file_name("butler"));
        let program = match &self.butler_binary {
            Some(program) => program.clone(),
            None => beside().map_err(|source| Error::File {
                doing: "find",
                path: "/proc/self/exe".into(),
                source,
            })?,
        };
        match program.canonicalize() {
            Ok(found) if found.is_file() => Ok(found),
            _ => Err(Error::NoBinary { program }),
        }
    }

    /// Where the charts are.
    pub(crate) fn charts(&self) -> Result<PathBuf, Error> {
        let starts = [env::current_dir().ok(), env::current_exe().ok()];
        let above = || {
            starts
                .iter()
                .flatten()
                .flat_map(|start| start.ancestors())
                .map(|place| place.join("charts"))
                .find(|charts| charts.join("butler/Chart.yaml").is_file())
        };
        self.charts
            .clone()
            .or_else(above)
            .ok_or_else(|| Error::File {
                doing: "find",
                path: "charts/butler/Chart.yaml; name the folder with --charts".into(),
                source: std::io::ErrorKind::NotFound.into(),
            })
    }
}

/// What the installation is to be. What cannot change any more is refused, everything that is not asked for stays.
pub(crate) fn wished(
    arguments: &Arguments,
    name: &ClusterName,
    recorded: Option<&Installation>,
) -> anyhow::Result<Installation> {
    let host = HostFacts::read()?;
    let memory_mib = arguments.memory.as_ref().map(mebibytes).transpose()?;
    let wished = match recorded {
        Some(recorded) => {
            fixed(
                name,
                "the range",
                &recorded.range,
                arguments.range.map(|range| range.trunc()).as_ref(),
            )?;
            fixed(
                name,
                "Kubernetes",
                &recorded.kubernetes_version,
                arguments.kubernetes_version.as_ref(),
            )?;
            fixed(name, "processors:", &recorded.cpus, arguments.cpus.as_ref())?;
            fixed(
                name,
                "MiB of memory:",
                &recorded.memory_mib,
                memory_mib.as_ref(),
            )?;
            let egress = arguments.egress.map_or(recorded.egress, Egress::from);
            fixed(
                name,
                "egress",
                &egress_text(recorded.egress),
                Some(&egress_text(egress)),
            )?;
            Installation {
                workers: arguments.workers.unwrap_or(recorded.workers),
                ..recorded.clone()
            }
        }
        None => Installation {
            name: name.clone(),
            range: arguments
                .range
                .map_or_else(|| DEFAULT_RANGE.parse(), Ok)?
                .trunc(),
            kubernetes_version: match &arguments.kubernetes_version {
                Some(version) => version.clone(),
                None => Asset::default_of(Component::Kubelet)
                    .version
                    .to_string()
                    .parse()?,
            },
            cpus: arguments.cpus.unwrap_or_else(|| {
                u32::try_from(host.cpu_millicores / 1000)
                    .unwrap_or(1)
                    .max(1)
            }),
            memory_mib: memory_mib
                .unwrap_or_else(|| generous(host.memory_bytes, arguments.workers.unwrap_or(0))),
            egress: arguments.egress.map_or(Egress::Off, Egress::from),
            workers: arguments.workers.unwrap_or(0),
            first_machine_id: new_id(),
        },
    };
    if recorded.is_none() {
        fits(&wished, &host)?;
        bridge(name)?;
        Asset::kubernetes(Component::Kubelet, &wished.kubernetes_version.bare())?;
    }
    if wished.range.prefix_len() > LONGEST_PREFIX {
        return Err(Error::Range {
            range: wished.range,
        }
        .into());
    }
    Ok(wished)
}

fn fixed<T: PartialEq + ToString>(
    name: &ClusterName,
    what: &'static str,
    before: &T,
    wished: Option<&T>,
) -> Result<(), Error> {
    match wished {
        Some(wished) if wished != before => Err(Error::Fixed {
            name: name.clone(),
            what,
            before: before.to_string(),
            wished: wished.to_string(),
        }),
        _ => Ok(()),
    }
}

fn egress_text(egress: Egress) -> String {
    match egress {
        Egress::Off => "off".to_owned(),
        Egress::Nat => "nat".to_owned(),
    }
}

/// What is larger than the host could never run.
fn fits(wished: &Installation, host: &HostFacts) -> Result<(), Error> {
    if u64::from(wished.cpus) * 1000 > host.cpu_millicores.next_multiple_of(1000) {
        return Err(Error::TooLarge {
            what: "processors:",
            wished: wished.cpus.to_string(),
            there: (host.cpu_millicores / 1000).to_string(),
            flag: "--cpus",
        });
    }
    if u64::from(wished.memory_mib) * MIB > host.memory_bytes {
        return Err(Error::TooLarge {
            what: "MiB of memory:",
            wished: wished.memory_mib.to_string(),
            there: (host.memory_bytes / MIB).to_string(),
            flag: "--memory",
        });
    }
    Ok(())
}

/// What the host can give each of its machines without being short of memory itself.
fn generous(memory_bytes: u64, workers: u32) -> u32 {
    let share = memory_bytes / MIB * 3 / 4 / (u64::from(workers) + 1);
    let mib = share.clamp(LEAST_MEMORY_MIB, GENEROUS_MEMORY_MIB);
    u32::try_from(mib).unwrap_or(u32::MAX)
}

fn mebibytes(memory: &Quantity) -> anyhow::Result<u32> {
    let bytes = u64::try_from(memory.amount()?.bytes())?;
    let mib = bytes / MIB;
    anyhow::ensure!(
        mib >= LEAST_MEMORY_MIB,
        "--memory {memory} is too little for a control plane; give at least 2Gi"
    );
    Ok(u32::try_from(mib)?)
}

fn new_id() -> MachineId {
    let digits = format!("{:032x}", rand::rng().random::<u128>());
    let (first, rest) = digits.split_at(8);
    // Version 4, variant 1: a UUID of chance alone.
    let text = format!(
        "{first}-{}-4{}-a{}-{}",
        &rest[..4],
        &rest[5..8],
        &rest[9..12],
        &rest[12..24]
    );
    text.parse().unwrap_or_else(|error| unreachable!("{error}"))
}

/// What would be made.
pub(crate) fn describe(installation: &Installation, places: &Places, there: bool) -> String {
    let Installation {
        name,
        range,
        kubernetes_version,
        cpus,
        memory_mib,
        workers,
        ..
    } = installation;
    let state: &Path = places.root();
    let doing = if there {
        "would be checked and completed"
    } else {
        "would be made"
    };
    format!(
        "{name} {doing}; nothing was changed.\n\n  \
         Kubernetes     {kubernetes_version}\n  \
         machines       {} ({cpus} processors, {memory_mib} MiB of memory each)\n  \
         range          {range}, this host is {}\n  \
         egress         {}\n  \
         data store     etcd, one member on the first machine\n  \
         state          {}\n  \
         kubeconfig     {}\n",
        workers + 1,
        installation.host_address(),
        egress_text(installation.egress),
        state.display(),
        places.kubeconfig().display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_share_what_the_host_can_give() {
        let gibibytes = |count: u64| count << 30;
        assert_eq!(generous(gibibytes(64), 0), 16 * 1024);
        assert_eq!(generous(gibibytes(24), 0), 16 * 1024);
        assert_eq!(generous(gibibytes(24), 2), 6 * 1024);
        assert_eq!(generous(gibibytes(4), 3), 2 * 1024);
    }

    #[test]
    fn every_installation_has_a_first_machine_of_its_own() {
        assert_ne!(new_id(), new_id());
    }
}

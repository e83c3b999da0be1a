//! Machines alone, without a cluster: how long one takes from nothing to a container runtime that answers, and how much of
//! the disk it has for itself.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use butler_api::name::MachineName;
use butler_assets::Component;
use butler_cli::adm::recipe;
use butler_host::{
    host::{Host, HostConfig, MachineState},
    images::{ContainerdPrograms, ImageStores},
    machine::{DiskContents, MachineSpec},
    network::NetworkSpec,
    node::NodeProfile,
};
use futures::future::try_join_all;
use ipnet::Ipv4Net;
use tokio::{runtime::Handle, task::block_in_place};

use super::{containerd, disk, place::Place, shell, supplies::Supplies};
use crate::progress;

const CLUSTER: &str = "bench-boot";
const BRIDGE: &str = "br-bench-boot";
/// The host on the bridge.
const HOST: &str = "10.213.117.129/25";
const COUNT: u8 = 10;
/// The last number of the first machine's address.
const FIRST_NUMBER: u8 = 140;
/// Enough for containerd.
const MEMORY: u64 = 1 << 30;

/// What was measured.
pub(super) struct BootTimes {
    /// Of each machine, while those before it run.
    pub(super) one_by_one: Vec<Duration>,
    /// Of as many machines together.
    pub(super) at_once: Duration,
    /// Bytes of the disk of a machine that is alone.
    pub(super) disk_of_one: u64,
    /// Bytes of the disk of each, when there are many.
    pub(super) disk_of_each: u64,
}

/// A host with machines of ours; all gone when dropped.
pub(super) struct Machines {
    host: Option<Host>,
    profile: NodeProfile,
    directory: std::path::PathBuf,
}

impl Machines {
    /// Prepares the images and the bridge.
    pub(super) async fn prepare(
        place: &Place,
        supplies: &Supplies,
        butler: &Path,
    ) -> anyhow::Result<Self> {
        progress("preparing a store of images");
        let stores = ImageStores::new(
            place.image_stores(),
            ContainerdPrograms {
                containerd: supplies.program(Component::Containerd)?.to_owned(),
                ctr: supplies.program(Component::Ctr)?.to_owned(),
            },
        );
        let image_store = stores.prepare(&supplies.images.archives()).await?;
        let machines = Self {
            host: Some(open(place)?),
            profile: NodeProfile {
                butler: butler.to_owned(),
                programs: supplies.programs(recipe::NODE.into_iter().chain(recipe::RUNTIME))?,
                cni_plugins: supplies.programs(recipe::CNI)?,
                sandbox_image: supplies.images.sandbox.clone(),
                mirror: None,
                image_store: Some(image_store),
            },
            directory: place.machines(),
        };
        machines.host()?.up().await?;
        Ok(machines)
    }

    /// Boots machines one after another, then as many at once.
    pub(super) async fn measure(&self, supplies: &Supplies) -> anyhow::Result<BootTimes> {
        let host = self.host()?;
        let ctr = supplies.program(Component::Ctr)?;
        shell::settle().await?;
        progress(&format!("booting {COUNT} machines one after another"));
        let (mut one_by_one, mut disk_of_one) = (Vec::new(), 0);
        for number in 0..COUNT {
            one_by_one.push(self.boot(host, ctr, number).await?);
            if number == 0 {
                disk_of_one = disk::own_bytes(&self.directory).await?;
            }
        }
        let disk_of_each = disk::own_bytes(&self.directory).await? / u64::from(COUNT);
        for number in 0..COUNT {
            host.delete(&name(number)?).await?;
        }
        shell::settle().await?;
        progress(&format!("booting {COUNT} machines at once"));
        let began = Instant::now();
        try_join_all((0..COUNT).map(|number| self.boot(host, ctr, number))).await?;
        Ok(BootTimes {
            one_by_one,
            at_once: began.elapsed(),
            disk_of_one,
            disk_of_each,
        })
    }

    /// Removes the machines and the bridge.
    pub(super) async fn remove(mut self) -> anyhow::Result<()> {
        self.host()?.clone().down().await?;
        // Only now: who is interrupted while removing removes the rest when dropped.
        self.host = None;
        Ok(())
    }

    fn host(&self) -> anyhow::Result<&Host> {
        self.host.as_ref().context("the host is gone")
    }

    async fn boot(&self, host: &Host, ctr: &Path, number: u8) -> anyhow::Result<Duration> {
        let spec = self.specification(host, number)?;
        let name = spec.name.clone();
        let began = Instant::now();
        host.create(spec).await?;
        let MachineState::Running { pid } = host.start(&name).await?.state else {
            bail!("machine {name} does not run");
        };
        containerd::answers(ctr, pid).await?;
        Ok(began.elapsed())
    }

    fn specification(&self, host: &Host, number: u8) -> anyhow::Result<MachineSpec> {
        let range: Ipv4Net = HOST.parse()?;
        let [first, second, third, _] = range.addr().octets();
        let address = [first, second, third, FIRST_NUMBER + number].into();
        let name = name(number)?;
        let mut spec = MachineSpec {
            id: format!("00000000-0000-4000-a000-0000000000{number:02x}").parse()?,
            hostname: name.to_string(),
            name,
            cpu_millicores: host.facts().cpu_millicores,
            memory_bytes: MEMORY.min(host.facts().memory_bytes),
            address: Ipv4Net::new(address, range.prefix_len())?,
            gateway: None,
            init: Vec::new(),
            binds: Vec::new(),
            disk: DiskContents::default(),
        };
        self.profile.apply(&mut spec);
        Ok(spec)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if let Some(host) = self.host.take() {
            progress("removing the machines");
            let removed = block_in_place(|| Handle::current().block_on(host.down()));
            if let Err(error) = removed {
                progress(&format!("could not remove the machines: {error}"));
            }
        }
    }
}

/// Removes what an earlier run has left.
pub(super) async fn remove_leftovers(place: &Place) -> anyhow::Result<()> {
    Ok(open(place)?.down().await?)
}

fn open(place: &Place) -> anyhow::Result<Host> {
    Ok(Host::open(HostConfig {
        state_directory: place.machines(),
        cluster: CLUSTER.parse()?,
        network: NetworkSpec::new(BRIDGE.parse()?, HOST.parse()?),
    })?)
}

fn name(number: u8) -> anyhow::Result<MachineName> {
    Ok(format!("machine-{number}").parse()?)
}

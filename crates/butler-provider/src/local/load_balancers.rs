//! Load balancers of this host: an address that one healthy machine among the targets answers at.
//!
//! What was decided is in one file for each, written before the address is moved and again after it.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use butler_api::{
    butler::load_balancer_request::LoadBalancerTarget, conditions::reasons, name::MachineName,
};
use butler_host::{
    host::{Machine, MachineState as HostState},
    machine::MachineId,
};
use serde::{Deserialize, Serialize};

use super::{Hands, ServiceAddresses, error::understood, provider_id};
use crate::{
    error::{ErrorClass, ProviderError},
    order::{LoadBalancerIdentity, LoadBalancerObservation, LoadBalancerOrder},
    provider::Deletion,
};

const DIRECTORY: &str = "load-balancers";

/// What was decided about a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    address: Ipv4Addr,
    port: u16,
    targets: Vec<LoadBalancerTarget>,
    /// Who answers at the address; nobody if no target runs.
    holder: Option<Holder>,
    /// Machines that the address may still be on.
    former: Vec<MachineName>,
    /// Whether the address is where it should be.
    settled: bool,
}

/// A life of a machine: its addresses end with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    machine: MachineName,
    pid: u32,
}

impl Hands {
    fn directory(&self) -> PathBuf {
        self.settings.host.state_directory.join(DIRECTORY)
    }

    fn record_path(&self, identity: &LoadBalancerIdentity) -> Result<PathBuf, ProviderError> {
        // It becomes the name of a file.
        let uid: MachineId = identity.uid.parse().map_err(|_| {
            let message = format!("the UID {:?} of the request is no UUID", identity.uid);
            ProviderError::new(ErrorClass::Terminal, reasons::VALIDATION_FAILED, message)
        })?;
        Ok(self.directory().join(format!("{uid}.json")))
    }

    /// The UIDs of all load balancers.
    pub(super) fn load_balancers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .filter_map(|name| Some(name.to_str()?.strip_suffix(".json")?.to_owned()))
            .collect()
    }

    pub(super) async fn observe_load_balancer(
        &self,
        order: &LoadBalancerOrder,
    ) -> Result<Option<LoadBalancerObservation>, ProviderError> {
        let Some(record) = read(&self.record_path(&order.identity)?)? else {
            return Ok(None);
        };
        let machines = self.machines().await?;
        let known = resolve(&record.targets, &machines);
        let same = record.port == order.port && record.targets == order.targets;
        let placed = record.settled && record.holder == choose(record.holder.as_ref(), &known);
        Ok(Some(LoadBalancerObservation {
            resource_id: order.identity.uid.clone(),
            endpoint: Some(record.address.to_string()),
            registered_targets: u32::try_from(known.len()).unwrap_or(u32::MAX),
            in_step: same && placed,
        }))
    }

    pub(super) async fn ensure_load_balancer(
        &self,
        order: &LoadBalancerOrder,
    ) -> Result<(), ProviderError> {
        let identity = &order.identity;
        let _turn = self.turn(&identity.uid).await;
        if self.is_buried(&identity.uid) {
            let message = "the load balancer of this request was deleted and is not made again";
            return Err(ProviderError::terminal(message));
        }
        let path = self.record_path(identity)?;
        let before = read(&path)?;
        let address = match (&before, order.address) {
            (Some(before), _) => before.address,
            (None, Some(IpAddr::V4(address))) => address,
            (None, _) => {
                let message = "a load balancer on this host needs an IPv4 address out of a NetworkPool; name one in spec.network.poolRefs of the ProviderConfig";
                return Err(ProviderError::new(
                    ErrorClass::Terminal,
                    reasons::INVALID_CONFIGURATION,
                    message,
                ));
            }
        };
        let machines = self.machines().await?;
        let known = resolve(&order.targets, &machines);
        let held = before.as_ref().and_then(|before| before.holder.clone());
        let holder = choose(held.as_ref(), &known);
        let mut former = before.map(|before| before.former).unwrap_or_default();
        former.extend(held.map(|held| held.machine));
        former.retain(|machine| {
            holder
                .as_ref()
                .is_none_or(|holder| holder.machine != *machine)
        });
        former.sort();
        former.dedup();
        let mut record = Record {
            address,
            port: order.port,
            targets: order.targets.clone(),
            holder,
            former,
            settled: false,
        };
        write(&path, &record)?;
        self.settle(&record, &machines).await?;
        record.former.clear();
        record.settled = true;
        write(&path, &record)
    }

    /// Moves the address to its holder, and off all that had it.
    async fn settle(&self, record: &Record, machines: &[Machine]) -> Result<(), ProviderError> {
        let addresses = self.service_addresses()?;
        for machine in record.former.iter().filter(|name| runs(name, machines)) {
            let withdrawn = addresses.withdraw(machine, record.address).await;
            withdrawn.map_err(|error| understood(&error))?;
        }
        if let Some(holder) = &record.holder {
            let placed = addresses.place(&holder.machine, record.address, record.port);
            placed.await.map_err(|error| understood(&error))?;
        }
        Ok(())
    }

    pub(super) async fn delete_load_balancer(
        &self,
        identity: &LoadBalancerIdentity,
    ) -> Result<Deletion, ProviderError> {
        let _turn = self.turn(&identity.uid).await;
        self.bury(&identity.uid);
        let path = self.record_path(identity)?;
        let Some(mut record) = read(&path)? else {
            return Ok(Deletion::Gone);
        };
        let machines = self.machines().await?;
        let held = record.holder.take().map(|holder| holder.machine);
        record.former.extend(held);
        self.settle(&record, &machines).await?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(file_error("remove", &path, &error))
            }
            _ => Ok(Deletion::Gone),
        }
    }

    fn service_addresses(&self) -> Result<&dyn ServiceAddresses, ProviderError> {
        let addresses = self.settings.service_addresses.as_deref();
        addresses.ok_or_else(|| {
            let message = "this host was started without load balancers";
            ProviderError::new(ErrorClass::Terminal, reasons::UNSUPPORTED, message)
        })
    }

    async fn machines(&self) -> Result<Vec<Machine>, ProviderError> {
        let machines = self.host.list().await;
        machines.map_err(|error| understood(&error))
    }
}

fn runs(name: &MachineName, machines: &[Machine]) -> bool {
    machines
        .iter()
        .any(|machine| machine.name == *name && matches!(machine.state, HostState::Running { .. }))
}

/// The machines that targets name, in the order of the targets.
fn resolve<'a>(targets: &[LoadBalancerTarget], machines: &'a [Machine]) -> Vec<&'a Machine> {
    let is = |machine: &Machine, target: &LoadBalancerTarget| {
        let spec = machine.spec.as_ref();
        let id = spec.map(|spec| provider_id(spec.id.as_str()));
        let address = spec.map(|spec| spec.address.addr().to_string());
        (target.instance_id.is_some() && target.instance_id == id)
            || (target.instance_id.is_none() && target.ip.is_some() && target.ip == address)
            || (target.instance_id.is_none()
                && target.ip.is_none()
                && target.instance_name.as_deref() == Some(machine.name.as_str()))
    };
    let found = targets
        .iter()
        .filter_map(|target| machines.iter().find(|machine| is(machine, target)));
    found.collect()
}

/// Who should answer: who does, as long as it runs, else the first that runs.
fn choose(held: Option<&Holder>, targets: &[&Machine]) -> Option<Holder> {
    let running = |machine: &&Machine| match machine.state {
        HostState::Running { pid } => Some(Holder {
            machine: machine.name.clone(),
            pid,
        }),
        HostState::Stopped | HostState::Broken { .. } => None,
    };
    let mut candidates = targets.iter().filter_map(running);
    let keeps = candidates.clone().find(|candidate| Some(candidate) == held);
    keeps.or_else(|| candidates.next())
}

fn read(path: &Path) -> Result<Option<Record>, ProviderError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error("read", path, &error)),
    };
    let record = serde_json::from_slice(&bytes);
    record.map(Some).map_err(|error| {
        let message = format!(
            "the record {} is not valid: {error}; remove it, and the load balancer is made anew",
            path.display()
        );
        ProviderError::terminal(message)
    })
}

/// Replaced whole: what is half written is not seen.
fn write(path: &Path, record: &Record) -> Result<(), ProviderError> {
    let beside = path.with_extension("new");
    let written = || -> io::Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(&beside, serde_json::to_vec(record)?)?;
        fs::File::open(&beside)?.sync_all()?;
        fs::rename(&beside, path)
    };
    written().map_err(|error| file_error("write", path, &error))
}

fn file_error(doing: &str, path: &Path, error: &io::Error) -> ProviderError {
    let message = format!("could not {doing} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ProviderError::quota(message),
        _ => ProviderError::retry(message),
    }
}

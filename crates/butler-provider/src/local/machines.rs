//! Machines of this host, by the UID of their request.

use std::net::IpAddr;

use butler_api::{conditions::reasons, name::MachineName};
use butler_host::{
    cloud_config::MetaData,
    host::{Machine, MachineState as HostState, Seed},
    machine::{DiskContents, MachineId, MachineSpec},
    network::NetworkSpec,
};
use ipnet::Ipv4Net;

use super::{Hands, error::understood, provider_id};
use crate::{
    error::{ErrorClass, ProviderError},
    order::{Access, MachineIdentity, MachineObservation, MachineOrder, MachineState},
    provider::Deletion,
    secrets::UserData,
};

const MILLICORES: u64 = 1000;
const MEBIBYTE: u64 = 1024 * 1024;

impl Hands {
    /// The settings of a `ProviderConfig` must be those of this process.
    pub(super) fn validate(&self, access: &Access) -> Result<(), ProviderError> {
        let NetworkSpec {
            bridge, address, ..
        } = &self.settings.host.network;
        let Some(local) = &access.config.spec.local else {
            return Ok(());
        };
        let range = address.trunc().to_string();
        if local.bridge != bridge.as_str() {
            let message = format!(
                "spec.local.bridge of the ProviderConfig is {}, but the machines of this host are on {bridge}; name that one",
                local.bridge
            );
            return Err(misconfigured(message));
        }
        if let Some(cidr) = local.cidr.as_ref().filter(|cidr| **cidr != range) {
            let message = format!(
                "spec.local.cidr of the ProviderConfig is {cidr}, but the machines of this host are in {range}; name that one, or none"
            );
            return Err(misconfigured(message));
        }
        Ok(())
    }

    /// The machine of a request, if it is there. Another one of the same name is not it.
    async fn machine(
        &self,
        identity: &MachineIdentity,
    ) -> Result<Option<(Machine, MachineSpec)>, ProviderError> {
        let Some(found) = self.named(identity).await? else {
            return Ok(None);
        };
        let Some(spec) = found.spec.clone() else {
            return Ok(None);
        };
        Ok(is(&spec, identity).then_some((found, spec)))
    }

    async fn named(&self, identity: &MachineIdentity) -> Result<Option<Machine>, ProviderError> {
        let name = name(identity)?;
        let found = self.host.get(&name).await;
        found.map_err(|error| understood(&error))
    }

    pub(super) async fn observe_machine(
        &self,
        identity: &MachineIdentity,
    ) -> Result<Option<MachineObservation>, ProviderError> {
        let Some((machine, spec)) = self.machine(identity).await? else {
            return Ok(None);
        };
        if spec.id.as_str() != identity.uid {
            let adopted = (spec.id.to_string(), identity.uid.clone());
            self.memory().adopted.insert(adopted.0, adopted.1);
        }
        let told = self.host.is_told(&machine.name).await;
        Ok(Some(MachineObservation {
            provider_id: provider_id(spec.id.as_str()),
            state: match machine.state {
                HostState::Running { .. } => MachineState::Running,
                HostState::Stopped => MachineState::Halted,
                HostState::Broken { reason } => MachineState::Broken { message: reason },
            },
            addresses: vec![IpAddr::V4(spec.address.addr())],
            mac_address: None,
            has_user_data: told.map_err(|error| understood(&error))?,
        }))
    }

    pub(super) async fn create_machine(&self, order: &MachineOrder) -> Result<(), ProviderError> {
        let identity = &order.identity;
        let _turn = self.turn(&identity.uid).await;
        if self.is_buried(&identity.uid) {
            let message = "the machine of this request was deleted and is not made again";
            return Err(ProviderError::terminal(message));
        }
        let name = name(identity)?;
        let existing = self.machine(identity).await?;
        let spec = match existing {
            Some((_, spec)) => spec,
            None => self.make(order).await?,
        };
        if let Some(user_data) = &order.user_data {
            self.tell(&name, &spec, user_data).await?;
        }
        let started = self.host.start(&name).await;
        started.map_err(|error| understood(&error))?;
        Ok(())
    }

    /// Makes a machine that is not there.
    async fn make(&self, order: &MachineOrder) -> Result<MachineSpec, ProviderError> {
        let identity = &order.identity;
        if let Some(id) = &identity.adopts {
            let message = format!(
                "the machine {} with the id {id} that is to be adopted is not on this host",
                identity.machine_name
            );
            return Err(ProviderError::new(
                ErrorClass::Retry,
                reasons::MACHINE_NOT_FOUND,
                message,
            ));
        }
        let spec = (self.settings.node_parts)(order, self.spec(order)?)?;
        let made = self.host.create(spec.clone()).await;
        made.map_err(|error| understood(&error))?;
        Ok(spec)
    }

    /// What is asked of the host.
    fn spec(&self, order: &MachineOrder) -> Result<MachineSpec, ProviderError> {
        let identity = &order.identity;
        let machine = &identity.machine_name;
        let id: MachineId = identity
            .uid
            .parse()
            .map_err(|error| misconfigured(format!("machine {machine} cannot be made: {error}")))?;
        if !order.extra_disks.is_empty() {
            let message = format!(
                "machine {machine}: machines on this host have the disk of the host and no others; leave spec.extraDisks out"
            );
            return Err(ProviderError::new(
                ErrorClass::Terminal,
                reasons::VALIDATION_FAILED,
                message,
            ));
        }
        if order.network_data.is_some() {
            let message = format!(
                "machine {machine}: machines on this host have an address of a NetworkPool; leave spec.networkData out"
            );
            return Err(ProviderError::new(
                ErrorClass::Terminal,
                reasons::VALIDATION_FAILED,
                message,
            ));
        }
        let Some(IpAddr::V4(address)) = order.address else {
            let message = format!(
                "machine {machine} needs an IPv4 address out of a NetworkPool; name one in spec.network.poolRefs of the ProviderConfig"
            );
            return Err(misconfigured(message));
        };
        let length = self.settings.host.network.address.prefix_len();
        let address = Ipv4Net::new(address, length)
            .map_err(|error| ProviderError::terminal(error.to_string()))?;
        Ok(MachineSpec {
            name: name(identity)?,
            id,
            hostname: machine.clone(),
            // Machines share the processors of their host anyway: one that asks for more than there are gets all of them.
            cpu_millicores: (u64::from(order.size.cpu) * MILLICORES)
                .min(self.host.facts().cpu_millicores),
            memory_bytes: u64::from(order.size.memory_mib) * MEBIBYTE,
            address,
            gateway: self.settings.gateway,
            init: self.settings.init.clone(),
            binds: Vec::new(),
            disk: DiskContents::default(),
        })
    }

    /// Hands user data over, unless that was done.
    async fn tell(
        &self,
        name: &MachineName,
        spec: &MachineSpec,
        user_data: &UserData,
    ) -> Result<(), ProviderError> {
        let told = self.host.is_told(name).await;
        if told.map_err(|error| understood(&error))? {
            return Ok(());
        }
        let seed = Seed {
            user_data: user_data.as_bytes().to_vec(),
            meta_data: MetaData::new(spec.id.as_str(), &spec.hostname)
                .with("local_ipv4", spec.address.addr().to_string()),
        };
        let delivered = self.host.deliver(name, &seed).await;
        delivered.map_err(|error| understood(&error))
    }

    pub(super) async fn deliver(
        &self,
        identity: &MachineIdentity,
        user_data: &UserData,
    ) -> Result<(), ProviderError> {
        let _turn = self.turn(&identity.uid).await;
        let Some((machine, spec)) = self.machine(identity).await? else {
            let message = format!("there is no machine {} on this host", identity.machine_name);
            return Err(ProviderError::retry(message));
        };
        self.tell(&machine.name, &spec, user_data).await
    }

    pub(super) async fn delete_machine(
        &self,
        identity: &MachineIdentity,
    ) -> Result<Deletion, ProviderError> {
        let _turn = self.turn(&identity.uid).await;
        self.bury(&identity.uid);
        let name = name(identity)?;
        // Of a machine that was half deleted there is no record any more; nobody else can want what is left.
        let is_ours = |spec: Option<&MachineSpec>| spec.is_none_or(|spec| is(spec, identity));
        let deleted = self.host.delete_if(&name, is_ours).await;
        // Another machine of this name means that ours is gone.
        deleted.map_err(|error| understood(&error))?;
        Ok(Deletion::Gone)
    }
}

fn is(spec: &MachineSpec, identity: &MachineIdentity) -> bool {
    let id = spec.id.as_str();
    id == identity.uid || identity.adopts.as_deref() == Some(id)
}

fn name(identity: &MachineIdentity) -> Result<MachineName, ProviderError> {
    let name = identity.machine_name.parse();
    name.map_err(|error| {
        let message = format!("spec.machineName: {error}");
        ProviderError::new(ErrorClass::Terminal, reasons::VALIDATION_FAILED, message)
    })
}

fn misconfigured(message: String) -> ProviderError {
    ProviderError::new(
        ErrorClass::Terminal,
        reasons::INVALID_CONFIGURATION,
        message,
    )
}

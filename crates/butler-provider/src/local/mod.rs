//! The local provider: machines on the host this process runs on.
//!
//! Owns: how an order becomes a machine of [`butler_host`], and what its errors mean to whoever wrote the request. What a node
//! needs beside that (programs, images) is put in by [`LocalSettings::node_parts`].
//!
//! Must not: make machines that nobody ordered. The state of machines is the host's; of load balancers there is one file each.

mod configuration;
mod error;
mod load_balancers;
mod machines;
mod nodes;
pub mod process;
mod tenants;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use butler_api::{
    butler::provider_config::Provider as ProviderKind, name::MachineName, provider_id,
};
use butler_host::{
    firewall::ServedPorts,
    host::{self, Host, HostConfig},
    machine::MachineSpec,
};
use butler_runtime::task;
use futures::{FutureExt as _, future::BoxFuture, stream::BoxStream};

use crate::{
    error::ProviderError,
    order::{
        Access, LoadBalancerIdentity, LoadBalancerObservation, LoadBalancerOrder, MachineIdentity,
        MachineObservation, MachineOrder,
    },
    provider::{AddressSource, Capabilities, Changed, Deletion, Provider},
    secrets::UserData,
};

pub use configuration::{ConfigurationError, LocalConfiguration, NAME_SERVER_PORT};
use nodes::Nodes;

/// How often everything is looked at, although changes are told as they happen.
const LOOK_EVERY: Duration = Duration::from_mins(5);

/// The `providerID` of the machine with an id.
fn provider_id(machine_id: &str) -> String {
    provider_id::of_instance(ProviderKind::Local, machine_id)
}

/// Adds to a machine what makes a node of it: programs, images, sizes to report.
pub type NodeParts =
    Arc<dyn Fn(&MachineOrder, MachineSpec) -> Result<MachineSpec, ProviderError> + Send + Sync>;

/// How addresses of load balancers are put on machines.
pub trait ServiceAddresses: Send + Sync + 'static {
    /// Has a machine answer at an address, for this port alone. Asked again, it changes nothing.
    fn place<'a>(
        &'a self,
        machine: &'a MachineName,
        address: Ipv4Addr,
        port: u16,
    ) -> BoxFuture<'a, Result<(), host::Error>>;

    /// Takes an address off a machine. One that does not have it is well.
    fn withdraw<'a>(
        &'a self,
        machine: &'a MachineName,
        address: Ipv4Addr,
    ) -> BoxFuture<'a, Result<(), host::Error>>;
}

impl ServiceAddresses for Host {
    fn place<'a>(
        &'a self,
        machine: &'a MachineName,
        address: Ipv4Addr,
        port: u16,
    ) -> BoxFuture<'a, Result<(), host::Error>> {
        let served = ServedPorts {
            tcp: BTreeSet::from([port]),
            ..ServedPorts::default()
        };
        let put_on = BTreeMap::from([(address, served)]);
        async move {
            self.change_service_addresses(machine, &BTreeSet::new(), &put_on)
                .await
        }
        .boxed()
    }

    fn withdraw<'a>(
        &'a self,
        machine: &'a MachineName,
        address: Ipv4Addr,
    ) -> BoxFuture<'a, Result<(), host::Error>> {
        async move {
            let take_off = BTreeSet::from([address]);
            match self
                .change_service_addresses(machine, &take_off, &BTreeMap::new())
                .await
            {
                Err(host::Error::NotFound { .. }) => Ok(()),
                other => other,
            }
        }
        .boxed()
    }
}

/// What the local provider needs to know.
#[derive(Clone)]
pub struct LocalSettings {
    /// The machines' place.
    pub host: HostConfig,
    /// Where machines send what is not for the bridge; nowhere if absent.
    pub gateway: Option<Ipv4Addr>,
    /// The first process of a machine: a program in it, and its arguments.
    pub init: Vec<String>,
    /// What else belongs in a machine.
    pub node_parts: NodeParts,
    /// How addresses of load balancers are put on machines; without it there are no load balancers.
    pub service_addresses: Option<Arc<dyn ServiceAddresses>>,
}

impl LocalSettings {
    /// The settings of an installation on a host that was opened with the same configuration.
    pub fn of(configuration: &LocalConfiguration, host: &Host) -> Self {
        let nodes = Nodes::of(configuration);
        Self {
            host: configuration.host(),
            gateway: Some(configuration.network.host()),
            // The profile of nodes says what the first process is.
            init: Vec::new(),
            node_parts: Arc::new(move |order, spec| nodes.equip(order, spec)),
            service_addresses: Some(Arc::new(host.clone())),
        }
    }
}

impl fmt::Debug for LocalSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LocalSettings")
            .field("host", &self.host)
            .field("gateway", &self.gateway)
            .field("init", &self.init)
            .finish_non_exhaustive()
    }
}

/// The provider for machines on this host.
#[derive(Clone, Debug)]
pub struct LocalProvider(Arc<Hands>);

/// What the calls of the provider share.
#[derive(Debug)]
struct Hands {
    host: Host,
    settings: LocalSettings,
    memory: Mutex<Memory>,
}

/// What this process remembers. Calls of a process end with it, so the next needs none of it.
#[derive(Debug, Default)]
struct Memory {
    /// UIDs whose things were deleted: a call that was sent before must not make them again.
    buried: BTreeSet<String>,
    /// Who works on what.
    turns: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
    /// UIDs of requests by the ids of the machines they adopted.
    adopted: BTreeMap<String, String>,
}

impl LocalProvider {
    /// The provider on a host that is opened by the caller, with the same settings.
    pub fn new(host: Host, settings: LocalSettings) -> Self {
        Self(Arc::new(Hands {
            host,
            settings,
            memory: Mutex::default(),
        }))
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Does something to its end, also when the caller is cut off: half a machine is no machine.
    async fn to_its_end<T: Send + 'static>(
        work: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
    ) -> Result<T, ProviderError> {
        match task::spawn("local-provider", work).await {
            Ok(result) => result,
            Err(error) => Err(ProviderError::retry(format!(
                "work on this host was interrupted: {error}"
            ))),
        }
    }
}

impl Hands {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other call works on the same UID.
    async fn turn(&self, uid: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut memory = self.memory();
            memory.turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(memory.turns.entry(uid.to_owned()).or_default())
        };
        turn.lock_owned().await
    }

    fn bury(&self, uid: &str) {
        self.memory().buried.insert(uid.to_owned());
    }

    fn is_buried(&self, uid: &str) -> bool {
        self.memory().buried.contains(uid)
    }
}

impl Provider for LocalProvider {
    const KIND: ProviderKind = ProviderKind::Local;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            addresses: AddressSource::Pools,
            user_data_later: true,
            load_balancers: self.0.settings.service_addresses.is_some(),
            look_every: LOOK_EVERY,
        }
    }

    async fn validate(&self, access: &Access) -> Result<(), ProviderError> {
        self.0.validate(access)
    }

    async fn observe_machine(
        &self,
        _: &Access,
        identity: &MachineIdentity,
    ) -> Result<Option<MachineObservation>, ProviderError> {
        self.0.observe_machine(identity).await
    }

    async fn create_machine(&self, _: &Access, order: &MachineOrder) -> Result<(), ProviderError> {
        let (hands, order) = (Arc::clone(&self.0), order.clone());
        Self::to_its_end(async move { hands.create_machine(&order).await }).await
    }

    async fn deliver_user_data(
        &self,
        _: &Access,
        identity: &MachineIdentity,
        user_data: &UserData,
    ) -> Result<(), ProviderError> {
        let hands = Arc::clone(&self.0);
        let (identity, user_data) = (identity.clone(), user_data.clone());
        Self::to_its_end(async move { hands.deliver(&identity, &user_data).await }).await
    }

    async fn delete_machine(
        &self,
        _: &Access,
        identity: &MachineIdentity,
    ) -> Result<Deletion, ProviderError> {
        let (hands, identity) = (Arc::clone(&self.0), identity.clone());
        Self::to_its_end(async move { hands.delete_machine(&identity).await }).await
    }

    async fn observe_load_balancer(
        &self,
        _: &Access,
        order: &LoadBalancerOrder,
    ) -> Result<Option<LoadBalancerObservation>, ProviderError> {
        self.0.observe_load_balancer(order).await
    }

    async fn ensure_load_balancer(
        &self,
        _: &Access,
        order: &LoadBalancerOrder,
    ) -> Result<(), ProviderError> {
        let (hands, order) = (Arc::clone(&self.0), order.clone());
        Self::to_its_end(async move { hands.ensure_load_balancer(&order).await }).await
    }

    async fn delete_load_balancer(
        &self,
        _: &Access,
        identity: &LoadBalancerIdentity,
    ) -> Result<Deletion, ProviderError> {
        let (hands, identity) = (Arc::clone(&self.0), identity.clone());
        Self::to_its_end(async move { hands.delete_load_balancer(&identity).await }).await
    }

    fn changes(&self) -> BoxStream<'static, Changed> {
        watch::changes(Arc::clone(&self.0))
    }
}

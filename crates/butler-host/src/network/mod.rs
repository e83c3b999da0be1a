//! The network of the machines: one bridge, and for each machine a namespace joined to it by a pair of interfaces.
//!
//! Owns: the names of interfaces and namespaces, what has to be changed so that the network is as wished, and the calls of
//! `ip` that change it.
//!
//! Must not: let anything out that the filters of [`crate::firewall`] did not see: they are in place before the bridge is.
//! A default route is inside of a machine, toward the host, and only where its specification names a gateway.

mod inside;
mod machine_plan;
mod names;
mod observe;
mod plan;
mod pods;

use std::{fmt, net::Ipv4Addr};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

pub use names::{InterfaceName, InterfaceNameError};
pub(crate) use names::{machine_interface, machine_namespace};
pub use plan::Refusal;
pub(crate) use pods::{CNI_CONFIG, CNI_DIRECTORY, cni_config};
pub use pods::{PodNetwork, PodNetworkError};

use crate::{
    command::{Failure, Program},
    firewall::{self, Firewall, ForeignDrop},
};

/// Where machines ask the host for images.
pub const REGISTRY_PORT: u16 = 5000;
/// Where machines ask the host for names, if they may go out.
pub const DNS_PORT: u16 = 53;
/// The machine's end of its pair.
pub(crate) const MACHINE_INTERFACE: &str = "eth0";

/// Whether machines reach what is beyond the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Egress {
    /// Each other and the host, and nothing else.
    #[default]
    Off,
    /// Public addresses as well, with the host's address. Private ones never.
    Nat,
}

/// The bridge that joins the machines, and the host's address on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    /// Name of the bridge.
    pub bridge: InterfaceName,
    /// The host's own address with the length of the range: `10.213.7.1/24`.
    pub address: Ipv4Net,
    /// Whether machines reach what is beyond the host.
    #[serde(default)]
    pub egress: Egress,
    /// Ranges of pods and services: the host sends nothing there by its default route.
    #[serde(default)]
    pub guarded: Vec<Ipv4Net>,
}

impl NetworkSpec {
    /// A bridge without egress and without guarded ranges.
    pub fn new(bridge: InterfaceName, address: Ipv4Net) -> Self {
        Self {
            bridge,
            address,
            egress: Egress::default(),
            guarded: Vec::new(),
        }
    }

    /// Whether it is the same bridge, whatever passes.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        self.bridge == other.bridge && self.address == other.address
    }

    /// All addresses of the bridge.
    pub fn range(&self) -> Ipv4Net {
        self.address.trunc()
    }

    /// The host, as the machines see it.
    pub fn host(&self) -> Ipv4Addr {
        self.address.addr()
    }
}

/// A machine's place on the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Name of the network namespace.
    pub(crate) namespace: String,
    /// The host's end of the pair.
    pub(crate) interface: InterfaceName,
    /// Of the machine, with the length of the range.
    pub(crate) address: Ipv4Net,
    /// Where the machine sends what is not for its own range; nowhere if absent.
    pub(crate) gateway: Option<Ipv4Addr>,
}

/// What others have set up on this host and what machines will feel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Packets of machines are dropped by somebody else's filter.
    ForeignDrop(ForeignDrop),
    /// A range of pods or services is somebody else's on this host.
    NotGuarded {
        /// The range.
        range: Ipv4Net,
        /// Their route, in words.
        route: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignDrop(ForeignDrop {
                family,
                table,
                chain,
            }) => write!(
                formatter,
                "the chain {chain} of the table \"{family} {table}\" drops what it does not know; let it accept what the bridge forwards, or machines may not reach each other"
            ),
            Self::NotGuarded { range, route } => write!(
                formatter,
                "the host reaches {range} by the route {route}; what it sends to pods or services there leaves the host: choose another range for them"
            ),
        }
    }
}

/// Performs what the plans say.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    ip: Program,
    firewall: Firewall,
    spec: NetworkSpec,
}

/// Why the network is not as wished.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// It would disturb what is there.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// `ip`, `nft` or `arping` could not be run, or failed.
    #[error(transparent)]
    Program(#[from] Failure),
    /// The answer of `ip` is not understood.
    #[error("could not read what \"ip {arguments}\" printed; iproute2 5 or later is needed")]
    Answer {
        /// As given to `ip`.
        arguments: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

impl Network {
    pub(crate) fn new(ip: Program, nft: Program, spec: NetworkSpec) -> Self {
        Self {
            firewall: Firewall::new(nft, ip.clone()),
            ip,
            spec,
        }
    }

    pub(crate) fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// Refuses a range that others use, and a bridge that is somebody else's.
    pub(crate) async fn check(&self, ours: bool) -> Result<(), NetworkError> {
        let host = observe::host(&self.ip).await?;
        plan::bridge(&self.spec, ours, &host)?;
        plan::guard(&self.spec, &host)?;
        Ok(())
    }

    /// Makes the filters, the bridge and the guards, or what is missing of them. The specification is of this place; it
    /// says what passes.
    pub(crate) async fn ensure_bridge(&self, spec: &NetworkSpec) -> Result<(), NetworkError> {
        let host = observe::host(&self.ip).await?;
        let bridge = plan::bridge(spec, true, &host)?;
        let guards = plan::guard(spec, &host)?;
        self.firewall
            .replace(None, &firewall::host_table(spec))
            .await?;
        self.perform(bridge).await?;
        self.perform(guards).await
    }

    /// What others have set up that machines will feel.
    pub(crate) async fn warnings(&self, spec: &NetworkSpec) -> Result<Vec<Warning>, NetworkError> {
        let host = observe::host(&self.ip).await?;
        let drops = self.firewall.foreign_drops().await?;
        Ok(drops
            .into_iter()
            .map(Warning::ForeignDrop)
            .chain(plan::not_guarded(spec, &host))
            .collect())
    }

    /// Joins a machine to the bridge, or does what is missing.
    pub(crate) async fn attach(&self, endpoint: &Endpoint) -> Result<(), NetworkError> {
        let host = observe::host(&self.ip).await?;
        let namespace = if host.namespaces.contains(&endpoint.namespace) {
            Some(observe::namespace(&self.ip, &endpoint.namespace).await?)
        } else {
            None
        };
        self.perform(plan::attach(
            &self.spec,
            endpoint,
            &host,
            namespace.as_ref(),
        ))
        .await
    }

    /// Removes what [`Self::attach`] made; what is not there is no failure.
    pub(crate) async fn detach(
        &self,
        namespace: &str,
        interface: &InterfaceName,
    ) -> Result<(), NetworkError> {
        let host = observe::host(&self.ip).await?;
        self.perform(plan::detach(namespace, interface, &host))
            .await
    }

    /// Removes the bridge, the guards and the filters, unless something is joined to the bridge that is not ours.
    pub(crate) async fn remove_bridge(&self) -> Result<(), NetworkError> {
        let host = observe::host(&self.ip).await?;
        self.perform(plan::remove_bridge(&self.spec, &host)?)
            .await?;
        self.perform(plan::remove_guards(&self.spec, &host)).await?;
        let table = firewall::host_table_name(&self.spec.bridge);
        Ok(self.firewall.remove(None, &table).await?)
    }

    async fn perform(&self, steps: Vec<plan::Step>) -> Result<(), NetworkError> {
        for step in steps {
            self.ip.run(step.arguments()).await?;
        }
        Ok(())
    }
}

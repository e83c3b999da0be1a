//! The network of the machines: one bridge, and for each machine a namespace joined to it by a pair of interfaces.
//!
//! Owns: the names of interfaces and namespaces, what has to be changed so that the network is as wished, and the calls of
//! `ip` that change it.
//!
//! Must not: let anything out. There is no address translation here and no route that leads away from the bridge; the one
//! default route is inside of a machine, toward the host, and only where its specification names a gateway.

mod names;
mod observe;
mod plan;

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

pub use names::{InterfaceName, InterfaceNameError};
pub(crate) use names::{machine_interface, machine_namespace};
pub use plan::Refusal;

use crate::command::{Failure, Program};

/// The bridge that joins the machines, and the host's address on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    /// Name of the bridge.
    pub bridge: InterfaceName,
    /// The host's own address with the length of the range: `10.213.7.1/24`.
    pub address: Ipv4Net,
}

impl NetworkSpec {
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

/// Performs what the plans say.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    ip: Program,
    spec: NetworkSpec,
}

/// Why the network is not as wished.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// It would disturb what is there.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// `ip` could not be run, or failed.
    #[error(transparent)]
    Ip(#[from] Failure),
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
    pub(crate) fn new(ip: Program, spec: NetworkSpec) -> Self {
        Self { ip, spec }
    }

    pub(crate) fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// Refuses a range that others use, and a bridge that is somebody else's.
    pub(crate) async fn check(&self, ours: bool) -> Result<(), NetworkError> {
        let host = observe::host(&self.ip).await?;
        plan::bridge(&self.spec, ours, &host)?;
        Ok(())
    }

    /// Makes the bridge, or what is missing of it.
    pub(crate) async fn ensure_bridge(&self) -> Result<(), NetworkError> {
        let host = observe::host(&self.ip).await?;
        self.perform(plan::bridge(&self.spec, true, &host)?).await
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

    /// Removes the bridge, unless something is joined to it that is not ours.
    pub(crate) async fn remove_bridge(&self) -> Result<(), NetworkError> {
        let host = observe::host(&self.ip).await?;
        self.perform(plan::remove_bridge(&self.spec, &host)?).await
    }

    async fn perform(&self, steps: Vec<plan::Step>) -> Result<(), NetworkError> {
        for step in steps {
            self.ip.run(step.arguments()).await?;
        }
        Ok(())
    }
}

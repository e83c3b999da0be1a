//! What is asked of a provider, and what it answers. Plain data.

use std::{collections::BTreeMap, net::IpAddr};

use butler_api::{
    butler::{
        load_balancer_request::LoadBalancerTarget,
        machine_request::{ExtraDisk, MachineRole},
        provider_config::ProviderConfig,
    },
    normalize::machine_size::MachineSize,
};

use crate::secrets::{Credentials, UserData};

/// Where things are made, and with which rights.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The provider configuration.
    pub config: ProviderConfig,
    /// The values of its Secret; empty for a provider that needs none.
    pub credentials: Credentials,
}

/// Which machine is meant. The UID alone decides: two requests may follow each other under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineIdentity {
    /// UID of the request. Machines are tagged with it, and it is never used again.
    pub uid: String,
    /// Name of the machine at the provider, and its host name.
    pub machine_name: String,
    /// Id of a machine that was there before the request and belongs to it now. None is made for such a request.
    pub adopts: Option<String>,
}

/// A machine to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineOrder {
    /// Which one.
    pub identity: MachineIdentity,
    /// What it is for.
    pub role: MachineRole,
    /// Processors, memory and root disk.
    pub size: MachineSize,
    /// Disks beside the root disk.
    pub extra_disks: Vec<ExtraDisk>,
    /// The image, if it is not the provider configuration's.
    pub image: Option<String>,
    /// Labels or tags to put on it.
    pub labels: BTreeMap<String, String>,
    /// Its address, if addresses come from pools.
    pub address: Option<IpAddr>,
    /// What it is told at its first boot. May come later, if the provider can deliver it later.
    pub user_data: Option<UserData>,
    /// Network configuration for the first boot.
    pub network_data: Option<String>,
}

/// A machine as the provider sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineObservation {
    /// Its identity at the provider, as the node's `providerID` has it.
    pub provider_id: String,
    /// How far it is.
    pub state: MachineState,
    /// Its addresses, the one to reach it at first.
    pub addresses: Vec<IpAddr>,
    /// Hardware address of the interface with the first address.
    pub mac_address: Option<String>,
    /// Whether its user data was handed over.
    pub has_user_data: bool,
}

/// How far a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// It is being made.
    Making,
    /// It runs.
    Running,
    /// It does not run, and creating it once more completes or starts it.
    Halted,
    /// It is there and cannot run; only deleting helps.
    Broken {
        /// Why.
        message: String,
    },
    /// It is going away.
    Deleting,
}

/// Which load balancer is meant. The UID alone decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancerIdentity {
    /// UID of the request.
    pub uid: String,
    /// The cluster behind it, for names that people see.
    pub cluster_name: String,
}

/// A load balancer as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancerOrder {
    /// Which one.
    pub identity: LoadBalancerIdentity,
    /// Where it listens, and where it forwards to on each target.
    pub port: u16,
    /// Where the health of targets is checked.
    pub health_check_port: u16,
    /// The machines behind it; none at first.
    pub targets: Vec<LoadBalancerTarget>,
    /// Its address, if addresses come from pools.
    pub address: Option<IpAddr>,
}

/// A load balancer as the provider sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancerObservation {
    /// Its identity at the provider.
    pub resource_id: String,
    /// Address or name at which clients reach it; none while it is being made.
    pub endpoint: Option<String>,
    /// How many targets are registered.
    pub registered_targets: u32,
    /// Whether it is as ordered. If not, ensuring it once more brings it in step.
    pub in_step: bool,
}

//! An infrastructure in memory, for tests: it follows the contract, unless it is told to break a rule of it.
//!
//! [`Cloud`] is the infrastructure; it lives on when a process ends. [`FakeProvider`] is a process' view of it.

mod cloud;
mod defect;

use std::{sync::Arc, time::Duration};

use butler_api::butler::provider_config::Provider as ProviderKind;

pub use cloud::{Cloud, FakeLoadBalancer, FakeMachine, PASSWORD};
pub use defect::{Call, Defect};

use crate::{
    error::ProviderError,
    order::{
        Access, LoadBalancerIdentity, LoadBalancerObservation, LoadBalancerOrder, MachineIdentity,
        MachineObservation, MachineOrder,
    },
    provider::{AddressSource, Capabilities, Deletion, Provider},
    secrets::UserData,
};

/// What the fake can do, unless a test wants it otherwise.
pub const CAPABILITIES: Capabilities = Capabilities {
    addresses: AddressSource::Pools,
    user_data_later: true,
    load_balancers: true,
    look_every: Duration::from_mins(15),
};

/// A process' view of the infrastructure in memory.
#[derive(Clone, Debug)]
pub struct FakeProvider {
    cloud: Arc<Cloud>,
    capabilities: Capabilities,
    /// What this process has made, for a fake that finds nothing else.
    remembered: Arc<std::sync::Mutex<std::collections::BTreeSet<String>>>,
}

impl FakeProvider {
    /// A process that sees this infrastructure.
    pub fn new(cloud: Arc<Cloud>, capabilities: Capabilities) -> Self {
        Self {
            cloud,
            capabilities,
            remembered: Arc::default(),
        }
    }

    fn remember(&self, uid: &str) {
        self.remembered
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(uid.to_owned());
    }

    fn remembers(&self, uid: &str) -> bool {
        self.remembered
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .contains(uid)
    }
}

impl Provider for FakeProvider {
    /// Any kind with credentials would do.
    const KIND: ProviderKind = ProviderKind::Nutanix;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn validate(&self, access: &Access) -> Result<(), ProviderError> {
        self.cloud.validate(access)
    }

    async fn observe_machine(
        &self,
        access: &Access,
        identity: &MachineIdentity,
    ) -> Result<Option<MachineObservation>, ProviderError> {
        if self.cloud.has(Defect::ForgetsOnRestart) && !self.remembers(&identity.uid) {
            return Ok(None);
        }
        self.cloud.observe_machine(access, identity)
    }

    async fn create_machine(
        &self,
        access: &Access,
        order: &MachineOrder,
    ) -> Result<(), ProviderError> {
        self.remember(&order.identity.uid);
        if self.cloud.has(Defect::RacesWithItself) {
            // Looks, lets others look, and makes.
            let found = self.cloud.observe_machine(access, &order.identity)?;
            tokio::task::yield_now().await;
            return match found {
                Some(_) => Ok(()),
                None => self.cloud.make_unchecked(order),
            };
        }
        self.cloud.create_machine(access, order)
    }

    async fn deliver_user_data(
        &self,
        access: &Access,
        identity: &MachineIdentity,
        user_data: &UserData,
    ) -> Result<(), ProviderError> {
        self.cloud.deliver_user_data(access, identity, user_data)
    }

    async fn delete_machine(
        &self,
        access: &Access,
        identity: &MachineIdentity,
    ) -> Result<Deletion, ProviderError> {
        self.cloud.delete_machine(access, identity)
    }

    async fn observe_load_balancer(
        &self,
        access: &Access,
        order: &LoadBalancerOrder,
    ) -> Result<Option<LoadBalancerObservation>, ProviderError> {
        self.cloud.observe_load_balancer(access, order)
    }

    async fn ensure_load_balancer(
        &self,
        access: &Access,
        order: &LoadBalancerOrder,
    ) -> Result<(), ProviderError> {
        self.cloud.ensure_load_balancer(access, order)
    }

    async fn delete_load_balancer(
        &self,
        access: &Access,
        identity: &LoadBalancerIdentity,
    ) -> Result<Deletion, ProviderError> {
        self.cloud.delete_load_balancer(access, identity)
    }
}

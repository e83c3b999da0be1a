//! The contract of a provider.

use std::{future::Future, time::Duration};

use butler_api::butler::provider_config::Provider as ProviderKind;
use futures::{StreamExt as _, stream::BoxStream};

use crate::{
    error::ProviderError,
    order::{
        Access, LoadBalancerIdentity, LoadBalancerObservation, LoadBalancerOrder, MachineIdentity,
        MachineObservation, MachineOrder,
    },
    secrets::UserData,
};

/// Where the addresses of machines and load balancers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSource {
    /// The infrastructure gives them, as DHCP does.
    Infrastructure,
    /// Butler takes them from the pools of the provider configuration and names them in the order.
    Pools,
}

/// What a provider can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Where addresses come from.
    pub addresses: AddressSource,
    /// Whether user data can be handed to a machine that was made without it.
    pub user_data_later: bool,
    /// Whether it has load balancers.
    pub load_balancers: bool,
    /// How often to look at what is as it should be. Long, if [`Provider::changes`] tells earlier.
    pub look_every: Duration,
}

/// How far a deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Nothing is left.
    Gone,
    /// It goes on by itself; ask again.
    UnderWay,
}

/// What changed at the infrastructure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The machine of the request with this UID.
    Machine(String),
    /// The load balancer of the request with this UID.
    LoadBalancer(String),
}

/// An infrastructure on which machines can be made.
///
/// Every call may be cut off and made again by another process that remembers nothing, and two may run at once. So:
///
/// - Things are found by the UID of their request, with which they are tagged when they are made, not afterwards.
/// - Making what is there changes nothing, or completes it. Two calls at once make one.
/// - Deleting what is not there, or never was, is well. Once [`Deletion::Gone`] was answered for a UID, a call that makes
///   something for it, even one that was sent before, makes nothing: UIDs do not come again.
/// - Calls do not wait for machines to boot: what goes on by itself is seen at the next look.
///
/// Whether a provider keeps to this is shown by [`crate::conformance`].
pub trait Provider: Send + Sync + 'static {
    /// Which `ProviderConfig` objects it serves. Requests that name others are not touched.
    const KIND: ProviderKind;

    /// What it can do. Does not change while the process runs.
    fn capabilities(&self) -> Capabilities;

    /// Whether the settings and credentials can be used. Changes nothing.
    fn validate(&self, access: &Access) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Looks for a machine by its UID, or by the id that it adopts.
    fn observe_machine(
        &self,
        access: &Access,
        identity: &MachineIdentity,
    ) -> impl Future<Output = Result<Option<MachineObservation>, ProviderError>> + Send;

    /// Makes a machine and starts it; one that is there is completed, or left alone.
    fn create_machine(
        &self,
        access: &Access,
        order: &MachineOrder,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Hands user data to a machine that was made without. Only asked for if [`Capabilities::user_data_later`].
    fn deliver_user_data(
        &self,
        access: &Access,
        identity: &MachineIdentity,
        user_data: &UserData,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Deletes a machine and all that was made for it.
    fn delete_machine(
        &self,
        access: &Access,
        identity: &MachineIdentity,
    ) -> impl Future<Output = Result<Deletion, ProviderError>> + Send;

    /// Compares a load balancer with what it should be. Only asked for if [`Capabilities::load_balancers`], as all that
    /// follow.
    fn observe_load_balancer(
        &self,
        access: &Access,
        order: &LoadBalancerOrder,
    ) -> impl Future<Output = Result<Option<LoadBalancerObservation>, ProviderError>> + Send;

    /// Makes a load balancer, or brings it in step. It gets its endpoint also without any target.
    fn ensure_load_balancer(
        &self,
        access: &Access,
        order: &LoadBalancerOrder,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Deletes a load balancer and all that was made for it.
    fn delete_load_balancer(
        &self,
        access: &Access,
        identity: &LoadBalancerIdentity,
    ) -> impl Future<Output = Result<Deletion, ProviderError>> + Send;

    /// What changes by itself, told as it happens. Nothing, for an infrastructure that has to be asked.
    fn changes(&self) -> BoxStream<'static, Changed> {
        futures::stream::pending().boxed()
    }
}

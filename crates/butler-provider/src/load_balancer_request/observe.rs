//! What the plan for a load balancer depends on.

use butler_api::butler::load_balancer_request::LoadBalancerRequest;
use butler_runtime::{failure::Failure, reconciler::Context};

use super::{LoadBalancerRequestReconciler, configuration_key, order, petition};
use crate::{
    access::pools,
    allocation::{self, Allocation},
    attempts::{Attempt, Unreachable},
    error::ProviderError,
    order::{LoadBalancerIdentity, LoadBalancerObservation, LoadBalancerOrder},
    provider::{Capabilities, Provider},
};

/// The world around a request for a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// What the provider can do.
    pub capabilities: Capabilities,
    /// The load balancer; or why it could not be looked for.
    pub load_balancer: Result<Option<LoadBalancerObservation>, Obstacle>,
    /// Namespace of the provider configuration, and of its pools.
    pub namespace: Option<String>,
    /// The pools that addresses come from, in the order in which they are asked.
    pub pools: Vec<String>,
    /// The allocations made for it.
    pub allocations: Vec<Allocation>,
    /// Generation of the provider configuration.
    pub configuration: Option<i64>,
    /// Versions of the Secrets it depends on.
    pub secrets: Vec<String>,
    /// The last attempt to change something at the provider.
    pub attempt: Option<Attempt>,
}

/// Why a load balancer could not be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The way to the provider is closed.
    Closed(ProviderError),
    /// The provider did not answer.
    Unreachable(Unreachable),
}

pub(super) async fn observe<P: Provider>(
    reconciler: &LoadBalancerRequestReconciler<P>,
    request: &LoadBalancerRequest,
    context: &Context,
) -> Result<World, Failure> {
    let identity = super::identity(request);
    let configuration = configuration_key(request);
    let store = context.cache::<Allocation>();
    let mut world = World {
        capabilities: reconciler.provider.capabilities(),
        load_balancer: Ok(None),
        namespace: configuration.namespace.clone(),
        pools: Vec::new(),
        allocations: allocation::of_owner(&store, &identity.uid),
        configuration: None,
        secrets: Vec::new(),
        attempt: reconciler.attempts.last(&identity.uid),
    };
    let petition = petition(request, &configuration);
    let granted = match reconciler.doors.open::<P>(&petition, context).await? {
        Ok(granted) => granted,
        Err(error) => {
            world.load_balancer = Err(Obstacle::Closed(error));
            return Ok(world);
        }
    };
    world.pools = pools(&granted.access.config);
    world.configuration = granted.access.config.metadata.generation;
    world.secrets.extend(granted.credentials_version.clone());
    if !world.capabilities.load_balancers {
        return Ok(world);
    }
    let granted_addresses = world.allocations.iter().filter(|found| !found.deleting);
    let address = granted_addresses.filter_map(|found| found.address).min();
    let asked = order(request, address).unwrap_or_else(|| unordered(identity.clone()));
    let provider = &reconciler.provider;
    let looked = provider
        .observe_load_balancer(&granted.access, &asked)
        .await;
    let looked = reconciler.attempts.look(&identity.uid, looked);
    if let Ok(Some(seen)) = &looked
        && seen.in_step
    {
        reconciler.attempts.settle(&identity.uid);
        world.attempt = None;
    }
    world.load_balancer = looked.map_err(Obstacle::Unreachable);
    Ok(world)
}

/// To look for what was made by a request that breaks a rule now.
fn unordered(identity: LoadBalancerIdentity) -> LoadBalancerOrder {
    LoadBalancerOrder {
        identity,
        port: 0,
        health_check_port: 0,
        targets: Vec::new(),
        address: None,
    }
}

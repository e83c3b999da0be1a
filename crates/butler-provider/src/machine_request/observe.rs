//! What the plan for a machine depends on.

use butler_api::butler::machine_request::MachineRequest;
use butler_runtime::{cache::Metadata, failure::Failure, object::ObjectKey, reconciler::Context};
use k8s_openapi::api::core::v1::Secret;

use super::{MachineRequestReconciler, configuration_key, identity, user_data_key};
use crate::{
    access::{Petition, pools},
    allocation::{self, Allocation},
    attempts::{Attempt, Unreachable},
    error::ProviderError,
    order::{MachineObservation, MachineState},
    provider::{Capabilities, Provider},
};

/// The world around a request for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// What the provider can do.
    pub capabilities: Capabilities,
    /// The machine; or why it could not be looked for.
    pub machine: Result<Option<MachineObservation>, Obstacle>,
    /// Where its user data is.
    pub user_data: UserDataSight,
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

/// Why a machine could not be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The way to the provider is closed.
    Closed(ProviderError),
    /// The provider did not answer.
    Unreachable(Unreachable),
}

/// Where the user data of a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserDataSight {
    /// The machine is to get none.
    NotWanted,
    /// It is there.
    Present,
    /// Its Secret does not exist yet.
    Missing(ObjectKey),
}

pub(super) async fn observe<P: Provider>(
    reconciler: &MachineRequestReconciler<P>,
    request: &MachineRequest,
    context: &Context,
) -> Result<World, Failure> {
    let identity = identity(request);
    let (user_data, user_data_version) = user_data(request, context);
    let configuration = configuration_key(request).unwrap_or_else(|| ObjectKey::cluster(""));
    let store = context.cache::<Allocation>();
    let mut world = World {
        capabilities: reconciler.provider.capabilities(),
        machine: Ok(None),
        user_data,
        namespace: configuration.namespace.clone(),
        pools: Vec::new(),
        allocations: allocation::of_owner(&store, &identity.uid),
        configuration: None,
        secrets: user_data_version.into_iter().collect(),
        attempt: reconciler.attempts.last(&identity.uid),
    };
    let petition = Petition {
        request: ObjectKey::of(request),
        configuration: &configuration,
        deleting: request.metadata.deletion_timestamp.is_some(),
    };
    let granted = match reconciler.doors.open::<P>(&petition, context).await? {
        Ok(granted) => granted,
        Err(error) => {
            world.machine = Err(Obstacle::Closed(error));
            return Ok(world);
        }
    };
    world.pools = pools(&granted.access.config);
    world.configuration = granted.access.config.metadata.generation;
    world.secrets.extend(granted.credentials_version.clone());
    let looked = reconciler
        .provider
        .observe_machine(&granted.access, &identity)
        .await;
    let looked = reconciler.attempts.look(&identity.uid, looked);
    if let Ok(Some(machine)) = &looked
        && machine.state == MachineState::Running
        && (machine.has_user_data || world.user_data != UserDataSight::Present)
    {
        // All is done: the next thing that has to be tried is tried afresh.
        reconciler.attempts.settle(&identity.uid);
        world.attempt = None;
    }
    world.machine = looked.map_err(Obstacle::Unreachable);
    Ok(world)
}

fn user_data(request: &MachineRequest, context: &Context) -> (UserDataSight, Option<String>) {
    if request.spec.user_data.is_some() {
        return (UserDataSight::Present, None);
    }
    let Some((key, _)) = user_data_key(request) else {
        return (UserDataSight::NotWanted, None);
    };
    match context.cache::<Metadata<Secret>>().get(&key) {
        Some(secret) => {
            let version = secret.facts.resource_version.clone();
            (UserDataSight::Present, Some(version))
        }
        None => (UserDataSight::Missing(key), None),
    }
}

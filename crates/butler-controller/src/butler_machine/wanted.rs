//! What a machine needs before it is asked for.

use butler_api::{cluster_api::butler_machine::ButlerMachine, conditions::reasons};
use butler_runtime::{conditions::Finding, object::ObjectKey};

use super::{
    Effect, World,
    observe::{MachineSight, ProviderSight, UserDataSight},
    request::request,
    user_data::secret,
};

/// The next step towards a machine, or what it waits for, in the order in which it is overcome.
pub(super) fn wanted(machine: &ButlerMachine, world: &World) -> Result<Effect, Finding> {
    let waiting = |message| Finding::new(false, reasons::WAITING_FOR_DEPENDENCIES, message);
    let owner = match &world.machine {
        MachineSight::Unset => {
            let message = "waiting for a Machine that names it in spec.infrastructureRef";
            return Err(waiting(message.to_owned()));
        }
        MachineSight::Missing(owner) => {
            return Err(waiting(format!("waiting for its Machine {owner}")));
        }
        MachineSight::Found(owner) if owner.deleting => {
            return Err(waiting(
                "its Machine is being deleted; no machine is made for it".to_owned(),
            ));
        }
        MachineSight::Found(owner) => owner,
    };
    let cluster = &owner.cluster;
    match world.infrastructure_provisioned {
        None => return Err(waiting(format!("waiting for its Cluster {cluster}"))),
        Some(false) => {
            let message = format!("waiting for the infrastructure of its Cluster {cluster}");
            return Err(waiting(message));
        }
        Some(true) => {}
    }
    let Some(bootstrap_data) = &owner.bootstrap_data else {
        return Err(waiting(
            "waiting for the bootstrap data of its Machine".to_owned(),
        ));
    };
    let provider = match &world.provider {
        ProviderSight::Unnamed => {
            return Err(waiting(format!(
                "spec.providerRef: waiting for the ButlerCluster of the Cluster {cluster}, whose provider it comes from"
            )));
        }
        ProviderSight::Missing(provider) => return Err(provider_missing(provider)),
        ProviderSight::Found { reference, .. } => reference,
    };
    let user_data = match machine.spec.shape.user_data_format {
        Some(_) => secret::key(machine).name,
        None => bootstrap_data.clone(),
    };
    let request = request(machine, owner, &user_data, provider)?;
    if let Some(obstacle) = user_data_obstacle(machine, world) {
        return Err(obstacle);
    }
    Ok(user_data_effect(world).unwrap_or_else(|| Effect::Request(Box::new(request))))
}

/// What keeps the user data of a machine from being written.
pub(super) fn user_data_obstacle(machine: &ButlerMachine, world: &World) -> Option<Finding> {
    match &world.user_data {
        UserDataSight::NotWanted | UserDataSight::Written | UserDataSight::Writable => None,
        UserDataSight::Foreign => {
            let key = secret::key(machine);
            let message = format!(
                "a Secret {key} exists and is not this machine's; delete it, or this machine"
            );
            Some(Finding::new(false, reasons::NAME_TAKEN, message))
        }
        UserDataSight::Obstructed(obstacle) => Some(obstacle.clone()),
    }
}

/// Writes the user data, if it is to be written and can be.
pub(super) fn user_data_effect(world: &World) -> Option<Effect> {
    let (UserDataSight::Writable, MachineSight::Found(owner)) = (&world.user_data, &world.machine)
    else {
        return None;
    };
    let bootstrap_data = owner.bootstrap_data.clone()?;
    Some(Effect::WriteUserData {
        bootstrap_data,
        cluster: owner.cluster.clone(),
    })
}

pub(super) fn provider_missing(provider: &ObjectKey) -> Finding {
    let message = format!(
        "spec.providerRef: the ProviderConfig {provider} does not exist; create it or correct the reference"
    );
    Finding::new(false, reasons::PROVIDER_CONFIG_NOT_FOUND, message)
}

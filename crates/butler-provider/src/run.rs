//! Wires a provider's controllers into a process.

use std::{future::Future, sync::Arc};

use butler_api::keys::field_managers;
use butler_runtime::{controller::ControllerSettings, manager::Manager, reconciler::Bell};
use futures::StreamExt as _;

use crate::{
    load_balancer_request::LoadBalancerRequestReconciler,
    machine_request::MachineRequestReconciler,
    provider::{Changed, Provider},
};

/// The component's name: its Deployment, service account, field manager and user agent.
pub fn component<P: Provider>() -> String {
    format!("{}{}", field_managers::PROVIDER_PREFIX, P::KIND.as_str())
}

/// How many requests are worked on at the same time: most of a pass is waiting for the infrastructure.
const WORKERS: usize = 16;

/// Adds the controllers of a provider to a process. What it gives back must run beside the process: it wakes the controllers
/// when the provider tells of a change.
pub fn add<P: Provider>(
    manager: &mut Manager,
    provider: &Arc<P>,
) -> impl Future<Output = ()> + Send + use<P> {
    let machines = Bell::default();
    let load_balancers = Bell::default();
    let settings = ControllerSettings {
        workers: WORKERS,
        ..ControllerSettings::default()
    };
    manager.add(
        MachineRequestReconciler::new(Arc::clone(provider), machines.clone()),
        settings,
    );
    manager.add(
        LoadBalancerRequestReconciler::new(Arc::clone(provider), load_balancers.clone()),
        settings,
    );
    let mut changes = provider.changes();
    async move {
        while let Some(changed) = changes.next().await {
            match changed {
                Changed::Machine(uid) => machines.ring(&uid),
                Changed::LoadBalancer(uid) => load_balancers.ring(&uid),
            }
        }
    }
}

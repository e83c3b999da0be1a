//! The network of one tenant: connects, keeps it, and says on its `ButlerCluster` how many Services wait.

use std::{sync::Arc, time::Duration};

use butler_api::{
    butler::machine_request::MachineRequest,
    cluster_api::butler_cluster::ButlerCluster,
    keys::{annotations, secret_keys},
};
use butler_host::host::Host;
use butler_local::{Allocations, Cluster, ClusterNetwork, ClusterNetworkSettings, Tenant, Waiting};
use butler_runtime::{
    api_server::{ApiServer as _, Cause},
    backoff::Backoff,
    cache::{Store, Whole},
    client::Component,
    failure::Class,
    kube_api_server::KubeApiServer,
    object::{Kind, ObjectKey},
    remote::{self, RemoteKubeconfig},
    shutdown::Shutdown,
    task,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;

use super::{
    facts::{ClusterFacts, Told},
    plan::Wanted,
};

const BACKOFF: Backoff = Backoff {
    shortest: Duration::from_millis(500),
    longest: Duration::from_secs(30),
};

/// What the networks of all tenants share.
#[derive(Clone)]
pub(super) struct Ground {
    pub(super) host: Arc<Host>,
    pub(super) management: Client,
    pub(super) component: Component,
    pub(super) allocations: Allocations,
    pub(super) requests: Arc<Store<Whole<MachineRequest>>>,
    pub(super) clusters: Arc<Store<ClusterFacts>>,
}

/// Keeps the network of a tenant until the shutdown. Whatever goes wrong in it ends it for a while, and for this tenant alone.
pub(super) async fn keep(ground: Ground, cluster: ObjectKey, wanted: Wanted, shutdown: Shutdown) {
    let end = shutdown.token();
    let connecting = connected(&ground, &wanted);
    let Some(client) = end.run_until_cancelled(connecting).await else {
        return;
    };
    let mut failures = 0;
    loop {
        let network = run(&ground, &cluster, &wanted, client.clone(), &shutdown);
        // A task of its own: a panic in it is seen, and does not reach us. At the shutdown it ends by itself.
        if task::spawn("tenant-network", network).await.is_ok() {
            return;
        }
        failures += 1;
        let pause = tokio::time::sleep(BACKOFF.after(failures, Class::Retry, 1.0));
        if end.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

/// A client for the cluster. What cannot be used is not tried again: the next version of the Secret begins anew.
async fn connected(ground: &Ground, wanted: &Wanted) -> Client {
    let mut failures = 0;
    loop {
        match read(ground, &wanted.secret).await {
            Ok(kubeconfig) => match remote::connect(kubeconfig, &ground.component).await {
                Ok(client) => return client,
                Err(error) => {
                    tracing::warn!(tenant = %wanted.tenant, secret = %wanted.secret, error = %words(&error), "the kubeconfig of a tenant cannot be used; its network waits for another one");
                    std::future::pending::<()>().await;
                }
            },
            Err(error) => {
                tracing::warn!(tenant = %wanted.tenant, secret = %wanted.secret, %error, "could not read the kubeconfig of a tenant; it is tried again");
            }
        }
        failures += 1;
        tokio::time::sleep(BACKOFF.after(failures, Class::Retry, 1.0)).await;
    }
}

async fn read(ground: &Ground, secret: &ObjectKey) -> Result<RemoteKubeconfig, kube::Error> {
    let namespace = secret.namespace.as_deref().unwrap_or_default();
    let secrets = Api::<Secret>::namespaced(ground.management.clone(), namespace);
    let mut data = secrets.get(&secret.name).await?.data.unwrap_or_default();
    // Without a value it is no kubeconfig, and that is told like any other that cannot be used.
    let value = data.remove(secret_keys::VALUE);
    Ok(value.map_or_else(Vec::new, |value| value.0).into())
}

/// An error with all that led to it.
fn words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| {
        format!("{words}: {cause}")
    })
}

/// Runs the network, and beside it the report about it.
fn run(
    ground: &Ground,
    cluster: &ObjectKey,
    wanted: &Wanted,
    client: Client,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send + use<> {
    let waiting = watch::Sender::new(None);
    let report = report(ground.clone(), cluster.clone(), waiting.subscribe());
    let requests = Arc::clone(&ground.requests);
    let namespace = cluster.namespace.clone();
    let network = ClusterNetwork::run(
        ClusterNetworkSettings {
            cluster: Cluster::Tenant(Tenant {
                namespace: wanted.tenant.namespace.clone().unwrap_or_default(),
                name: wanted.tenant.name.clone(),
                // The id of a machine is the UID of its request.
                machines: Arc::new(move |id| {
                    let request = requests.key_of(id);
                    request.is_some_and(|request| request.namespace == namespace)
                }),
                grows: wanted.grows,
                waiting,
            }),
            cluster_client: client,
            management_client: ground.management.clone(),
            allocations: ground.allocations.clone(),
            hands: Arc::clone(&ground.host),
            manager: ground.component.name().to_owned(),
        },
        shutdown.clone(),
    );
    let tenant = wanted.tenant.clone();
    async move {
        tracing::info!(%tenant, "the network of a tenant is kept");
        tokio::select! {
            () = network => {}
            () = report => {}
        }
    }
}

/// Writes how many Services wait whenever that changes.
async fn report(ground: Ground, cluster: ObjectKey, mut waiting: watch::Receiver<Option<Waiting>>) {
    let api = KubeApiServer::new(ground.management.clone());
    let mut failures = 0;
    loop {
        let known = *waiting.borrow_and_update();
        let current = ground.clusters.get(&cluster);
        let differs = |told: &Told| {
            current
                .as_ref()
                .is_some_and(|current| current.value.waiting != *told)
        };
        if let Some(told) = known.map(told).filter(differs) {
            let patch = json!({ "metadata": { "annotations": {
                annotations::WAITING_LOAD_BALANCERS: told.count,
                annotations::WAITING_LOAD_BALANCERS_SINCE: told.since,
            } } });
            let kind = Kind::of::<ButlerCluster>();
            match api.merge(&kind, &cluster, patch).await {
                Ok(_) => failures = 0,
                Err(error) if error.cause == Cause::NotFound => {}
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%cluster, %error, "could not say how many Services wait for an address; it is tried again");
                    tokio::time::sleep(BACKOFF.after(failures, Class::Retry, 1.0)).await;
                    continue;
                }
            }
        }
        if waiting.changed().await.is_err() {
            // The network has ended, and we with it.
            return std::future::pending().await;
        }
    }
}

/// What is written about Services that wait; nothing if none does.
fn told(waiting: Waiting) -> Told {
    if waiting.count == 0 {
        return Told::default();
    }
    Told {
        count: Some(waiting.count.to_string()),
        since: waiting.since.map(|since| since.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn who_waits_is_told_and_nobody_is_not() {
        assert_eq!(told(Waiting::default()), Told::default());
        let waiting = Waiting {
            count: 2,
            since: Some(Timestamp::from_second(1_767_225_600).unwrap()),
        };
        let expected = Told {
            count: Some("2".to_owned()),
            since: Some("2026-01-01T00:00:00Z".to_owned()),
        };
        assert_eq!(told(waiting), expected);
    }
}

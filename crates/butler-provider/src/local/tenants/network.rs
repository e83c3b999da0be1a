//! The network of one tenant: connects, keeps it, and beside it the report of how many Services wait.

use std::{sync::Arc, time::Duration};

use butler_api::{butler::machine_request::MachineRequest, keys::secret_keys};
use butler_host::host::Host;
use butler_local::{Allocations, Cluster, ClusterNetwork, ClusterNetworkSettings, Tenant};
use butler_runtime::{
    backoff::Backoff,
    cache::{Store, Whole},
    client::Component,
    failure::Class,
    object::ObjectKey,
    remote::{self, RemoteKubeconfig},
    shutdown::Shutdown,
    task,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::sync::watch;

use super::{
    plan::Wanted,
    report::{Clusters, report},
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
    pub(super) clusters: Clusters,
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
    let report = report(
        ground.management.clone(),
        ground.clusters.clone(),
        cluster.clone(),
        waiting.subscribe(),
    );
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
                pods: wanted.pods,
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

//! The process `butler provider local`: the hands on the machines of a host, and all that machines need from it.
//!
//! Owns: what runs beside the controllers of requests: the mirror of images, the answers to names where machines may reach
//! out, the network of the management cluster itself, and those of tenant clusters on machines of this host.

use std::{path::PathBuf, sync::Arc};

use butler_api::keys::names;
use butler_host::{
    dns::{self, DnsError, Forwarder, RESOLVER_FILE},
    host::{Error as HostError, Host},
    images::{Library, LibraryError, Mirror, MirrorError},
    network::Egress,
};
use butler_local::{Allocations, Cluster, ClusterNetwork, ClusterNetworkSettings};
use butler_runtime::{
    bind_address::BindAddress,
    client::{self, ClientError, Component},
    leader::LeaseName,
    manager::{Manager, ManagerError, ManagerOptions},
    shutdown::Shutdown,
};
use tokio_util::sync::CancellationToken;

use super::{
    LocalProvider, LocalSettings,
    configuration::{ConfigurationError, LocalConfiguration},
    tenants::Tenants,
};
use crate::run;

/// Flags of `butler provider local`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The kubeconfig of the management cluster; without it KUBECONFIG, the service account or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The installation on this host, as "butleradm up" wrote it down
    #[arg(long, value_name = "FILE")]
    pub configuration: PathBuf,
    /// Where /metrics is served
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    pub metrics_bind_address: BindAddress,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    pub health_probe_bind_address: BindAddress,
    /// Work only while holding the lease, so that another host can stand by
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub leader_elect: bool,
    /// The namespace of the lease
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", default_value = names::SYSTEM_NAMESPACE)]
    pub leader_election_namespace: String,
}

/// Why the process ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It does not know what it is to do.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// There is no way to the management cluster.
    #[error("could not connect to the management cluster")]
    Client(#[from] ClientError),
    /// The host does not allow what is needed.
    #[error("could not work on the machines of this host")]
    Host(#[from] HostError),
    /// Images cannot be found.
    #[error("could not open the images")]
    Library(#[from] LibraryError),
    /// Images cannot be served.
    #[error("could not serve images to machines")]
    Mirror(#[from] MirrorError),
    /// Names cannot be answered.
    #[error("could not answer machines that ask for names")]
    Names(#[from] DnsError),
    /// It ended while running.
    #[error("the controllers stopped")]
    Manager(#[from] ManagerError),
}

/// Runs until the shutdown. Machines go on without the process, and the next one finds them.
pub async fn run(arguments: Arguments, version: &str, shutdown: Shutdown) -> Result<(), RunError> {
    client::install_crypto();
    let configuration = LocalConfiguration::read(&arguments.configuration)?;
    let host = Host::open(configuration.host())?;
    host.up().await?;
    // Images first: machines that start ask for them.
    let stop = shutdown.token();
    let mirror = mirror(&configuration, stop.clone()).await?;
    let names = names(&configuration, stop.clone()).await?;
    for (machine, error) in host.recover().await? {
        tracing::warn!(%machine, %error, "a machine could not be started");
    }

    let component = Component::new(&run::component::<LocalProvider>(), version)?;
    let access = client::configuration(arguments.kubeconfig.as_deref()).await?;
    let client = client::client(access, &component)?;
    let provider = Arc::new(LocalProvider::new(
        host.clone(),
        LocalSettings::of(&configuration, &host),
    ));
    let allocations = Allocations::default();
    let network = ClusterNetwork::run(
        ClusterNetworkSettings {
            cluster: Cluster::Management {
                pool: configuration.pool(),
            },
            cluster_client: client.clone(),
            management_client: client.clone(),
            allocations: allocations.clone(),
            hands: Arc::new(host.clone()),
            manager: component.name().to_owned(),
        },
        shutdown.clone(),
    );
    let mut manager = Manager::new(client.clone(), component.clone());
    let changes = run::add(&mut manager, &provider);
    let tenants = Tenants::new(
        manager.caches(),
        host,
        client.clone(),
        component,
        allocations.clone(),
    );
    let tenants = tenants.run(shutdown.clone());
    let stop = shutdown.token();
    let allocations = async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = allocations.keep(client) => {}
        }
    };
    let lease = LeaseName {
        namespace: arguments.leader_election_namespace,
        name: names::LOCAL_PROVIDER_LEASE.to_owned(),
    };
    let options = ManagerOptions {
        lease: arguments.leader_elect.then_some(lease),
        health: arguments.health_probe_bind_address.address(),
        metrics: arguments.metrics_bind_address.address(),
        ..ManagerOptions::default()
    };
    tokio::select! {
        outcome = manager.run(options, shutdown) => outcome.map_err(RunError::from),
        outcome = mirror => outcome,
        outcome = names => outcome,
        () = async { tokio::join!(network, tenants, allocations, changes); } => Ok(()),
    }
}

/// Serves images on the bridge.
async fn mirror(
    configuration: &LocalConfiguration,
    stop: CancellationToken,
) -> Result<impl Future<Output = Result<(), RunError>> + use<>, RunError> {
    let library = Arc::new(Library::open(&configuration.images)?);
    let bound = match configuration.node.mirror {
        Some(address) => Some(Mirror::bind(address, library).await?),
        None => None,
    };
    Ok(async move {
        match bound {
            Some(mirror) => mirror.serve(stop).await.map_err(RunError::from),
            None => std::future::pending().await,
        }
    })
}

/// Answers names on the bridge, where machines may reach out.
async fn names(
    configuration: &LocalConfiguration,
    stop: CancellationToken,
) -> Result<impl Future<Output = Result<(), RunError>> + use<>, RunError> {
    let bound = match configuration.network.egress {
        Egress::Off => None,
        Egress::Nat => {
            let text = tokio::fs::read_to_string(RESOLVER_FILE)
                .await
                .unwrap_or_default();
            Some(Forwarder::bind(configuration.name_server(), dns::resolvers(&text)).await?)
        }
    };
    Ok(async move {
        match bound {
            Some(forwarder) => forwarder.serve(stop).await.map_err(RunError::from),
            None => std::future::pending().await,
        }
    })
}

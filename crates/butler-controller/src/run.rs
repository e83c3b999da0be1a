//! The process `butler controller`: its flags, and the controllers wired together.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use butler_api::keys::names;
use butler_runtime::{
    admission::Reach,
    bind_address::BindAddress,
    client::{self, ClientError, Component},
    controller::ControllerSettings,
    leader::LeaseName,
    manager::{Manager, ManagerError, ManagerOptions, WebhookOptions},
    shutdown::Shutdown,
};

use crate::{
    admission,
    butler_cluster::ButlerClusterReconciler,
    butler_config::ButlerConfigReconciler,
    butler_machine::ButlerMachineReconciler,
    ip_allocation::IPAllocationReconciler,
    kamaji::{KamajiKubeconfigReconciler, KamajiStatusReconciler},
    metrics::{self, PassTimes, Processed},
    network_pool::NetworkPoolReconciler,
    provider_config::ProviderConfigReconciler,
    tenant_cluster::TenantClusterReconciler,
};

/// The component's name: its Deployment, service account, field manager and user agent.
pub const COMPONENT: &str = "butler-controller";

/// Flags of `butler controller`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The kubeconfig of the management cluster; without it KUBECONFIG, the service account or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Where /metrics is served
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: BindAddress,
    /// Answer /metrics only to bearer tokens of those who may get it in the management cluster
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub metrics_require_authorization: bool,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    pub health_probe_bind_address: BindAddress,
    /// Work only while holding the lease, so that several replicas can run
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub leader_elect: bool,
    /// The namespace of the lease and of the webhooks' certificates
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", default_value = names::SYSTEM_NAMESPACE)]
    pub leader_election_namespace: String,
    /// How long the owner of addresses must be gone before they are collected, such as 10m or 1h30m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub ip_orphan_grace_period: Duration,
    /// How many tenant clusters are worked on at once
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_concurrent_tc_reconciles: u16,
    /// Translate what Kamaji knows of its control planes for Cluster API
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_kamaji_controllers: bool,
    /// Review manifests before the API server takes them
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_webhooks: bool,
    /// The port webhooks are served on
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    pub webhook_port: u16,
    /// How the API server reaches the webhooks of a process outside of the cluster; else by the Service
    /// butler-controller-webhook
    #[arg(long, value_name = "URL")]
    pub webhook_url: Option<String>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>();
    let parsed = parsed.ok().and_then(|duration| duration.try_into().ok());
    parsed.ok_or_else(|| "write a duration such as 30s, 10m or 1h30m".to_owned())
}

/// The Service in front of the webhooks, in the namespace of the component.
const WEBHOOK_SERVICE: &str = "butler-controller-webhook";
/// The port of that Service.
const WEBHOOK_SERVICE_PORT: u16 = 443;

impl Arguments {
    fn webhooks(&self) -> Option<WebhookOptions> {
        let namespace = self.leader_election_namespace.clone();
        let service = || Reach::Service {
            namespace: namespace.clone(),
            name: WEBHOOK_SERVICE.to_owned(),
            port: WEBHOOK_SERVICE_PORT,
        };
        self.enable_webhooks.then(|| WebhookOptions {
            listen: SocketAddr::from(([0, 0, 0, 0], self.webhook_port)),
            reach: self.webhook_url.clone().map_or_else(service, Reach::Url),
            namespace: namespace.clone(),
        })
    }
}

/// Why the process ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no way to the management cluster.
    #[error("could not connect to the management cluster")]
    Client(#[from] ClientError),
    /// It ended while running.
    #[error("the controllers stopped")]
    Manager(#[from] ManagerError),
}

/// Runs the controllers until the shutdown.
pub async fn run(arguments: Arguments, version: &str, shutdown: Shutdown) -> Result<(), RunError> {
    client::install_crypto();
    let component = Component::new(COMPONENT, version)?;
    let configuration = client::configuration(arguments.kubeconfig.as_deref()).await?;
    let client = client::client(configuration, &component)?;

    let reviewers = client.clone();
    let mut manager = Manager::new(client, component);
    manager.add(
        ButlerConfigReconciler,
        ControllerSettings {
            workers: 1,
            ..ControllerSettings::default()
        },
    );
    manager.add(
        ProviderConfigReconciler::default(),
        ControllerSettings::default(),
    );
    let processed = Arc::<Processed>::default();
    // One pass at a time over one pool is enough: a pass grants all that waits.
    manager.add(
        NetworkPoolReconciler::new(&processed),
        ControllerSettings::default(),
    );
    manager.add(
        IPAllocationReconciler::new(&processed, arguments.ip_orphan_grace_period),
        ControllerSettings::default(),
    );
    manager.add(ButlerClusterReconciler, ControllerSettings::default());
    manager.add(ButlerMachineReconciler, ControllerSettings::default());
    let pass_times = Arc::<PassTimes>::default();
    manager.add(
        TenantClusterReconciler::new(&pass_times),
        ControllerSettings {
            workers: usize::from(arguments.max_concurrent_tc_reconciles),
            ..ControllerSettings::default()
        },
    );
    if arguments.enable_kamaji_controllers {
        manager.add(KamajiKubeconfigReconciler, ControllerSettings::default());
        manager.add(KamajiStatusReconciler, ControllerSettings::default());
    }
    metrics::register(manager.metrics(), manager.caches(), &processed, &pass_times);

    manager.review(admission::webhooks(manager.caches(), &reviewers));

    let webhooks = arguments.webhooks();
    let lease = LeaseName {
        namespace: arguments.leader_election_namespace,
        name: names::CONTROLLER_LEASE.to_owned(),
    };
    let options = ManagerOptions {
        lease: arguments.leader_elect.then_some(lease),
        health: arguments.health_probe_bind_address.address(),
        metrics: arguments.metrics_bind_address.address(),
        metrics_authorization: arguments.metrics_require_authorization,
        webhooks,
        ..ManagerOptions::default()
    };
    manager.run(options, shutdown).await?;
    Ok(())
}

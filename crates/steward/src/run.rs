//! The process `butler steward`: its flags, and the controllers wired together.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use butler_api::{
    cluster_api::steward_control_plane::StewardControlPlane, keys::names,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{
    admission::Reach,
    bind_address::BindAddress,
    client::{self, ClientError, Component},
    controller::ControllerSettings,
    leader::LeaseName,
    manager::{Manager, ManagerError, ManagerOptions, WebhookOptions},
    reconciler::Bell,
    shutdown::Shutdown,
};
use jiff::SignedDuration;

use crate::{
    admission,
    data_store::DataStoreReconciler,
    kubeconfig_generator::KubeconfigGeneratorReconciler,
    metrics,
    moves::Moves,
    older_flags::{self, OlderFlags},
    secrets::KeysOnThreads,
    settings::{KINE_IMAGE, Settings},
    steward_control_plane::{
        ClusterApiSettings, ExternalReferences, StewardControlPlaneReconciler,
        elsewhere::{Elsewhere, OtherPlaces},
    },
    store::{Drivers, Patient, StorePort},
    tenant_control_plane::{Ports, TenantControlPlaneReconciler},
    tenant_port::TenantPort,
    tenants::{TenantAccess, Tenants},
};

/// The component's name: its Deployment, service account, field manager and user agent.
pub const COMPONENT: &str = "steward";
/// The Service in front of the webhooks, in the namespace of the component.
const WEBHOOK_SERVICE: &str = "steward-webhook-service";
/// The port of that Service.
const WEBHOOK_SERVICE_PORT: u16 = 443;
/// With fewer workers, one control plane that waits for its peers would hold up all others.
const FEWEST_WORKERS: usize = 4;
/// How often a data store is asked how it is.
const STORE_PERIOD: Duration = Duration::from_mins(1);

/// Flags of `butler steward`.
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
    /// The namespace of the lease, of the webhooks' certificates, and of Secrets that a data store names without one
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", default_value = names::STEWARD_NAMESPACE)]
    pub pod_namespace: String,
    /// The data store of control planes that name none; empty if they must name one
    #[arg(long, value_name = "NAME", default_value = names::DEFAULT_DATA_STORE)]
    pub datastore: String,
    /// The image of kine, which stands before data stores that are not etcd
    #[arg(long, value_name = "IMAGE", default_value = KINE_IMAGE)]
    pub kine_image: String,
    /// The image with butler, for its own reverse tunnel; without it, tunnels are made of konnectivity's images
    #[arg(long, value_name = "IMAGE")]
    pub tunnel_image: Option<String>,
    /// How API servers of tenants are reached; in the management cluster by their Services, elsewhere by their endpoints
    #[arg(long, value_name = "WAY", value_enum)]
    pub tenant_access: Option<TenantAccess>,
    /// How many control planes are worked on at the same time, at least 4: half of them may wait for data stores
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub max_concurrent_tcp_reconciles: usize,
    /// How long one pass over a control plane, data store or kubeconfig generator may take, such as 30s
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = older_flags::pass_deadline)]
    pub controller_reconcile_timeout: Duration,
    /// How long before its end a certificate of a control plane is made anew at the latest, such as 24h; usually that is after
    /// two thirds of its life
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = older_flags::certificate_deadline)]
    pub certificate_expiration_deadline: SignedDuration,
    /// Kinds of Cluster API's infrastructure, beside those that are known, whose spec.controlPlaneEndpoint is written
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub dynamic_infrastructure_clusters: Vec<String>,
    /// Leave Cluster API's infrastructure alone: somebody else tells it the endpoint
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub skip_infra_cluster_patch: bool,
    /// Whether control planes of Cluster API may run in other clusters, and where the kubeconfigs of those may be
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub external_cluster_references: ExternalReferences,
    /// Review manifests before the API server takes them
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_webhooks: bool,
    /// The port webhooks are served on
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    pub webhook_port: u16,
    /// The Service by which the API server reaches the webhooks
    #[arg(long, value_name = "NAME", default_value = WEBHOOK_SERVICE)]
    pub webhook_service_name: String,
    /// How the API server reaches the webhooks of a process outside of the cluster, instead of by their Service
    #[arg(long, value_name = "URL")]
    pub webhook_url: Option<String>,
    /// Flags of the program that Steward takes the place of
    #[command(flatten)]
    pub older: OlderFlags,
}

impl Arguments {
    fn settings(&self) -> Settings {
        Settings {
            default_data_store: Some(self.datastore.clone()).filter(|name| !name.is_empty()),
            kine_image: self.kine_image.clone(),
            tunnel_image: self.tunnel_image.clone().filter(|image| !image.is_empty()),
            namespace: self.pod_namespace.clone(),
            certificate_deadline: self.certificate_expiration_deadline,
            pass_deadline: self.controller_reconcile_timeout,
        }
    }

    fn workers(&self) -> usize {
        self.max_concurrent_tcp_reconciles.max(FEWEST_WORKERS)
    }

    fn cluster_api_settings(&self) -> ClusterApiSettings {
        let further = self.dynamic_infrastructure_clusters.iter();
        ClusterApiSettings {
            skip_infrastructure: self.skip_infra_cluster_patch,
            further_infrastructure: further.cloned().collect(),
            external: self.external_cluster_references,
        }
    }

    /// A process that was not told which cluster to work on runs in it.
    fn tenant_access(&self) -> TenantAccess {
        let usual = if client::runs_in_cluster(self.kubeconfig.as_deref()) {
            TenantAccess::Service
        } else {
            TenantAccess::Endpoint
        };
        self.tenant_access.unwrap_or(usual)
    }

    fn webhooks(&self) -> Option<WebhookOptions> {
        let namespace = self.pod_namespace.clone();
        let service = || Reach::Service {
            namespace: namespace.clone(),
            name: self.webhook_service_name.clone(),
            port: WEBHOOK_SERVICE_PORT,
        };
        self.enable_webhooks.then(|| WebhookOptions {
            listen: SocketAddr::from(([0, 0, 0, 0], self.webhook_port)),
            reach: self.webhook_url.clone().map_or_else(service, Reach::Url),
            namespace: namespace.clone(),
        })
    }
}

/// What the process reaches beside Kubernetes.
#[derive(Clone)]
pub struct Surroundings {
    /// The way to data stores.
    pub stores: Arc<dyn StorePort>,
    /// The way into tenants.
    pub tenants: Option<Arc<dyn TenantPort>>,
    /// Rung by whoever sees something change inside of a tenant.
    pub bell: Bell<TenantControlPlane>,
}

/// Why the process ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no way to the management cluster.
    #[error("could not connect to the management cluster")]
    Client(#[from] ClientError),
    /// It ended while running.
    #[error("Steward stopped")]
    Manager(#[from] ManagerError),
}

/// Adds Steward's controllers and reviewers to a process.
pub fn add(manager: &mut Manager, settings: &Settings, surroundings: Surroundings, workers: usize) {
    let places = (workers / 2).max(1);
    let stores: Arc<dyn StorePort> = Arc::new(Patient::new(surroundings.stores, places));
    let ports = Ports {
        stores: Arc::clone(&stores),
        tenants: surroundings.tenants,
        moves: Arc::new(Moves::new(surroundings.bell.clone())),
        keys: Arc::new(KeysOnThreads),
        bell: surroundings.bell,
    };
    let few = ControllerSettings {
        deadline: settings.pass_deadline,
        ..ControllerSettings::default()
    };
    let many = ControllerSettings { workers, ..few };
    manager.add(
        TenantControlPlaneReconciler::new(settings.clone(), ports),
        many,
    );
    manager.add(
        DataStoreReconciler::new(settings.clone(), stores, STORE_PERIOD),
        few,
    );
    manager.add(KubeconfigGeneratorReconciler, few);
    metrics::register(manager.metrics(), manager.caches());
    let webhooks = admission::webhooks(manager.client(), manager.caches(), settings);
    manager.review(webhooks);
}

/// Adds the control plane provider of Cluster API to a process. Where Cluster API is not installed, it has nothing to do.
pub fn add_cluster_api(
    manager: &mut Manager,
    settings: ClusterApiSettings,
    elsewhere: Arc<dyn Elsewhere>,
    bell: Bell<StewardControlPlane>,
) {
    manager.add(
        StewardControlPlaneReconciler::new(settings, elsewhere, bell),
        ControllerSettings::default(),
    );
}

/// Runs Steward until the shutdown.
pub async fn run(arguments: Arguments, version: &str, shutdown: Shutdown) -> Result<(), RunError> {
    client::install_crypto();
    let component = Component::new(COMPONENT, version)?;
    let configuration = client::configuration(arguments.kubeconfig.as_deref()).await?;
    let client = client::client(configuration, &component)?;

    arguments.older.explain();
    let settings = arguments.settings();
    let mut manager = Manager::new(client.clone(), component.clone());
    metrics::register_build(manager.metrics(), version);
    let control_planes = Bell::default();
    let elsewhere = OtherPlaces::new(
        client,
        component.clone(),
        manager.metrics().clone(),
        control_planes.clone(),
    );
    let bell = Bell::default();
    let tenants = Tenants::new(
        component,
        manager.metrics().clone(),
        bell.clone(),
        arguments.tenant_access(),
        settings.clone(),
    );
    let surroundings = Surroundings {
        stores: Arc::new(Drivers),
        tenants: Some(Arc::new(tenants)),
        bell,
    };
    add(&mut manager, &settings, surroundings, arguments.workers());

    add_cluster_api(
        &mut manager,
        arguments.cluster_api_settings(),
        Arc::new(elsewhere),
        control_planes,
    );

    let webhooks = arguments.webhooks();
    let lease = LeaseName {
        namespace: arguments.pod_namespace,
        name: names::STEWARD_LEASE.to_owned(),
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

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::older_flags::Subcommand;

    #[derive(Parser)]
    struct Process {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn read(flags: &[&str]) -> Arguments {
        let words = std::iter::once(&"steward").chain(flags);
        Process::try_parse_from(words).unwrap().arguments
    }

    #[test]
    fn a_manifest_of_the_older_program_goes_on_working() {
        let arguments = read(&[
            "manager",
            "--health-probe-bind-address=:8081",
            "--leader-elect",
            "--metrics-bind-address=:8080",
            "--tmp-directory=/tmp/steward",
            "--datastore=default",
            "--kine-image=rancher/kine:v0.11.10-amd64",
            "--migrate-image=docker.io/butlerlabs/steward:v1",
            "--max-concurrent-tcp-reconciles=1",
            "--pod-namespace=steward-system",
            "--webhook-service-name=other-webhook-service",
            "--serviceaccount-name=steward",
            "--webhook-ca-path=/tmp/k8s-webhook-server/serving-certs/ca.crt",
            "--controller-reconcile-timeout=30s",
            "--cache-resync-period=10h0m0s",
            "--certificate-expiration-deadline=48h0m0s",
            "--enable-webhooks",
        ]);
        assert_eq!(arguments.workers(), FEWEST_WORKERS);
        let settings = arguments.settings();
        assert_eq!(settings.pass_deadline, Duration::from_secs(30));
        assert_eq!(
            settings.certificate_deadline,
            SignedDuration::from_hours(48)
        );
        let Some(Reach::Service { name, .. }) = arguments.webhooks().map(|webhooks| webhooks.reach)
        else {
            panic!("no Service");
        };
        assert_eq!(name, "other-webhook-service");
        let told = arguments.older.without_meaning();
        let flags: Vec<_> = told.into_iter().map(|(flag, _)| flag).collect();
        assert_eq!(
            flags,
            [
                "--migrate-image",
                "--tmp-directory",
                "--cache-resync-period",
                "--serviceaccount-name",
                "--webhook-ca-path",
            ]
        );
    }

    #[test]
    fn flags_of_the_older_programs_logs_are_taken_with_and_without_a_value() {
        let told = |flags: &[&str]| {
            let told = read(flags).older.without_meaning();
            told.into_iter().map(|(flag, _)| flag).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&["manager", "--zap-devel", "--leader-elect"]),
            ["--zap-devel"]
        );
        assert_eq!(told(&["--zap-devel=false"]), ["--zap-devel"]);
        let all = [
            "--zap-devel=true",
            "--zap-encoder=json",
            "--zap-log-level=debug",
            "--zap-stacktrace-level=error",
            "--zap-time-encoding=rfc3339",
        ];
        assert_eq!(told(&all).len(), all.len());
    }

    #[test]
    fn the_process_that_made_kubeconfigs_for_others_is_one_more_steward() {
        let arguments = read(&[
            "kubeconfig-generator",
            "--metrics-bind-address=:8090",
            "--health-probe-bind-address=:8091",
            "--leader-elect",
        ]);
        assert_eq!(
            arguments.older.subcommand,
            Some(Subcommand::KubeconfigGenerator)
        );
        assert!(arguments.leader_elect);
    }

    #[test]
    fn without_flags_nothing_is_said_of_them() {
        let arguments = read(&[]);
        assert_eq!(arguments.older, OlderFlags::default());
        assert_eq!(
            arguments.settings().pass_deadline,
            Settings::default().pass_deadline
        );
    }
}

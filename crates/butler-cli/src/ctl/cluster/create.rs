//! `butlerctl cluster create`.

use std::path::PathBuf;

use butler_api::{
    Quantity,
    butler::tenant_cluster::{
        ControlPlaneMode, LoadBalancerPool, MachineTemplate, TenantCluster,
        TenantClusterControlPlane, TenantClusterNetworking, TenantClusterSpec,
        TenantClusterWorkers,
    },
    keys::groups,
    name::ClusterName,
    reference::{LocalReference, NamespacedReference},
    version::KubernetesVersion,
};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::{
    Patience,
    follow::{Goal, follow},
};
use crate::{
    ctl::{error::Error, platform::Platform},
    output::document::{Notation, document},
};

/// Flags of `butlerctl cluster create`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the cluster
    #[arg(required_unless_present = "filename")]
    name: Option<ClusterName>,
    #[arg(
        long,
        short,
        value_name = "FILE",
        conflicts_with_all = ["name", "Wish"],
        help = "Create the TenantCluster in this file instead; \"-\" is standard input"
    )]
    filename: Option<PathBuf>,
    #[command(flatten)]
    wish: Wish,
    #[command(flatten)]
    patience: Patience,
    /// Print what would be created, and create nothing
    #[arg(long)]
    dry_run: bool,
}

/// What the cluster is to be like. What is not said is decided by the platform.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "The cluster")]
pub(crate) struct Wish {
    /// How many workers
    #[arg(long, short, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..))]
    workers: i32,
    /// Version of Kubernetes [default: what the platform runs itself]
    #[arg(long, alias = "k8s-version", value_name = "VERSION")]
    kubernetes_version: Option<KubernetesVersion>,
    /// Processors of each worker
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    cpu: Option<i32>,
    /// Memory of each worker, such as 8Gi
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<Quantity>,
    /// Disk of each worker, such as 50Gi
    #[arg(long, value_name = "QUANTITY")]
    disk: Option<Quantity>,
    #[arg(
        long,
        short,
        value_name = "NAME",
        help = "ProviderConfig in butler-system that machines come from [default: the platform's]"
    )]
    provider: Option<String>,
    /// Team that the cluster belongs to; it is created in the team's namespace
    #[arg(long, value_name = "NAME")]
    team: Option<String>,
    /// Where the control plane runs: as pods of the platform, or on machines of its own [default: hosted]
    #[arg(long, value_enum)]
    control_plane: Option<ControlPlane>,
    /// How many control planes [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..=5))]
    control_plane_replicas: Option<i32>,
    /// Addresses of pods [default: 10.244.0.0/16]
    #[arg(long, value_name = "CIDR")]
    pod_cidr: Option<String>,
    /// Addresses of Services [default: 10.96.0.0/12]
    #[arg(long, value_name = "CIDR")]
    service_cidr: Option<String>,
    /// How many addresses for load balancers to take from the provider's pools
    #[arg(long, value_name = "COUNT", conflicts_with = "lb_pool", value_parser = clap::value_parser!(i32).range(1..))]
    lb_pool_size: Option<i32>,
    /// Exactly these addresses for load balancers, such as 10.40.1.100-10.40.1.150
    #[arg(long, value_name = "START-END", value_parser = pool)]
    lb_pool: Option<LoadBalancerPool>,
}

/// Where a control plane runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ControlPlane {
    /// As pods of the platform
    Hosted,
    /// On machines of its own
    Standalone,
}

/// Addresses from one to another, or a single one.
fn pool(text: &str) -> Result<LoadBalancerPool, String> {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    for address in [start, end] {
        let parsed: Result<std::net::IpAddr, _> = address.parse();
        if parsed.is_err() {
            return Err(format!(
                "{address:?} is not an address; write it like 10.40.1.100-10.40.1.150"
            ));
        }
    }
    Ok(LoadBalancerPool {
        start: start.to_owned(),
        end: end.to_owned(),
    })
}

impl Wish {
    /// The object that says it.
    fn cluster(&self, name: &str, version: &KubernetesVersion) -> TenantCluster {
        let sized = self.cpu.is_some() || self.memory.is_some() || self.disk.is_some();
        let machine_template = sized.then(|| MachineTemplate {
            cpu: self.cpu,
            memory: self.memory.clone(),
            disk_size: self.disk.clone(),
            ..MachineTemplate::default()
        });
        let planned = self.control_plane.is_some() || self.control_plane_replicas.is_some();
        let control_plane = planned.then(|| {
            let usual = TenantClusterControlPlane::default();
            TenantClusterControlPlane {
                mode: match self.control_plane {
                    Some(ControlPlane::Standalone) => ControlPlaneMode::Standalone,
                    Some(ControlPlane::Hosted) | None => ControlPlaneMode::Hosted,
                },
                replicas: self.control_plane_replicas.unwrap_or(usual.replicas),
                ..usual
            }
        });
        let spec = TenantClusterSpec {
            kubernetes_version: version.to_string(),
            provider_config_ref: self.provider.clone().map(|name| NamespacedReference {
                name,
                namespace: None,
            }),
            team_ref: self.team.clone().map(|name| LocalReference { name }),
            control_plane,
            workers: TenantClusterWorkers {
                replicas: self.workers,
                machine_template,
                ..TenantClusterWorkers::default()
            },
            networking: self.networking(),
            ..TenantClusterSpec::default()
        };
        TenantCluster::new(name, spec)
    }

    fn networking(&self) -> Option<TenantClusterNetworking> {
        let usual = TenantClusterNetworking::default();
        let wished = TenantClusterNetworking {
            pod_cidr: self
                .pod_cidr
                .clone()
                .unwrap_or_else(|| usual.pod_cidr.clone()),
            service_cidr: self
                .service_cidr
                .clone()
                .unwrap_or_else(|| usual.service_cidr.clone()),
            load_balancer_pool: self.lb_pool.clone(),
            lb_pool_size: self.lb_pool_size,
        };
        (wished != usual).then_some(wished)
    }
}

/// Creates a cluster, and waits for it.
pub(super) async fn create(arguments: &Arguments, platform: &Platform) -> anyhow::Result<String> {
    let mut cluster = match (&arguments.filename, &arguments.name) {
        (Some(path), _) => read(path)?,
        (None, Some(name)) => {
            let version = match &arguments.wish.kubernetes_version {
                Some(version) => version.clone(),
                None => platform.newest_version().await?,
            };
            serde_json::to_value(arguments.wish.cluster(name.as_str(), &version))?
        }
        (None, None) => return Err(Error::Usage("name the cluster".to_owned()).into()),
    };
    let namespace = home(&cluster, platform).await?;
    cluster["metadata"]["namespace"] = namespace.as_str().into();
    if arguments.dry_run {
        return document(&cluster, Notation::Yaml);
    }
    let platform = &platform.within(&namespace);
    let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
    let name = name.to_owned();
    match platform.create(&cluster).await {
        Ok(()) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            return Err(Error::Exists { name, namespace }.into());
        }
        Err(error) => return Err(Error::api(format!("create the cluster {name}"))(error).into()),
    }
    let call = platform.call(&name);
    let Some(patience) = arguments.patience.time() else {
        return Ok(format!(
            "{name} is being made; \"butlerctl cluster get {call}\" shows how far it is.\n"
        ));
    };
    let title = format!("Creating {name}");
    Box::pin(follow(platform, &name, Goal::Birth, title, patience)).await?;
    Ok(format!(
        "{name} is ready. Use it:\n\n  butlerctl cluster kubeconfig {call} --merge\n  kubectl get nodes\n"
    ))
}

/// Where a cluster belongs that is to be made: where it says itself, where the reader says, with its team, or where the platform
/// has those without one.
async fn home(cluster: &Value, platform: &Platform) -> Result<String, Error> {
    let team = cluster
        .pointer("/spec/teamRef/name")
        .and_then(Value::as_str);
    match cluster["metadata"]["namespace"].as_str() {
        Some(own) if platform.is_named && platform.namespace != own => {
            let meant = &platform.namespace;
            Err(Error::Usage(format!(
                "metadata.namespace is {own}, and {meant} was asked for; leave one of them out"
            )))
        }
        Some(own) => Ok(own.to_owned()),
        None if platform.is_named => Ok(platform.namespace.clone()),
        None => match team {
            Some(team) => platform.home_of(team).await,
            None => Ok(platform.namespace.clone()),
        },
    }
}

/// The one cluster in a file, as it is written there.
fn read(path: &PathBuf) -> Result<Value, Error> {
    let failed = |source| Error::File {
        doing: "read",
        path: path.clone(),
        source,
    };
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin()).map_err(failed)?
    } else {
        std::fs::read_to_string(path).map_err(failed)?
    };
    parse(&text).map_err(|problem| Error::Document {
        what: path.display().to_string(),
        problem,
    })
}

fn parse(text: &str) -> Result<Value, String> {
    let mut body: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    if body["kind"] != "TenantCluster" {
        return Err(format!(
            "it holds {}, and not one TenantCluster",
            body["kind"]
        ));
    }
    if !body["metadata"]["name"].is_string() {
        return Err("metadata.name: name the cluster".to_owned());
    }
    if body["apiVersion"].is_null() {
        body["apiVersion"] = groups::BUTLER_API_VERSION.into();
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use pretty_assertions::assert_eq;

    use super::*;

    fn written(wish: &Wish) -> String {
        let version = "v1.36.3".parse().unwrap();
        let cluster = wish.cluster("demo", &version);
        document(&cluster, Notation::Yaml).unwrap()
    }

    #[test]
    fn a_name_alone_leaves_the_rest_to_the_platform() {
        let wish = Wish {
            workers: 1,
            ..Wish::default()
        };
        assert_snapshot!(written(&wish));
    }

    #[test]
    fn every_flag_has_its_place_in_the_object() {
        let wish = Wish {
            workers: 3,
            kubernetes_version: None,
            cpu: Some(2),
            memory: Some(Quantity::new("4Gi")),
            disk: Some(Quantity::new("20Gi")),
            provider: Some("local".to_owned()),
            team: Some("shop".to_owned()),
            control_plane: Some(ControlPlane::Standalone),
            control_plane_replicas: Some(3),
            pod_cidr: Some("10.1.0.0/16".to_owned()),
            service_cidr: None,
            lb_pool_size: None,
            lb_pool: Some(pool("10.40.1.100-10.40.1.150").unwrap()),
        };
        assert_snapshot!(written(&wish));
    }

    #[test]
    fn a_pool_is_two_addresses_or_one() {
        let one = pool("10.40.1.100").unwrap();
        assert_eq!(one.start, one.end);
        assert!(pool("10.40.1.100-").is_err());
    }

    #[test]
    fn a_file_holds_one_cluster() {
        let text = "{kind: TenantCluster, metadata: {name: demo}, spec: {kubernetesVersion: v1.36.3, workers: {replicas: 0}}}";
        let cluster = parse(text).unwrap();
        assert_eq!(cluster["apiVersion"], "butler.butlerlabs.dev/v1alpha1");
        let unknown = parse("{kind: TenantCluster, metadata: {name: a}, spec: {wrokers: 3}}");
        assert_eq!(unknown.unwrap()["spec"]["wrokers"], 3, "it is not left out");
        let words = |text: &str| parse(text).unwrap_err();
        assert_eq!(
            words("{kind: Pod}"),
            "it holds \"Pod\", and not one TenantCluster"
        );
        assert_eq!(
            words("{kind: TenantCluster}"),
            "metadata.name: name the cluster"
        );
    }
}

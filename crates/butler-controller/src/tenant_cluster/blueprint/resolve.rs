//! Puts a blueprint together from what the cluster, its team, its provider and the platform say.

use std::collections::BTreeMap;

use butler_api::{
    butler::{
        butler_config::ButlerConfigSpec,
        provider_config::Provider,
        team::{ClusterDefaults, Team},
        tenant_cluster::{CniProvider, TenantCluster},
    },
    conditions::reasons,
    keys::{annotations, labels, values},
    name::LABEL_LENGTH,
    net::Cidr,
    normalize::{
        self,
        tenant_cluster::{Reading, Wish},
    },
    version::KubernetesVersion,
};
use butler_runtime::{conditions::Finding, object::ObjectKey};
use kube::ResourceExt;

use super::{
    Blueprint, Network, Surroundings, TeamWish, control_plane, infrastructure, machines,
    tenant_namespace,
};

/// Where machines get the time from where nobody says anything.
const USUAL_TIME_SERVER: &str = "pool.ntp.org";

/// Everything that has a say, and what was found wrong so far.
pub(super) struct Case<'a> {
    pub(super) cluster: &'a TenantCluster,
    pub(super) reading: Reading,
    pub(super) surroundings: &'a Surroundings,
    pub(super) config: ButlerConfigSpec,
    pub(super) findings: Vec<Finding>,
}

/// What was asked for cannot be. Why, the findings say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused;

impl Case<'_> {
    /// Something that cannot be as it was written.
    pub(super) fn refuse(&mut self, message: impl Into<String>) {
        let finding = Finding::new(false, reasons::VALIDATION_FAILED, message);
        self.findings.push(finding);
    }

    /// Something that could be, but not in this version.
    pub(super) fn not_yet(&mut self, message: impl Into<String>) {
        let finding = Finding::new(false, reasons::NOT_YET_IMPLEMENTED, message);
        self.findings.push(finding);
    }

    /// Something that somebody else has to bring first.
    pub(super) fn wait(&mut self, message: impl Into<String>) {
        let finding = Finding::new(false, reasons::WAITING_FOR_DEPENDENCIES, message);
        self.findings.push(finding);
    }

    pub(super) fn provider(&self) -> Provider {
        self.surroundings.provider.spec.provider
    }

    /// What the environment and the team say about machines of clusters that say nothing, the closer one first.
    pub(super) fn defaults(&self) -> Vec<&ClusterDefaults> {
        let team = self.surroundings.team.as_ref();
        let environment = self.cluster.labels().get(labels::ENVIRONMENT);
        let environment = team.and_then(|team| {
            let mut environments = team.spec.environments.iter();
            environments.find(|candidate| Some(&candidate.name) == environment)
        });
        let closer = environment.and_then(|environment| environment.cluster_defaults.as_ref());
        let farther = team.and_then(|team| team.spec.cluster_defaults.as_ref());
        closer.into_iter().chain(farther).collect()
    }
}

pub(super) fn resolve(
    cluster: &TenantCluster,
    surroundings: &Surroundings,
) -> Result<Blueprint, Vec<Finding>> {
    let config = surroundings.config.as_ref();
    let mut case = Case {
        cluster,
        reading: normalize::tenant_cluster::read(&cluster.spec),
        surroundings,
        config: config.map(|config| config.spec.clone()).unwrap_or_default(),
        findings: Vec::new(),
    };
    let namespace = tenant_namespace(cluster);
    if namespace.len() > LABEL_LENGTH {
        case.refuse(format!(
            "metadata.name: the namespace {namespace} made from it would have more than {LABEL_LENGTH} characters; \
             create the cluster under a shorter name"
        ));
    }
    let version = version(&mut case);
    let network = network(&mut case);
    let cni = cni(&case);
    let infrastructure = infrastructure::resolve(&mut case);
    let control_plane = control_plane::resolve(&mut case, &namespace);
    let pools = machines::pools(&mut case, version.as_ref());
    let (Some(version), Some(infrastructure), Some(control_plane), []) = (
        version,
        infrastructure,
        control_plane,
        case.findings.as_slice(),
    ) else {
        return Err(case.findings);
    };
    Ok(Blueprint {
        name: cluster.name_any(),
        namespace,
        source: ObjectKey::of(cluster),
        team: surroundings.team.as_ref().map(team),
        labels: common_labels(cluster),
        annotations: common_annotations(cluster),
        version,
        control_plane,
        network,
        cni,
        kube_proxy: cni != Some(CniProvider::Cilium),
        infrastructure,
        pools,
        time_servers: time_servers(&case),
        // No provider brings a cloud controller manager of its own, so only the user can know of one.
        external_cloud_provider: cluster
            .spec
            .control_plane
            .as_ref()
            .and_then(|wish| wish.external_cloud_provider)
            .unwrap_or(false),
        machine_health: case.reading.machine_health,
        // That network is there with the machines. Of any other only the nodes can tell.
        nodes_are_judged: cni == Some(CniProvider::Bridge),
    })
}

fn version(case: &mut Case<'_>) -> Option<KubernetesVersion> {
    match case.reading.kubernetes_version.parse() {
        Ok(version) => Some(version),
        Err(error) => {
            case.refuse(format!("spec.kubernetesVersion: {error}"));
            None
        }
    }
}

/// Ranges of pods and Services must not be where machines are: their addresses would lead into the cluster.
fn network(case: &mut Case<'_>) -> Network {
    let network = Network {
        pods: case.reading.network.pod_cidr.clone(),
        services: case.reading.network.service_cidr.clone(),
    };
    let spec = &case.surroundings.provider.spec;
    let subnet = spec
        .network
        .as_ref()
        .and_then(|network| network.subnet.clone());
    let bridge = spec.local.as_ref().and_then(|local| local.cidr.clone());
    let own = [
        ("podCIDR", &network.pods),
        ("serviceCIDR", &network.services),
    ];
    for (field, range) in own {
        let Ok(block) = range.parse::<Cidr>() else {
            case.refuse(format!(
                "spec.networking.{field}: {range:?} is no range of addresses; write it like 10.244.0.0/16"
            ));
            continue;
        };
        for machines in [&subnet, &bridge].into_iter().flatten() {
            if machines
                .parse()
                .is_ok_and(|machines| block.overlaps(&machines))
            {
                case.refuse(format!(
                    "spec.networking.{field}: {range} overlaps {machines}, where machines of the provider have their \
                     addresses; create the cluster with another range"
                ));
            }
        }
    }
    network
}

/// The network plugin; what is not said depends on the provider.
fn cni(case: &Case<'_>) -> Option<CniProvider> {
    let usual = match case.provider() {
        Provider::Local => CniProvider::Bridge,
        _ => CniProvider::Cilium,
    };
    match &case.reading.addons.cni {
        Wish::Off => None,
        Wish::Unstated => Some(usual),
        Wish::On(choice) => Some(choice.provider.unwrap_or(usual)),
    }
}

fn team(team: &Team) -> TeamWish {
    TeamWish {
        name: team.name_any(),
        access: team.spec.access.clone().unwrap_or_default(),
    }
}

fn common_labels(cluster: &TenantCluster) -> BTreeMap<String, String> {
    let name = cluster.name_any();
    let team = cluster.spec.team_ref.as_ref().map(|team| team.name.clone());
    let environment = cluster.labels().get(labels::ENVIRONMENT).cloned();
    let found = [
        (
            labels::MANAGED_BY,
            Some(values::MANAGED_BY_BUTLER.to_owned()),
        ),
        (labels::TENANT, Some(name.clone())),
        (labels::SOURCE_NAMESPACE, cluster.namespace()),
        (labels::SOURCE_NAME, Some(name.clone())),
        (labels::CLUSTER_API_CLUSTER, Some(name)),
        (labels::TEAM, team),
        (labels::ENVIRONMENT, environment),
    ];
    let found = found.into_iter();
    found
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// Whoever asked for a cluster counts as its owner until somebody else is named.
fn common_annotations(cluster: &TenantCluster) -> BTreeMap<String, String> {
    let written = cluster.annotations();
    let owner = written
        .get(annotations::OWNER)
        .or_else(|| written.get(annotations::CREATOR_EMAIL));
    let owner = owner.map(|owner| (annotations::OWNER.to_owned(), owner.clone()));
    owner.into_iter().collect()
}

/// The closest list that names somebody wins. Whoever leaves it to us gets the servers that everybody knows.
fn time_servers(case: &Case<'_>) -> Vec<String> {
    let provider = case.surroundings.provider.spec.network.as_ref();
    let lists = [
        Some(&case.cluster.spec.time_servers),
        provider.map(|network| &network.time_servers),
        Some(&case.config.default_time_servers),
    ];
    let closest = lists.into_iter().flatten().find(|list| !list.is_empty());
    closest
        .cloned()
        .unwrap_or_else(|| vec![USUAL_TIME_SERVER.to_owned()])
}

//! Machines: their size, their operating system, their image.

use butler_api::{
    Quantity,
    butler::{
        provider_config::{ClusterApiProvider, Provider},
        tenant_cluster::{MachineTemplate, OperatingSystem, OperatingSystemType, WORKERS_POOL},
    },
    name::LABEL_LENGTH,
    normalize::tenant_cluster::{self as reading, WorkerSize},
    version::KubernetesVersion,
};
use kube::ResourceExt;

use super::{Machine, Pool, System, infrastructure, resolve::Case};

/// What a machine is for, as far as it matters to what it must be.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// A machine of a standalone control plane.
    ControlPlane,
    /// A worker, and the field that speaks of it.
    Worker(String),
}

impl Role {
    /// The field with the machine's template.
    pub(super) fn field(&self) -> String {
        match self {
            Self::ControlPlane => "spec.controlPlane.machineTemplate".to_owned(),
            Self::Worker(pool) => format!("{pool}.machineTemplate"),
        }
    }
}

/// What became of a machine template.
pub(super) struct Resolved {
    pub(super) machine: Machine,
    pub(super) system: System,
    pub(super) ssh_authorized_key: Option<String>,
}

/// A size by its parts: CPUs, memory, disk.
type Size = (i32, &'static str, &'static str);

/// What workers have where nobody says anything.
const USUAL_SIZE: Size = (4, "16Gi", "100Gi");

/// The same on one host, which has to hold all of them.
const LOCAL_SIZE: Size = (2, "2Gi", "10Gi");

/// What kubeadm asks of a machine before it makes a control plane of it.
const LEAST_CPU: i32 = 2;
const LEAST_MEMORY: i128 = 1700 << 20;

pub(super) fn pools(case: &mut Case<'_>, version: Option<&KubernetesVersion>) -> Vec<Pool> {
    let mut pools = Vec::new();
    for wish in case.reading.pools.clone() {
        let name = deployment_name(&case.cluster.name_any(), &wish.name);
        if name.len() > LABEL_LENGTH {
            case.refuse(format!(
                "{}: the name {name} made for its machines would have more than {LABEL_LENGTH} characters; give the pool a \
                 shorter name",
                wish.field
            ));
        }
        let role = Role::Worker(wish.field.clone());
        let resolved = resolve_parts(case, &wish.size, wish.os.as_ref(), &role);
        let (Some(resolved), Some(version)) = (resolved, version) else {
            continue;
        };
        pools.push(Pool {
            name: wish.name,
            replicas: wish.replicas,
            version: version.clone(),
            machine: resolved.machine,
            system: resolved.system,
            ssh_authorized_key: resolved.ssh_authorized_key,
            labels: wish.labels,
            taints: wish.taints,
        });
    }
    pools
}

/// Name of the `MachineDeployment` of a pool. It is a label of each of its machines, too.
pub(crate) fn deployment_name(cluster: &str, pool: &str) -> String {
    format!("{cluster}-{pool}")
}

/// The word for a pool in names of its templates.
pub(crate) fn template_word(pool: &str) -> &str {
    if pool == WORKERS_POOL { "worker" } else { pool }
}

pub(super) fn resolve(
    case: &mut Case<'_>,
    template: Option<&MachineTemplate>,
    role: &Role,
) -> Option<Resolved> {
    let size = template.map(reading::worker_size).unwrap_or_default();
    let os = template.and_then(|template| template.os.as_ref());
    resolve_parts(case, &size, os, role)
}

fn resolve_parts(
    case: &mut Case<'_>,
    size: &WorkerSize,
    os: Option<&OperatingSystem>,
    role: &Role,
) -> Option<Resolved> {
    let system = system(case, os, role);
    let image = infrastructure::image_of(case, os, role);
    let (Some(system), Ok(image)) = (system, image) else {
        return None;
    };
    let (cpu, memory, disk) = size_of(case, size, role);
    if let Role::ControlPlane = role {
        large_enough(case, cpu, &memory, &role.field());
    }
    let own_key = os.and_then(|os| os.ssh_authorized_key.clone());
    let key = own_key.or_else(|| case.config.ssh_authorized_key.clone());
    Some(Resolved {
        machine: Machine {
            cpu,
            memory,
            disk,
            image,
        },
        system,
        ssh_authorized_key: key.filter(|key| !key.is_empty()),
    })
}

/// The first of cluster, environment, team and platform that says something; each part for itself. What teams say of
/// workers does not speak of control planes.
fn size_of(case: &Case<'_>, size: &WorkerSize, role: &Role) -> (i32, Quantity, Quantity) {
    let (cpu, memory, disk) = match case.provider() {
        Provider::Local => LOCAL_SIZE,
        _ => USUAL_SIZE,
    };
    let defaults = match role {
        Role::Worker(_) => case.defaults(),
        Role::ControlPlane => Vec::new(),
    };
    let gibibytes = |amount: i32| Quantity::new(format!("{amount}Gi"));
    let team_cpu = defaults.iter().find_map(|defaults| defaults.worker_cpu);
    let team_memory = defaults
        .iter()
        .find_map(|defaults| defaults.worker_memory_gi);
    let team_disk = defaults.iter().find_map(|defaults| defaults.worker_disk_gi);
    (
        size.cpu.or(team_cpu).unwrap_or(cpu),
        size.memory
            .clone()
            .or_else(|| team_memory.map(gibibytes))
            .unwrap_or_else(|| Quantity::new(memory)),
        size.disk
            .clone()
            .or_else(|| team_disk.map(gibibytes))
            .unwrap_or_else(|| Quantity::new(disk)),
    )
}

/// Refuses machines on which kubeadm would refuse.
fn large_enough(case: &mut Case<'_>, cpu: i32, memory: &Quantity, field: &str) {
    if cpu < LEAST_CPU {
        case.refuse(format!(
            "{field}.cpu: a control plane needs at least {LEAST_CPU}"
        ));
    }
    let is_small = memory
        .amount()
        .is_ok_and(|amount| amount.bytes() < LEAST_MEMORY);
    if is_small {
        case.refuse(format!(
            "{field}.memory: a control plane needs at least 1700Mi; write for example 2Gi"
        ));
    }
}

fn system(case: &mut Case<'_>, os: Option<&OperatingSystem>, role: &Role) -> Option<System> {
    let wish = os.and_then(|os| os.os_type);
    let field = role.field();
    if case.provider() == Provider::Local {
        if let Some(wish) = wish {
            case.refuse(format!(
                "{field}.os.type: machines of the provider local run the system of their host, not {}; leave os.type out",
                name_of(wish)
            ));
            return None;
        }
        return Some(System::Local);
    }
    match wish.unwrap_or(OperatingSystemType::Rocky) {
        OperatingSystemType::Rocky => {
            if case.reading.kubernetes_version.contains('-') {
                case.refuse(format!(
                    "{field}.os.type: there are no packages of {} for rocky, for it is not released; use a released \
                     version, or an image of kairos that has it",
                    case.reading.kubernetes_version
                ));
                return None;
            }
            Some(System::Rocky)
        }
        OperatingSystemType::Flatcar => Some(System::Flatcar),
        OperatingSystemType::Kairos => Some(System::Kairos),
        OperatingSystemType::Bottlerocket => bottlerocket(case, role),
        OperatingSystemType::Talos => {
            case.not_yet(format!(
                "{field}.os.type: talos comes in a later version; use rocky, flatcar or kairos"
            ));
            None
        }
    }
}

/// Bottlerocket has no kubeadm, and reads nothing but its own settings. Only where Butler hands a machine its user data, Butler
/// can write them.
fn bottlerocket(case: &mut Case<'_>, role: &Role) -> Option<System> {
    let field = role.field();
    if let Role::ControlPlane = role {
        case.refuse(format!(
            "{field}.os.type: bottlerocket has no kubeadm, which makes a control plane of a machine; use rocky, flatcar or \
             kairos, or a hosted control plane"
        ));
        return None;
    }
    let maker = match case.surroundings.provider.spec.cluster_api_provider {
        ClusterApiProvider::Butler => return Some(System::Bottlerocket),
        ClusterApiProvider::Capx => "CAPX",
        ClusterApiProvider::Capk => "CAPK",
    };
    case.refuse(format!(
        "{field}.os.type: bottlerocket reads settings in TOML alone, and {maker} gives machines what Cluster API's kubeadm \
         provider writes, cloud-config or Ignition; use rocky, flatcar or kairos, or a ProviderConfig whose \
         clusterAPIProvider is Butler"
    ));
    None
}

fn name_of(system: OperatingSystemType) -> &'static str {
    match system {
        OperatingSystemType::Rocky => "rocky",
        OperatingSystemType::Flatcar => "flatcar",
        OperatingSystemType::Talos => "talos",
        OperatingSystemType::Kairos => "kairos",
        OperatingSystemType::Bottlerocket => "bottlerocket",
    }
}

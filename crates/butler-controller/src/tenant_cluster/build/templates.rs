//! What machines are like: one template for each shape, named by a hash of what it says.

use butler_api::{
    cluster_api::butler_machine::{ButlerMachineTemplate, UserDataFormat},
    keys::labels,
    version::KubernetesVersion,
};
use butler_runtime::object::{Kind, Manifest};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{infrastructure::kubevirt_credentials, metadata, without_empty};
use crate::tenant_cluster::{
    addresses::hex,
    blueprint::{
        Blueprint, Infrastructure, KubevirtPlace, Machine, NutanixPlace, Pool, Standalone, System,
        template_word,
    },
    kinds,
};

/// The word for machines of a control plane in names of their templates.
const CONTROL_PLANE: &str = "control-plane";

/// How many bytes of a hash are in a name.
const HASH_BYTES: usize = 4;

/// The template of a pool's machines.
pub(super) fn of_pool(blueprint: &Blueprint, pool: &Pool) -> Manifest {
    let machine = with_version(blueprint, &pool.machine, &pool.version);
    machine_template(blueprint, &machine, pool.system, template_word(&pool.name))
}

/// The template of the machines of a control plane.
pub(super) fn of_control_plane(blueprint: &Blueprint, wish: &Standalone) -> Manifest {
    let machine = with_version(blueprint, &wish.machine, &blueprint.version);
    machine_template(blueprint, &machine, wish.system, CONTROL_PLANE)
}

/// Machines of the local provider have no image of a system: their image is the version of Kubernetes that they have.
fn with_version(blueprint: &Blueprint, machine: &Machine, version: &KubernetesVersion) -> Machine {
    let image = if blueprint.is_local() {
        Some(version.to_string())
    } else {
        machine.image.clone()
    };
    Machine {
        image,
        ..machine.clone()
    }
}

/// An object whose name says what it says. Its labels may change without its becoming another.
pub(super) fn named_by_content(
    blueprint: &Blueprint,
    kind: Kind,
    word: &str,
    spec: &Value,
) -> Manifest {
    let name = format!("{}-{word}-{}", blueprint.name, hash(&kind, spec));
    let body = json!({ "metadata": metadata(blueprint, &name), "spec": spec });
    Manifest::new(kind, body)
}

/// The version of the kind counts too: other words may mean something else. Members of an object are in the order of their
/// names in every text that this program writes.
fn hash(kind: &Kind, spec: &Value) -> String {
    let mut hasher = Sha256::new();
    hasher.update(kind.api_version());
    hasher.update(b"\n");
    hasher.update(&kind.kind);
    hasher.update(b"\n");
    hasher.update(spec.to_string());
    let digest = hasher.finalize();
    hex(&digest[..HASH_BYTES])
}

fn machine_template(
    blueprint: &Blueprint,
    machine: &Machine,
    system: System,
    word: &str,
) -> Manifest {
    let (kind, machine) = match &blueprint.infrastructure {
        Infrastructure::Butler { .. } => (
            Kind::of::<ButlerMachineTemplate>(),
            butler(blueprint, machine, system),
        ),
        Infrastructure::Nutanix(place) => {
            (kinds::nutanix_machine_template(), nutanix(place, machine))
        }
        Infrastructure::Kubevirt(place) => (
            kinds::kubevirt_machine_template(),
            kubevirt(blueprint, place, machine, word),
        ),
    };
    let spec = json!({ "template": { "spec": machine } });
    named_by_content(blueprint, kind, word, &spec)
}

fn butler(blueprint: &Blueprint, machine: &Machine, system: System) -> Value {
    without_empty(json!({
        "cpu": machine.cpu,
        "memory": machine.memory,
        "disk": machine.disk,
        "image": machine.image,
        "userDataFormat": user_data_format(system),
        "labels": owner_labels(blueprint),
    }))
}

/// How a system reads what it shall do first; `None` if it has cloud-init.
fn user_data_format(system: System) -> Option<UserDataFormat> {
    match system {
        System::Local | System::Rocky | System::Kairos => None,
        System::Flatcar => Some(UserDataFormat::Ignition),
        System::Bottlerocket => Some(UserDataFormat::Bottlerocket),
    }
}

/// By what somebody who looks at the infrastructure knows whose machine it is. Nothing that changes in a cluster's life: it would
/// replace all machines.
fn owner_labels(blueprint: &Blueprint) -> Value {
    json!({
        labels::TENANT: blueprint.name,
        labels::SOURCE_NAMESPACE: blueprint.source.namespace,
    })
}

fn nutanix(place: &NutanixPlace, machine: &Machine) -> Value {
    json!({
        "bootType": "legacy",
        "vcpuSockets": machine.cpu,
        "vcpusPerSocket": 1,
        "memorySize": machine.memory,
        "systemDiskSize": machine.disk,
        "image": identifier(machine.image.as_deref().unwrap_or_default()),
        "cluster": identifier(&place.cluster),
        "subnet": [identifier(&place.subnet)],
    })
}

/// CAPX asks whether a thing is named by its UUID.
fn identifier(name: &str) -> Value {
    if is_uuid(name) {
        json!({ "type": "uuid", "uuid": name })
    } else {
        json!({ "type": "name", "name": name })
    }
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').collect();
    let lengths: Vec<_> = groups.iter().map(|group| group.len()).collect();
    let mut bytes = groups.iter().flat_map(|group| group.bytes());
    lengths == [8, 4, 4, 4, 12] && bytes.all(|byte| byte.is_ascii_hexdigit())
}

fn kubevirt(blueprint: &Blueprint, place: &KubevirtPlace, machine: &Machine, word: &str) -> Value {
    let disk = format!("{}-{word}-disk", blueprint.name);
    let image = machine.image.as_deref().unwrap_or_default();
    // Harvester has a storage class for each image, which fills a disk with it.
    let of_image = || format!("longhorn-{}", image.rsplit('/').next().unwrap_or_default());
    let storage_class = place.storage_class.clone().unwrap_or_else(of_image);
    let owners = json!({
        "harvesterhci.io/creator": "harvester",
        labels::TENANT: blueprint.name,
        labels::SOURCE_NAMESPACE: blueprint.source.namespace,
    });
    let machine = json!({
        "metadata": { "namespace": place.namespace, "labels": owners },
        "spec": {
            "runStrategy": "Always",
            "dataVolumeTemplates": [{
                "metadata": { "name": disk, "annotations": { "harvesterhci.io/imageId": image } },
                "spec": {
                    "source": { "blank": {} },
                    "pvc": {
                        "accessModes": ["ReadWriteMany"],
                        "volumeMode": "Block",
                        "storageClassName": storage_class,
                        "resources": { "requests": { "storage": machine.disk } },
                    },
                },
            }],
            "template": {
                "metadata": { "labels": owners },
                "spec": {
                    "domain": {
                        "cpu": { "cores": machine.cpu, "sockets": 1, "threads": 1 },
                        "machine": { "type": "q35" },
                        "resources": {
                            "requests": { "memory": machine.memory },
                            "limits": { "cpu": machine.cpu.to_string(), "memory": machine.memory },
                        },
                        "devices": {
                            "disks": [{ "name": "rootdisk", "disk": { "bus": "virtio" } }],
                            "interfaces": [{ "name": "default", "bridge": {} }],
                        },
                    },
                    "networks": [{ "name": "default", "multus": { "networkName": place.network } }],
                    "volumes": [{ "name": "rootdisk", "dataVolume": { "name": disk } }],
                },
            },
        },
    });
    json!({
        "infraClusterSecretRef": kubevirt_credentials(place),
        "virtualMachineTemplate": machine,
        // Whether a machine has joined, its node tells. By SSH, CAPK would need a way to every machine.
        "virtualMachineBootstrapCheck": { "checkStrategy": "none" },
    })
}

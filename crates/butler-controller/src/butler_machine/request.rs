//! The request that a machine becomes.

use std::collections::BTreeMap;

use butler_api::{
    Quantity,
    butler::machine_request::{
        self, MachineRequest, MachineRequestSpec, MachineResources, MachineRole,
    },
    cluster_api::butler_machine::{ButlerMachine, ExtraDisk},
    conditions::reasons,
    keys::{labels, secret_keys, values},
    normalize::{machine_request::normalize, machine_size},
    reference::{NamespacedReference, SecretReference},
};
use butler_runtime::conditions::Finding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

use crate::cluster_api::MachineFacts;

/// The request for a machine, or what is wrong with the machine's spec.
pub(super) fn request(
    machine: &ButlerMachine,
    owner: &MachineFacts,
    user_data: &str,
    provider: &NamespacedReference,
) -> Result<MachineRequest, Finding> {
    let shape = &machine.spec.shape;
    let network = shape.network.as_ref();
    if network.is_some_and(|network| network.name.is_some()) {
        let message = "spec.network.name: a machine is on the network of its ProviderConfig in this version; \
            leave it out, or name another ProviderConfig in spec.providerRef";
        return Err(Finding::new(false, reasons::NOT_YET_IMPLEMENTED, message));
    }
    let spec = MachineRequestSpec {
        provider_ref: Some(provider.clone()),
        provider_config_ref: None,
        machine_name: None,
        role: role(owner).into(),
        cpu: None,
        memory_mb: None,
        disk_gb: None,
        resources: Some(MachineResources {
            cpu: Quantity::new(shape.cpu.to_string()),
            memory: shape.memory.clone(),
            disk: shape.disk.clone(),
        }),
        extra_disks: extra_disks(&shape.extra_disks)?,
        image: shape.image.clone(),
        user_data: None,
        user_data_secret_ref: Some(SecretReference {
            name: user_data.to_owned(),
            namespace: None,
            key: Some(secret_keys::VALUE.to_owned()),
        }),
        network_data: network.and_then(|network| network.network_data.clone()),
        labels: machine_labels(machine, owner),
    };
    normalize(&machine.name_any(), &spec).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        // The machine has these fields of the request one level higher.
        let message = errors.join("; ").replace("spec.resources.", "spec.");
        invalid(message)
    })?;
    Ok(MachineRequest {
        metadata: metadata(machine, owner),
        spec,
        status: None,
    })
}

/// The labels of the machine in its infrastructure. What Butler says of it goes before what the user says.
pub(super) fn machine_labels(
    machine: &ButlerMachine,
    owner: &MachineFacts,
) -> BTreeMap<String, String> {
    let mut found = machine.spec.shape.labels.clone();
    found.extend(kubernetes_labels(owner));
    if let Some(domain) = failure_domain(machine, Some(owner)) {
        found.insert(labels::ZONE.to_owned(), domain);
    }
    found
}

/// Where the machine shall run.
pub(super) fn failure_domain(
    machine: &ButlerMachine,
    owner: Option<&MachineFacts>,
) -> Option<String> {
    let own = machine.spec.shape.failure_domain.clone();
    own.or_else(|| owner.and_then(|owner| owner.failure_domain.clone()))
}

fn role(owner: &MachineFacts) -> MachineRole {
    if owner.control_plane {
        MachineRole::ControlPlane
    } else {
        MachineRole::Worker
    }
}

/// To which cluster a machine belongs, and what it is there.
fn kubernetes_labels(owner: &MachineFacts) -> BTreeMap<String, String> {
    [
        (labels::CLUSTER_API_CLUSTER, owner.cluster.as_str()),
        (labels::ROLE, role(owner).as_str()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// The request is known as this machine's by its labels. The owner reference is for the garbage collector alone, should the
/// machine go while its request is on the way.
fn metadata(machine: &ButlerMachine, owner: &MachineFacts) -> ObjectMeta {
    let uid = machine.uid().unwrap_or_default();
    let kind = ButlerMachine::kind(&()).into_owned();
    let mut found = kubernetes_labels(owner);
    found.extend([
        (
            labels::MANAGED_BY.to_owned(),
            values::MANAGED_BY_BUTLER.to_owned(),
        ),
        (labels::OWNER_UID.to_owned(), uid.clone()),
        (labels::OWNER_KIND.to_owned(), kind.clone()),
    ]);
    ObjectMeta {
        name: Some(machine.name_any()),
        namespace: machine.namespace(),
        labels: Some(found),
        owner_references: Some(vec![OwnerReference {
            api_version: ButlerMachine::api_version(&()).into_owned(),
            kind,
            name: machine.name_any(),
            uid,
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    }
}

fn extra_disks(disks: &[ExtraDisk]) -> Result<Vec<machine_request::ExtraDisk>, Finding> {
    let read = |(index, disk): (usize, &ExtraDisk)| {
        let amount = disk.size.amount().ok().map(machine_size::gibibytes);
        let size = amount.and_then(|size| i32::try_from(size).ok());
        let size_gb = size.filter(|size| *size > 0).ok_or_else(|| {
            invalid(format!(
                "spec.extraDisks[{index}].size must be a quantity such as 100Gi"
            ))
        })?;
        Ok(machine_request::ExtraDisk {
            size_gb,
            storage_class: disk.storage_class.clone(),
        })
    };
    disks.iter().enumerate().map(read).collect()
}

fn invalid(message: String) -> Finding {
    Finding::new(false, reasons::VALIDATION_FAILED, message)
}

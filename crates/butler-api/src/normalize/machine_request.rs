//! The one reading of a `MachineRequest`.
//!
//! Owns what the two spellings of a request mean. Asks nothing and decides nothing: whether the provider exists, or
//! whether the image does, is for others to find out.

use std::collections::BTreeMap;

use super::FieldError;
use super::machine_size::{LeastSize, MachineSize};
use crate::butler::machine_request::{
    ExtraDisk, MachineRequestSpec, MachineResources, MachineRole, SensitiveText,
};
use crate::name::is_dns_label;
use crate::reference::{NamespacedReference, SecretReference};

/// A request for a machine, whichever way it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalizedMachineRequest {
    /// Name of the machine at the provider, and its host name.
    pub machine_name: String,
    /// What the machine is for.
    pub role: MachineRole,
    /// Processors, memory and root disk.
    pub size: MachineSize,
    /// The provider configuration; in the request's namespace if none is given.
    pub provider: NamespacedReference,
    /// Disks beside the root disk.
    pub extra_disks: Vec<ExtraDisk>,
    /// Image the machine boots, if it is not the provider configuration's.
    pub image: Option<String>,
    /// What the machine is told at its first boot.
    pub user_data: Option<UserData>,
    /// Network configuration for the first boot.
    pub network_data: Option<String>,
    /// Labels or tags to put on the machine at the provider.
    pub labels: BTreeMap<String, String>,
}

/// Where a machine's user data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserData {
    /// In the request itself.
    Inline(SensitiveText),
    /// In a Secret, under the key `value` if none is given.
    Secret(SecretReference),
}

/// Reads a request named `object_name`, or says which fields break which rules.
pub fn normalize(
    object_name: &str,
    spec: &MachineRequestSpec,
) -> Result<NormalizedMachineRequest, Vec<FieldError>> {
    let mut errors = Vec::new();
    let machine_name = machine_name(object_name, spec, &mut errors);
    let size = size(spec, &mut errors);
    let provider = provider(spec, &mut errors);
    let user_data = user_data(spec, &mut errors);
    for (index, disk) in spec.extra_disks.iter().enumerate() {
        if disk.size_gb < 1 {
            errors.push(FieldError::new(
                format!("spec.extraDisks[{index}].sizeGB"),
                "must be at least 1",
            ));
        }
    }
    match (size, provider) {
        (Some(size), Some(provider)) if errors.is_empty() => Ok(NormalizedMachineRequest {
            machine_name: machine_name.to_owned(),
            role: spec.role.into(),
            size,
            provider,
            extra_disks: spec.extra_disks.clone(),
            image: spec.image.clone(),
            user_data,
            network_data: spec.network_data.clone(),
            labels: spec.labels.clone(),
        }),
        _ => Err(errors),
    }
}

fn machine_name<'a>(
    object_name: &'a str,
    spec: &'a MachineRequestSpec,
    errors: &mut Vec<FieldError>,
) -> &'a str {
    let (path, name) = match &spec.machine_name {
        Some(name) => ("spec.machineName", name.as_str()),
        None => ("metadata.name", object_name),
    };
    if !is_dns_label(name) {
        errors.push(FieldError::new(
            path,
            "must be a DNS label of at most 63 characters, because it names the machine",
        ));
    }
    name
}

/// What any machine needs to boot.
const LEAST: LeastSize = LeastSize {
    memory_mib: 1024,
    disk_gib: 10,
};

fn size(spec: &MachineRequestSpec, errors: &mut Vec<FieldError>) -> Option<MachineSize> {
    match (&spec.resources, spec.cpu, spec.memory_mb, spec.disk_gb) {
        (Some(MachineResources { cpu, memory, disk }), None, None, None) => LEAST.of_quantities(
            [
                ("spec.resources.cpu", cpu),
                ("spec.resources.memory", memory),
                ("spec.resources.disk", disk),
            ],
            errors,
        ),
        (None, Some(cpu), Some(memory), Some(disk)) => LEAST.of_numbers(
            [
                ("spec.cpu", cpu),
                ("spec.memoryMB", memory),
                ("spec.diskGB", disk),
            ],
            errors,
        ),
        _ => {
            errors.push(FieldError::new(
                "spec.resources",
                "or all of spec.cpu, spec.memoryMB and spec.diskGB must be given, and not both",
            ));
            None
        }
    }
}

fn provider(
    spec: &MachineRequestSpec,
    errors: &mut Vec<FieldError>,
) -> Option<NamespacedReference> {
    match (&spec.provider_ref, &spec.provider_config_ref) {
        (Some(reference), None) | (None, Some(reference)) => Some(reference.clone()),
        (None, None) | (Some(_), Some(_)) => {
            errors.push(FieldError::new(
                "spec.providerRef",
                "or spec.providerConfigRef must be given, and not both",
            ));
            None
        }
    }
}

fn user_data(spec: &MachineRequestSpec, errors: &mut Vec<FieldError>) -> Option<UserData> {
    match (&spec.user_data, &spec.user_data_secret_ref) {
        (Some(text), None) => Some(UserData::Inline(text.clone())),
        (None, Some(secret)) => Some(UserData::Secret(secret.clone())),
        (None, None) => None,
        (Some(_), Some(_)) => {
            errors.push(FieldError::new(
                "spec.userData",
                "and spec.userDataSecretRef exclude each other",
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: Value) -> Result<NormalizedMachineRequest, Vec<String>> {
        let spec: MachineRequestSpec = serde_json::from_value(spec).expect("the request parses");
        normalize("butler-mgmt-cp-0", &spec)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn both_spellings_of_a_machine_mean_the_same() {
        let quantities = read(json!({
            "role": "controlplane",
            "providerConfigRef": { "name": "harvester-config" },
            "resources": { "cpu": 4, "memory": "16Gi", "disk": "100Gi" },
        }))
        .unwrap();
        let numbers = read(json!({
            "machineName": "butler-mgmt-cp-0",
            "role": "control-plane",
            "providerRef": { "name": "harvester-config" },
            "cpu": 4, "memoryMB": 16384, "diskGB": 100,
        }))
        .unwrap();
        assert_eq!(quantities, numbers);
        assert_eq!(
            quantities.size,
            MachineSize {
                cpu: 4,
                memory_mib: 16384,
                disk_gib: 100
            }
        );
        assert_eq!(quantities.role, MachineRole::ControlPlane);
    }

    #[test]
    fn machine_is_named_after_its_request_only_where_that_is_a_host_name() {
        let spec: MachineRequestSpec = serde_json::from_value(json!({
            "role": "worker", "providerRef": { "name": "a" }, "cpu": 1, "memoryMB": 1024, "diskGB": 10,
        }))
        .unwrap();
        assert_eq!(
            normalize("worker-0", &spec).unwrap().machine_name,
            "worker-0"
        );
        let errors = normalize("worker.0", &spec).unwrap_err();
        assert_eq!(errors[0].path, "metadata.name");
    }

    #[test]
    fn every_broken_rule_is_named_with_its_field() {
        let errors = read(json!({
            "machineName": "Not_a_host",
            "role": "worker",
            "resources": { "cpu": "1500m", "memory": "16Gi", "disk": "100Gi" },
            "extraDisks": [{ "sizeGB": 0 }],
        }))
        .unwrap_err();
        assert_eq!(
            errors,
            [
                "spec.machineName must be a DNS label of at most 63 characters, because it names the machine",
                "spec.resources.cpu must be a whole number from 1 to 128",
                "spec.providerRef or spec.providerConfigRef must be given, and not both",
                "spec.extraDisks[0].sizeGB must be at least 1",
            ]
        );
    }

    #[test]
    fn too_small_machines_are_refused_in_both_spellings() {
        let base = json!({ "role": "worker", "providerRef": { "name": "a" } });
        let mut quantities = base.clone();
        quantities["resources"] = json!({ "cpu": "1", "memory": "512Mi", "disk": "5Gi" });
        assert_eq!(
            read(quantities).unwrap_err(),
            [
                "spec.resources.memory must be at least 1024 MiB",
                "spec.resources.disk must be at least 10 GiB",
            ]
        );
        let mut numbers = base;
        numbers["cpu"] = json!(0);
        numbers["memoryMB"] = json!(512);
        numbers["diskGB"] = json!(-1);
        assert_eq!(read(numbers).unwrap_err().len(), 3);
    }

    #[test]
    fn user_data_is_given_once() {
        let errors = read(json!({
            "role": "worker", "providerRef": { "name": "a" },
            "cpu": 1, "memoryMB": 1024, "diskGB": 10,
            "userData": "x", "userDataSecretRef": { "name": "y" },
        }))
        .unwrap_err();
        assert_eq!(
            errors,
            ["spec.userData and spec.userDataSecretRef exclude each other"]
        );
    }
}

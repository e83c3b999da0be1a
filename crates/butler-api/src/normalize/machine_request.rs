//! The one reading of a `MachineRequest`.
//!
//! Owns what the two spellings of a request mean. Asks nothing and decides nothing: whether the provider exists, or
//! whether the image does, is for others to find out.

use std::collections::BTreeMap;

use crate::Quantity;
use crate::butler::machine_request::{
    ExtraDisk, MachineRequestSpec, MachineResources, MachineRole, SensitiveText,
};
use crate::reference::{NamespacedReference, SecretReference};

/// One MiB in bytes.
pub(super) const MEBIBYTE: u128 = 1 << 20;
/// One GiB in bytes.
pub(super) const GIBIBYTE: u128 = 1 << 30;

/// A field that breaks a rule. The API server refuses most of these; objects stored before a rule existed, or read from
/// a file, meet the rule here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{path} {rule}")]
pub struct FieldError {
    /// The field, as it is written in the manifest: `spec.resources.memory`.
    pub path: String,
    /// What the field must be, as the end of a sentence: `must be at least 1Gi`.
    pub rule: String,
}

impl FieldError {
    pub(super) fn new(path: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            rule: rule.into(),
        }
    }
}

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

/// How big a machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineSize {
    /// Number of virtual processors.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Root disk in GiB.
    pub disk_gib: u32,
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

/// Whether the text is one label of a DNS name, in lower case.
pub(super) fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The least sizes a kind of machine may have.
pub(super) struct LeastSize {
    pub(super) memory_mib: u32,
    pub(super) disk_gib: u32,
}

fn size(spec: &MachineRequestSpec, errors: &mut Vec<FieldError>) -> Option<MachineSize> {
    let least = LeastSize {
        memory_mib: 1024,
        disk_gib: 10,
    };
    match (&spec.resources, spec.cpu, spec.memory_mb, spec.disk_gb) {
        (Some(MachineResources { cpu, memory, disk }), None, None, None) => size_of_quantities(
            [
                ("spec.resources.cpu", cpu),
                ("spec.resources.memory", memory),
                ("spec.resources.disk", disk),
            ],
            &least,
            errors,
        ),
        (None, Some(cpu), Some(memory), Some(disk)) => size_of_numbers(
            [
                ("spec.cpu", cpu),
                ("spec.memoryMB", memory),
                ("spec.diskGB", disk),
            ],
            &least,
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

/// A size written as quantities: processors, memory and disk, each with its path.
pub(super) fn size_of_quantities(
    [(cpu_path, cpu), (memory_path, memory), (disk_path, disk)]: [(&str, &Quantity); 3],
    least: &LeastSize,
    errors: &mut Vec<FieldError>,
) -> Option<MachineSize> {
    let mut read = |path: &str, quantity: &Quantity, unit: u128| {
        let units = whole_units(quantity, unit);
        if units.is_none() {
            errors.push(FieldError::new(
                path,
                "must be a quantity such as 4 or 16Gi",
            ));
        }
        units
    };
    let thousandths = read(cpu_path, cpu, 0);
    let memory = read(memory_path, memory, MEBIBYTE);
    let disk = read(disk_path, disk, GIBIBYTE);
    let (thousandths, memory, disk) = (thousandths?, memory?, disk?);
    if thousandths % 1000 != 0 {
        errors.push(FieldError::new(
            cpu_path,
            "must be a whole number from 1 to 128",
        ));
        return None;
    }
    check_size(
        [
            (cpu_path, thousandths / 1000),
            (memory_path, memory),
            (disk_path, disk),
        ],
        least,
        errors,
    )
}

/// A size written as whole numbers: processors, MiB and GiB, each with its path.
pub(super) fn size_of_numbers(
    sizes: [(&str, i32); 3],
    least: &LeastSize,
    errors: &mut Vec<FieldError>,
) -> Option<MachineSize> {
    check_size(
        sizes.map(|(path, size)| (path, u32::try_from(size).unwrap_or(0))),
        least,
        errors,
    )
}

fn check_size(
    [
        (cpu_path, cpu),
        (memory_path, memory_mib),
        (disk_path, disk_gib),
    ]: [(&str, u32); 3],
    least: &LeastSize,
    errors: &mut Vec<FieldError>,
) -> Option<MachineSize> {
    let before = errors.len();
    if !(1..=128).contains(&cpu) {
        errors.push(FieldError::new(
            cpu_path,
            "must be a whole number from 1 to 128",
        ));
    }
    if memory_mib < least.memory_mib {
        let rule = format!("must be at least {} MiB", least.memory_mib);
        errors.push(FieldError::new(memory_path, rule));
    }
    if disk_gib < least.disk_gib {
        let rule = format!("must be at least {} GiB", least.disk_gib);
        errors.push(FieldError::new(disk_path, rule));
    }
    (errors.len() == before).then_some(MachineSize {
        cpu,
        memory_mib,
        disk_gib,
    })
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

/// How many whole `unit`s of bytes a quantity needs, rounded up; with a unit of 0, its thousandths. None if the text is
/// no positive quantity or too large.
fn whole_units(quantity: &Quantity, unit: u128) -> Option<u32> {
    const SUFFIXES: [(&str, u128, u128); 14] = [
        ("Ki", 1 << 10, 1),
        ("Mi", 1 << 20, 1),
        ("Gi", 1 << 30, 1),
        ("Ti", 1 << 40, 1),
        ("Pi", 1 << 50, 1),
        ("Ei", 1 << 60, 1),
        ("m", 1, 1000),
        ("k", 1_000, 1),
        ("M", 1_000_000, 1),
        ("G", 1_000_000_000, 1),
        ("T", 1_000_000_000_000, 1),
        ("P", 1_000_000_000_000_000, 1),
        ("E", 1_000_000_000_000_000_000, 1),
        ("", 1, 1),
    ];
    let (number, multiplier, divisor) = SUFFIXES.iter().find_map(|(suffix, times, over)| {
        quantity
            .0
            .strip_suffix(suffix)
            .map(|number| (number, *times, *over))
    })?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 18 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let numerator = digits.parse::<u128>().ok()?.checked_mul(multiplier)?;
    let denominator = divisor.checked_mul(scale)?;
    let units = if unit == 0 {
        numerator.checked_mul(1000)?.div_ceil(denominator)
    } else {
        numerator.div_ceil(denominator.checked_mul(unit)?)
    };
    u32::try_from(units).ok()
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

    #[test]
    fn quantities_round_up_to_whole_units() {
        let units = |text: &str, unit| whole_units(&Quantity(text.to_owned()), unit);
        assert_eq!(units("16Gi", MEBIBYTE), Some(16384));
        assert_eq!(units("1.5Gi", MEBIBYTE), Some(1536));
        assert_eq!(units("1G", MEBIBYTE), Some(954));
        assert_eq!(units("107374182400", GIBIBYTE), Some(100));
        assert_eq!(units("4", 0), Some(4000));
        assert_eq!(units("2500m", 0), Some(2500));
        for bad in ["", "Gi", "-1Gi", "1 Gi", "1Gb", ".", "999999Ei", "1.2.3"] {
            assert_eq!(units(bad, MEBIBYTE), None, "{bad}");
        }
    }
}

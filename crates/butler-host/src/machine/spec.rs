//! What is asked of a machine.

use std::{
    fmt,
    net::Ipv4Addr,
    path::{Component, PathBuf},
    str::FromStr,
};

use butler_api::name::MachineName;
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::HostFacts;
use crate::network::NetworkSpec;

/// A tenth of a processor: with less, nothing answers in time.
const LEAST_MILLICORES: u64 = 100;
/// Enough for a first process and a shell.
const LEAST_MEMORY: u64 = 32 * 1024 * 1024;
/// The kernel's limit.
const LONGEST_HOSTNAME: usize = 64;

/// Who a machine is, other than its name: one made anew under the same name has another. A UUID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachineId(String);

/// A text that is no UUID.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "machine id {value:?} is not valid: use a UUID in lower case, such as 6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
)]
pub struct MachineIdError {
    /// The text.
    pub value: String,
}

impl MachineId {
    /// With dashes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As `/etc/machine-id` has it: thirty-two digits.
    pub fn digits(&self) -> String {
        self.0.replace('-', "")
    }
}

impl TryFrom<String> for MachineId {
    type Error = MachineIdError;

    fn try_from(value: String) -> Result<Self, Self::Error> {
        let groups: Vec<&str> = value.split('-').collect();
        let valid = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
            && groups
                .concat()
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if valid {
            Ok(Self(value))
        } else {
            Err(MachineIdError { value })
        }
    }
}

impl FromStr for MachineId {
    type Err = MachineIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_owned().try_into()
    }
}

impl From<MachineId> for String {
    fn from(id: MachineId) -> Self {
        id.0
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A file or directory of the host that a machine sees, read-only unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bind {
    /// On the host; absolute.
    pub source: PathBuf,
    /// In the machine; absolute.
    pub destination: PathBuf,
    /// Whether the machine may write there.
    #[serde(default)]
    pub writable: bool,
}

/// A file that is on the disk of a machine from the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskFile {
    /// In the machine; absolute.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// What is in it.
    pub text: String,
}

/// What is on the disk of a machine from the beginning, beside what every machine has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskContents {
    /// Small files, such as configurations.
    #[serde(default)]
    pub files: Vec<DiskFile>,
    /// A prepared containerd root on the host, of which the machine gets a copy that shares all it can.
    #[serde(default)]
    pub image_store: Option<PathBuf>,
}

/// What is asked of a machine. User data is not part of it: it holds secrets and may come later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Name on this host.
    pub name: MachineName,
    /// Also the machine id that programs in it see.
    pub id: MachineId,
    /// What the machine calls itself; mostly its name.
    pub hostname: String,
    /// Thousandths of a processor.
    pub cpu_millicores: u64,
    /// Memory of all processes together.
    pub memory_bytes: u64,
    /// On the bridge, with the length of its range: `10.213.7.10/24`.
    pub address: Ipv4Net,
    /// Where packets for other ranges go; without one they go nowhere.
    pub gateway: Option<Ipv4Addr>,
    /// The first process: a program in the machine and its arguments.
    pub init: Vec<String>,
    /// What it sees of the host beside `/usr`.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// What is on its disk from the beginning.
    #[serde(default)]
    pub disk: DiskContents,
}

/// Why a machine cannot be as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// More than there is.
    #[error("machine {name} asks for {asked} {unit} and this host has {available}; ask for less")]
    TooLarge {
        /// Which machine.
        name: MachineName,
        /// How much it asks for.
        asked: u64,
        /// How much there is.
        available: u64,
        /// Of what.
        unit: &'static str,
    },
    /// A value breaks a rule.
    #[error("{field} of machine {name} is not valid: {rule}")]
    Invalid {
        /// Which machine.
        name: MachineName,
        /// `hostname`, `binds[0].source`.
        field: String,
        /// What it has to be.
        rule: String,
    },
}

impl MachineSpec {
    /// Whether this host, with this network, can have such a machine.
    pub fn validate(&self, host: &HostFacts, network: &NetworkSpec) -> Result<(), SpecError> {
        self.validate_size(host)?;
        self.validate_address(network)?;
        let label = |part: &str| part.parse::<MachineName>().is_ok();
        if self.hostname.len() > LONGEST_HOSTNAME || !self.hostname.split('.').all(label) {
            return Err(self.invalid(
                "hostname",
                "use labels of lower case letters, digits and dashes, joined by dots, at most 64 characters",
            ));
        }
        let program = self.init.first().map_or("", String::as_str);
        if !program.starts_with('/') {
            return Err(self.invalid("init", "name a program by its absolute path in the machine"));
        }
        for (index, bind) in self.binds.iter().enumerate() {
            if !bind.source.is_absolute() || !bind.destination.is_absolute() {
                return Err(self.invalid(format!("binds[{index}]"), "both paths must be absolute"));
            }
        }
        for (index, file) in self.disk.files.iter().enumerate() {
            let climbs = file
                .path
                .components()
                .any(|part| part == Component::ParentDir);
            if !file.path.is_absolute() || climbs {
                return Err(self.invalid(
                    format!("disk.files[{index}]"),
                    "the path must be absolute and without ..",
                ));
            }
        }
        if self
            .disk
            .image_store
            .as_ref()
            .is_some_and(|store| !store.is_absolute())
        {
            return Err(self.invalid("disk.imageStore", "the path must be absolute"));
        }
        Ok(())
    }

    /// Whole processors: what a machine reports. A part of one counts as one.
    pub fn reported_processors(&self) -> u64 {
        self.cpu_millicores.div_ceil(1000).max(1)
    }

    fn validate_size(&self, host: &HostFacts) -> Result<(), SpecError> {
        for (field, unit, asked, least, available) in [
            (
                "cpuMillicores",
                "millicores",
                self.cpu_millicores,
                LEAST_MILLICORES,
                host.cpu_millicores,
            ),
            (
                "memoryBytes",
                "bytes of memory",
                self.memory_bytes,
                LEAST_MEMORY,
                host.memory_bytes,
            ),
        ] {
            if asked < least {
                return Err(self.invalid(field, format!("it must be at least {least}")));
            }
            if asked > available {
                return Err(SpecError::TooLarge {
                    name: self.name.clone(),
                    asked,
                    available,
                    unit,
                });
            }
        }
        Ok(())
    }

    fn validate_address(&self, network: &NetworkSpec) -> Result<(), SpecError> {
        let range = network.range();
        let address = self.address.addr();
        if self.address.trunc() != range {
            return Err(self.invalid(
                "address",
                format!("it must be in {range}, with that length"),
            ));
        }
        if [range.network(), range.broadcast(), network.host()].contains(&address) {
            return Err(self.invalid(
                "address",
                format!("{address} is the range's own or the host's; take another"),
            ));
        }
        if self
            .gateway
            .is_some_and(|gateway| gateway == address || !range.contains(&gateway))
        {
            return Err(self.invalid("gateway", format!("it must be another address in {range}")));
        }
        Ok(())
    }

    fn invalid(&self, field: impl Into<String>, rule: impl Into<String>) -> SpecError {
        SpecError::Invalid {
            name: self.name.clone(),
            field: field.into(),
            rule: rule.into(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::machine::TopLevel;

    pub(crate) fn worker() -> MachineSpec {
        MachineSpec {
            name: "worker-1".parse().unwrap(),
            id: "6f9619ff-8b86-4d01-b42d-00cf4fc964ff".parse().unwrap(),
            hostname: "worker-1".to_owned(),
            cpu_millicores: 1500,
            memory_bytes: 2 * 1024 * 1024 * 1024,
            address: "10.213.7.10/24".parse().unwrap(),
            gateway: Some("10.213.7.1".parse().unwrap()),
            init: vec!["/opt/butler/bin/butler".to_owned(), "init".to_owned()],
            binds: vec![Bind {
                source: "/usr/local/bin/butler".into(),
                destination: "/opt/butler/bin/butler".into(),
                writable: false,
            }],
            disk: DiskContents::default(),
        }
    }

    pub(crate) fn host() -> HostFacts {
        HostFacts {
            cpu_millicores: 2000,
            memory_bytes: 8 * 1024 * 1024 * 1024,
            capabilities: vec!["CAP_CHOWN", "CAP_NET_ADMIN", "CAP_SYS_ADMIN"],
            top_level: BTreeMap::from([
                ("bin", TopLevel::Link("usr/bin".into())),
                ("lib", TopLevel::Link("usr/lib".into())),
                ("lib64", TopLevel::Link("usr/lib64".into())),
                ("sbin", TopLevel::Link("usr/sbin".into())),
            ]),
            processors:
                "processor\t: 0\ncpu MHz\t\t: 2400.000\n\nprocessor\t: 1\ncpu MHz\t\t: 2400.000\n\n"
                    .to_owned(),
            memory_nodes: true,
        }
    }

    fn network() -> NetworkSpec {
        NetworkSpec::new("br7".parse().unwrap(), "10.213.7.1/24".parse().unwrap())
    }

    #[test]
    fn a_machine_within_the_host_is_accepted() {
        assert_eq!(worker().validate(&host(), &network()), Ok(()));
    }

    #[test]
    fn a_machine_larger_than_the_host_is_refused() {
        let mut large = worker();
        large.cpu_millicores = 3000;
        assert_eq!(
            large.validate(&host(), &network()).unwrap_err().to_string(),
            "machine worker-1 asks for 3000 millicores and this host has 2000; ask for less"
        );
        let mut large = worker();
        large.memory_bytes = 9 * 1024 * 1024 * 1024;
        assert!(matches!(
            large.validate(&host(), &network()),
            Err(SpecError::TooLarge {
                unit: "bytes of memory",
                ..
            })
        ));
    }

    type Spoil = fn(&mut MachineSpec);

    #[test]
    fn what_breaks_a_rule_is_told_its_field() {
        let cases: [(Spoil, &str); 11] = [
            (|spec| spec.cpu_millicores = 1, "cpuMillicores"),
            (|spec| spec.memory_bytes = 1, "memoryBytes"),
            (
                |spec| spec.address = "10.214.7.10/24".parse().unwrap(),
                "address",
            ),
            (
                |spec| spec.address = "10.213.7.10/25".parse().unwrap(),
                "address",
            ),
            (
                |spec| spec.address = "10.213.7.1/24".parse().unwrap(),
                "address",
            ),
            (
                |spec| spec.gateway = Some("192.0.2.1".parse().unwrap()),
                "gateway",
            ),
            (|spec| spec.hostname = "Worker_1".to_owned(), "hostname"),
            (|spec| spec.init = Vec::new(), "init"),
            (|spec| spec.binds[0].source = "butler".into(), "binds[0]"),
            (
                |spec| {
                    spec.disk.files.push(DiskFile {
                        path: "/etc/../../escape".into(),
                        mode: 0o644,
                        text: String::new(),
                    });
                },
                "disk.files[0]",
            ),
            (
                |spec| spec.disk.image_store = Some("store".into()),
                "disk.imageStore",
            ),
        ];
        for (spoil, expected) in cases {
            let mut spec = worker();
            spoil(&mut spec);
            match spec.validate(&host(), &network()) {
                Err(SpecError::Invalid { field, .. }) => assert_eq!(field, expected),
                other => panic!("{expected}: {other:?}"),
            }
        }
    }

    #[test]
    fn only_a_uuid_is_a_machine_id() {
        for text in [
            "",
            "6f9619ff8b864d01b42d00cf4fc964ff",
            "6F9619FF-8b86-4d01-b42d-00cf4fc964ff",
            "../../etc",
        ] {
            assert!(text.parse::<MachineId>().is_err(), "{text}");
        }
        assert_eq!(worker().id.digits(), "6f9619ff8b864d01b42d00cf4fc964ff");
    }
}

//! Names in the kernel's network: short ones for interfaces, longer ones for namespaces.

use std::{fmt, str::FromStr};

use butler_api::name::{ClusterName, MachineName};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The kernel allows no more.
const LONGEST: usize = 15;
/// The host's ends of our pairs begin with this; by it they are told from others on the bridge.
pub(super) const MACHINE_INTERFACE_PREFIX: &str = "bm";
/// Of the hash, after the prefix: 48 bits keep a host's machines apart.
const BYTES: usize = 6;

/// Name of a network interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InterfaceName(String);

/// A text that no interface can have as its name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "interface name {value:?} is not valid: use 1 to 15 letters, digits, dashes, underscores and dots, with a letter or digit first"
)]
pub struct InterfaceNameError {
    /// The text.
    pub value: String,
}

impl InterfaceName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for InterfaceName {
    type Error = InterfaceNameError;

    fn try_from(value: String) -> Result<Self, Self::Error> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let valid = value.len() <= LONGEST
            && value.starts_with(|first: char| first.is_ascii_alphanumeric())
            && value.bytes().all(inner);
        if valid {
            Ok(Self(value))
        } else {
            Err(InterfaceNameError { value })
        }
    }
}

impl FromStr for InterfaceName {
    type Err = InterfaceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_owned().try_into()
    }
}

impl From<InterfaceName> for String {
    fn from(name: InterfaceName) -> Self {
        name.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The namespace of a machine. A label has no dot, so two pairs never give the same name.
pub(crate) fn machine_namespace(cluster: &ClusterName, machine: &MachineName) -> String {
    format!("butler-{cluster}.{machine}")
}

/// The host's end of a machine's pair: names of machines are longer than the kernel allows, so it is a hash.
pub(crate) fn machine_interface(cluster: &ClusterName, machine: &MachineName) -> InterfaceName {
    let digest = Sha256::digest(machine_namespace(cluster, machine));
    let number = digest
        .iter()
        .take(BYTES)
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    InterfaceName(format!("{MACHINE_INTERFACE_PREFIX}{number:012x}"))
}

/// The metric of an installation's guards: two may guard the same range, and each removes its own.
pub(super) fn guard_metric(bridge: &InterfaceName) -> u32 {
    let digest = Sha256::digest(bridge.as_str());
    digest
        .iter()
        .take(3)
        .fold(1, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_machine_name_gets_a_short_interface_of_its_own() {
        let cluster: ClusterName = "cellar".parse().unwrap();
        let long = format!("{}-a", "m".repeat(61)).parse().unwrap();
        let other = format!("{}-b", "m".repeat(61)).parse().unwrap();
        let name = machine_interface(&cluster, &long);
        assert!(name.as_str().parse::<InterfaceName>().is_ok(), "{name}");
        assert!(name.as_str().starts_with(MACHINE_INTERFACE_PREFIX));
        assert_ne!(name, machine_interface(&cluster, &other));
        assert_eq!(name, machine_interface(&cluster, &long));
    }

    #[test]
    fn dashes_do_not_let_two_machines_share_a_namespace() {
        let name = |cluster: &str, machine: &str| {
            machine_namespace(&cluster.parse().unwrap(), &machine.parse().unwrap())
        };
        assert_ne!(name("a", "b-c"), name("a-b", "c"));
    }

    #[test]
    fn names_the_kernel_refuses_are_refused_at_once() {
        for text in ["", "sixteencharacter", "a/b", "a b", ".", "..", "-x", "a:1"] {
            assert!(text.parse::<InterfaceName>().is_err(), "{text}");
        }
        for text in ["br-butler", "fifteencharacte", "a.100"] {
            assert!(text.parse::<InterfaceName>().is_ok(), "{text}");
        }
    }
}

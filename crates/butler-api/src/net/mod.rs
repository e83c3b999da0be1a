//! Addresses as users write them.
//!
//! Owns: CIDR blocks, address ranges and endpoints, parsed and in one canonical form.
//!
//! Must not: allocate; that is `butler-ipam`'s.

mod endpoint;
mod range;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

pub use self::endpoint::HostPort;
pub use self::range::AddressRange;

/// An IPv4 or IPv6 block in CIDR notation, as far as a pattern can say it. Used beside an `isCIDR` rule.
pub const CIDR_PATTERN: &str = "^[0-9a-fA-F:.]+/[0-9]{1,3}$";
/// An IPv4 or IPv6 address, as far as a pattern can say it. Used beside an `isIP` rule.
pub const ADDRESS_PATTERN: &str = "^[0-9a-fA-F:.]+$";
/// Longest text of an IPv6 block.
pub const CIDR_LENGTH: u32 = 43;
/// Longest text of an IPv6 address.
pub const ADDRESS_LENGTH: u32 = 39;

/// Says which text is no address, block, range or endpoint, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} {value:?} is not valid: {rule}")]
pub struct NetError {
    /// What the text should have been, in words.
    pub what: &'static str,
    /// The text.
    pub value: String,
    /// The rule it breaks.
    pub rule: String,
}

impl NetError {
    fn new(what: &'static str, value: &str, rule: impl Into<String>) -> Self {
        Self {
            what,
            value: value.to_owned(),
            rule: rule.into(),
        }
    }
}

/// A network block: `10.40.0.0/16`, `fd00::/64`. The address has no bits beyond the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr(IpNet);

impl Cidr {
    /// The block as a network.
    pub const fn network(&self) -> IpNet {
        self.0
    }

    /// The first address.
    pub fn first(&self) -> IpAddr {
        self.0.network()
    }

    /// The last address; in IPv4 the broadcast address.
    pub fn last(&self) -> IpAddr {
        self.0.broadcast()
    }

    /// Number of bits all addresses share.
    pub fn prefix_length(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether this is an IPv6 block.
    pub const fn is_ipv6(&self) -> bool {
        matches!(self.0, IpNet::V6(_))
    }

    /// Whether the address lies in the block.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether all of the other block lies in this one.
    pub fn contains_block(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether the blocks share an address.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains_block(other) || other.contains_block(self)
    }

    /// All addresses of the block, ends included.
    pub fn range(&self) -> AddressRange {
        AddressRange::of_block(self)
    }
}

impl FromStr for Cidr {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |rule: String| NetError::new("CIDR", text, rule);
        let block: IpNet = text.parse().map_err(|_| {
            refuse(
                "write an address and a prefix length, for example 10.40.0.0/16 or fd00::/64"
                    .into(),
            )
        })?;
        if block.addr() == block.network() {
            Ok(Self(block))
        } else {
            Err(refuse(format!(
                "the address has bits beyond the prefix; did you mean {}?",
                block.trunc()
            )))
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Parses one IPv4 or IPv6 address.
pub fn parse_address(text: &str) -> Result<IpAddr, NetError> {
    text.parse().map_err(|_| {
        NetError::new(
            "address",
            text,
            "write an IPv4 or IPv6 address, for example 10.40.1.100 or fd00::10",
        )
    })
}

/// Reads and writes a type by its text, as manifests hold it.
macro_rules! serde_as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}
use serde_as_text;

serde_as_text!(Cidr);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_block_with_host_bits_is_refused_with_the_block_that_was_meant() {
        let error = "10.40.1.7/16".parse::<Cidr>().expect_err("host bits");
        assert_eq!(
            error.to_string(),
            "CIDR \"10.40.1.7/16\" is not valid: the address has bits beyond the prefix; did you mean 10.40.0.0/16?"
        );
    }

    #[test]
    fn ipv6_blocks_are_written_in_canonical_form() {
        let block: Cidr = "FD00:0:0::/64".parse().expect("IPv6");
        assert_eq!(block.to_string(), "fd00::/64");
        assert!(block.is_ipv6() && block.contains("fd00::1".parse().expect("address")));
    }

    /// Any address, of either family.
    pub(super) fn addresses() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
            any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits))),
        ]
    }

    proptest! {
        #[test]
        fn blocks_survive_being_written_and_read(address in addresses(), length in 0_u8..=128) {
            let length = if address.is_ipv4() { length % 33 } else { length };
            let block = IpNet::new(address, length).unwrap().trunc();
            let parsed: Cidr = block.to_string().parse().unwrap();
            prop_assert_eq!(parsed.network(), block);
            prop_assert_eq!(parsed.to_string().parse::<Cidr>().unwrap(), parsed);
            prop_assert!(parsed.range().contains(address));
        }
    }
}

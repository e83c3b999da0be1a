//! Addresses as users write them.
//!
//! Owns: CIDR blocks, address ranges and endpoints, parsed and in one canonical form.
//!
//! Must not: allocate; that is `butler-ipam`'s.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

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
        AddressRange {
            start: self.first(),
            end: self.last(),
        }
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

/// Addresses from `start` to `end`, both included, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    start: IpAddr,
    end: IpAddr,
}

impl AddressRange {
    /// Joins two addresses; refuses a range that runs backwards or mixes families.
    pub fn new(start: IpAddr, end: IpAddr) -> Result<Self, NetError> {
        let refuse = |rule| NetError::new("address range", &format!("{start}-{end}"), rule);
        if start.is_ipv4() != end.is_ipv4() {
            Err(refuse("both ends must be IPv4 or both IPv6"))
        } else if start > end {
            Err(refuse("the start must not come after the end"))
        } else {
            Ok(Self { start, end })
        }
    }

    /// Parses both ends.
    pub fn from_texts(start: &str, end: &str) -> Result<Self, NetError> {
        Self::new(parse_address(start)?, parse_address(end)?)
    }

    /// The first address.
    pub const fn start(&self) -> IpAddr {
        self.start
    }

    /// The last address.
    pub const fn end(&self) -> IpAddr {
        self.end
    }

    /// Whether the address lies in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.start.is_ipv4() && self.start <= address && address <= self.end
    }

    /// Whether the ranges share an address.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start.is_ipv4() == other.start.is_ipv4()
            && self.start <= other.end
            && other.start <= self.end
    }

    /// Number of addresses; `u128::MAX` for the whole of IPv6, which has one more.
    pub fn count(&self) -> u128 {
        (number(self.end) - number(self.start)).saturating_add(1)
    }
}

/// An address as a number; addresses of one family keep their order.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
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

impl FromStr for AddressRange {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (start, end) = text.split_once('-').ok_or_else(|| {
            NetError::new(
                "address range",
                text,
                "write the first and the last address with a dash between, for example 10.40.1.100-10.40.1.150",
            )
        })?;
        Self::from_texts(start.trim(), end.trim())
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.start, self.end)
    }
}

impl Serialize for AddressRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Ends {
            start: IpAddr,
            end: IpAddr,
        }
        Ends {
            start: self.start,
            end: self.end,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AddressRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Spelling {
            Text(String),
            Ends { start: String, end: String },
        }
        match Spelling::deserialize(deserializer)? {
            Spelling::Text(text) => text.parse(),
            Spelling::Ends { start, end } => Self::from_texts(&start, &end),
        }
        .map_err(serde::de::Error::custom)
    }
}

/// Where something listens: `10.40.0.200:6443`, `[fd00::1]:6443`, `api.example.com:443`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    /// Joins a host, an address or a DNS name, and a port other than zero.
    pub fn new(host: &str, port: u16) -> Result<Self, NetError> {
        let refuse = |rule| NetError::new("endpoint", &format!("{host}:{port}"), rule);
        let host = if let Ok(address) = host.parse::<IpAddr>() {
            address.to_string()
        } else {
            let name = host.to_ascii_lowercase();
            if name.parse::<crate::name::ObjectName>().is_err() {
                return Err(refuse("the host must be an address or a DNS name"));
            }
            name
        };
        if port == 0 {
            return Err(refuse("the port must be between 1 and 65535"));
        }
        Ok(Self { host, port })
    }

    /// The address or DNS name, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for HostPort {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |rule| NetError::new("endpoint", text, rule);
        let (host, port) = text
            .rsplit_once(':')
            .ok_or_else(|| refuse("write a host and a port, for example api.example.com:6443"))?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(|| {
                refuse("close the bracket after the IPv6 address: [fd00::1]:6443")
            })?,
            None if host.contains(':') => {
                return Err(refuse("put an IPv6 address in brackets: [fd00::1]:6443"));
            }
            None => host,
        };
        let port = port
            .parse()
            .map_err(|_| refuse("the port must be between 1 and 65535"))?;
        Self::new(host, port)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
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

serde_as_text!(Cidr);
serde_as_text!(HostPort);

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

    #[test]
    fn a_reversed_range_is_refused() {
        let error = "10.0.0.9-10.0.0.1"
            .parse::<AddressRange>()
            .expect_err("reversed");
        assert!(
            error
                .to_string()
                .contains("the start must not come after the end"),
            "{error}"
        );
        let error = "10.0.0.1-fd00::1"
            .parse::<AddressRange>()
            .expect_err("mixed");
        assert!(error.to_string().contains("both IPv6"), "{error}");
        assert!("10.0.0.1".parse::<AddressRange>().is_err());
    }

    #[test]
    fn a_range_is_read_from_text_and_from_an_object() {
        let text: AddressRange = serde_json::from_str("\"10.40.1.100-10.40.1.150\"").expect("text");
        let object: AddressRange =
            serde_json::from_str(r#"{"start":"10.40.1.100","end":"10.40.1.150"}"#).expect("object");
        assert_eq!(text, object);
        assert_eq!(text.count(), 51);
        assert_eq!(
            serde_json::to_string(&text).expect("writes"),
            r#"{"start":"10.40.1.100","end":"10.40.1.150"}"#
        );
    }

    #[test]
    fn the_whole_of_ipv6_can_be_counted_without_overflow() {
        assert_eq!(
            "::/0".parse::<Cidr>().expect("all").range().count(),
            u128::MAX
        );
    }

    #[test]
    fn endpoints_need_brackets_around_ipv6_and_a_port() {
        assert_eq!(
            "[FD00::1]:6443"
                .parse::<HostPort>()
                .expect("IPv6")
                .to_string(),
            "[fd00::1]:6443"
        );
        assert_eq!(
            "API.example.com:443"
                .parse::<HostPort>()
                .expect("name")
                .host(),
            "api.example.com"
        );
        for text in [
            "10.0.0.1",
            "fd00::1:6443",
            "[fd00::1:6443",
            "host:0",
            "host:70000",
            "ho st:1",
            ":1",
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    fn addresses() -> impl Strategy<Value = IpAddr> {
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

        #[test]
        fn ranges_survive_being_written_and_read(one in addresses(), two in addresses()) {
            if let Ok(range) = AddressRange::new(one, two) {
                prop_assert_eq!(range.to_string().parse::<AddressRange>().unwrap(), range);
                let json = serde_json::to_string(&range).unwrap();
                prop_assert_eq!(serde_json::from_str::<AddressRange>(&json).unwrap(), range);
                prop_assert!(range.contains(one) && range.contains(two) && range.overlaps(&range));
            } else {
                prop_assert!(one.is_ipv4() != two.is_ipv4() || one > two);
            }
        }

        #[test]
        fn endpoints_survive_being_written_and_read(address in addresses(), port in 1_u16..) {
            let endpoint = HostPort::new(&address.to_string(), port).unwrap();
            prop_assert_eq!(endpoint.to_string().parse::<HostPort>().unwrap(), endpoint);
        }
    }
}

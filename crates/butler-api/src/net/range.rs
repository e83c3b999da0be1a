//! Ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Cidr, NetError, parse_address};

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

    /// All addresses of a block.
    pub(super) fn of_block(block: &Cidr) -> Self {
        Self {
            start: block.first(),
            end: block.last(),
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

    /// The range without one address: up to two ranges.
    pub fn without(&self, address: IpAddr) -> Vec<Self> {
        if !self.contains(address) {
            return vec![*self];
        }
        let below = (address > self.start)
            .then(|| neighbour(address, false))
            .flatten()
            .map(|end| Self { end, ..*self });
        let above = (address < self.end)
            .then(|| neighbour(address, true))
            .flatten()
            .map(|start| Self { start, ..*self });
        below.into_iter().chain(above).collect()
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

/// The next address up or down within the family.
fn neighbour(address: IpAddr, up: bool) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let next = if up {
                bits.checked_add(1)
            } else {
                bits.checked_sub(1)
            };
            next.map(|bits| Ipv4Addr::from_bits(bits).into())
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let next = if up {
                bits.checked_add(1)
            } else {
                bits.checked_sub(1)
            };
            next.map(|bits| Ipv6Addr::from_bits(bits).into())
        }
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::addresses;
    use super::*;

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
    fn an_address_is_taken_out_of_a_range() {
        let without = |range: &str, address: &str| -> Vec<String> {
            let range: AddressRange = range.parse().expect(range);
            let rest = range.without(address.parse().expect(address));
            rest.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            without("10.0.0.1-10.0.0.9", "10.0.0.5"),
            ["10.0.0.1-10.0.0.4", "10.0.0.6-10.0.0.9"]
        );
        assert_eq!(
            without("10.0.0.1-10.0.0.9", "10.0.0.1"),
            ["10.0.0.2-10.0.0.9"]
        );
        assert_eq!(without("fd00::1-fd00::9", "fd00::9"), ["fd00::1-fd00::8"]);
        assert_eq!(
            without("10.0.0.1-10.0.0.9", "10.0.1.5"),
            ["10.0.0.1-10.0.0.9"]
        );
        assert!(without("10.0.0.1-10.0.0.1", "10.0.0.1").is_empty());
    }

    proptest! {
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
    }
}

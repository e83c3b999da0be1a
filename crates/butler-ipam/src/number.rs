//! Addresses as numbers.
//!
//! Owns: the way between addresses of a family and the numbers all arithmetic of this crate is done in, and the pieces of
//! it that others need: how a range is written, where two ranges meet, which slices a range touches.
//!
//! Must not: know pools. A [`Span`] has no family; whoever keeps spans knows whose they are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use butler_api::net::AddressRange;

/// How many addresses a slice has: a power of two, so that slices fill both families without rest.
pub const SLICE_ADDRESSES: u32 = 1024;

/// Which of the two address families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Number of bits in an address.
    pub const fn bits(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The address of a number; a number beyond the family is its last address.
    pub(crate) fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX)).into(),
            Self::V6 => Ipv6Addr::from_bits(number).into(),
        }
    }

    /// The addresses of a span.
    pub(crate) fn range(self, span: Span) -> AddressRange {
        AddressRange::new(self.address(span.first), self.address(span.last))
            .expect("a span runs forwards, and within one family")
    }
}

/// Numbers from `first` to `last`, both included. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) first: u128,
    pub(crate) last: u128,
}

impl Span {
    /// The numbers of a range.
    pub(crate) fn of(range: &AddressRange) -> Self {
        Self {
            first: number(range.start()),
            last: number(range.end()),
        }
    }

    /// A span of one number.
    pub(crate) const fn one(number: u128) -> Self {
        Self {
            first: number,
            last: number,
        }
    }

    /// How many numbers; one too few for the whole of IPv6, which has more than a `u128` can say.
    pub(crate) const fn length(self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }

    pub(crate) const fn contains(self, number: u128) -> bool {
        self.first <= number && number <= self.last
    }

    pub(crate) const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// What both have.
    pub(crate) fn intersection(self, other: Self) -> Option<Self> {
        self.overlaps(other).then(|| Self {
            first: self.first.max(other.first),
            last: self.last.min(other.last),
        })
    }

    /// The span with one more number at each end, where there is one.
    pub(crate) const fn widened(self) -> Self {
        Self {
            first: self.first.saturating_sub(1),
            last: self.last.saturating_add(1),
        }
    }
}

/// An address as a number; addresses of one family keep their order.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The family of a range.
pub(crate) fn family_of(range: &AddressRange) -> Family {
    Family::of(range.start())
}

/// The range in CIDR notation where it is exactly one block, else `start-end`. Both read back as the same range.
pub fn range_text(range: &AddressRange) -> String {
    let span = Span::of(range);
    // Ones where the addresses of the range differ, if it is a block.
    let host = span.last - span.first;
    if host & host.wrapping_add(1) == 0 && span.first & host == 0 {
        let prefix = family_of(range).bits() - host.count_ones();
        format!("{}/{prefix}", range.start())
    } else {
        range.to_string()
    }
}

/// The addresses both ranges have.
pub fn intersection(one: &AddressRange, other: &AddressRange) -> Option<AddressRange> {
    let family = family_of(one);
    (family == family_of(other))
        .then(|| Span::of(one).intersection(Span::of(other)))
        .flatten()
        .map(|span| family.range(span))
}

/// The slices a range touches, ascending. Slices are [`SLICE_ADDRESSES`] long and aligned, so that two ranges that share
/// an address always share a slice.
pub fn slices(range: &AddressRange) -> impl Iterator<Item = AddressRange> + use<> {
    let family = family_of(range);
    let span = Span::of(range);
    (slice_index(span.first)..=slice_index(span.last)).map(move |index| slice(family, index))
}

/// The slice an address lies in.
pub fn slice_of(address: IpAddr) -> AddressRange {
    slice(Family::of(address), slice_index(number(address)))
}

fn slice_index(number: u128) -> u128 {
    number / u128::from(SLICE_ADDRESSES)
}

fn slice(family: Family, index: u128) -> AddressRange {
    let first = index * u128::from(SLICE_ADDRESSES);
    family.range(Span {
        first,
        last: first + u128::from(SLICE_ADDRESSES - 1),
    })
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;

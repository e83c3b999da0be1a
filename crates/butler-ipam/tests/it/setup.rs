//! Small pools and what may happen to them, at random.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use butler_api::butler::network_pool::{
    NetworkPoolSpec, PoolRange, ReservedBlock, TenantAllocation,
};
use butler_api::net::AddressRange;
use proptest::prelude::*;

const OPERATIONS: usize = 240;

/// Where the small networks lie: also at the very ends of both families.
const PLACES: [Place; 5] = [
    Place {
        ipv6: false,
        base: 0x0a00_0000,
    },
    Place {
        ipv6: false,
        base: 0x0000_0000,
    },
    Place {
        ipv6: false,
        base: 0xffff_ff00,
    },
    Place {
        ipv6: true,
        base: 0xfd00 << 112,
    },
    Place {
        ipv6: true,
        base: u128::MAX - 0xff,
    },
];

pub(crate) fn wide(number: usize) -> u128 {
    u128::try_from(number).expect("fits")
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) ipv6: bool,
    pub(crate) base: u128,
}

impl Place {
    pub(crate) fn address(self, position: usize) -> IpAddr {
        let number = self.base + wide(position);
        if self.ipv6 {
            Ipv6Addr::from_bits(number).into()
        } else {
            Ipv4Addr::from_bits(u32::try_from(number).expect("IPv4")).into()
        }
    }

    pub(crate) fn range(self, first: usize, last: usize) -> AddressRange {
        AddressRange::new(self.address(first), self.address(last)).expect("forwards")
    }

    pub(crate) fn position(self, address: IpAddr) -> usize {
        let number = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        usize::try_from(number - self.base).expect("small")
    }

    pub(crate) fn prefix(self, host_bits: u32) -> u32 {
        (if self.ipv6 { 128 } else { 32 }) - host_bits
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) place: Place,
    pub(crate) host_bits: u32,
    /// Host bits and position.
    pub(crate) reserved: Vec<(u32, usize)>,
    /// First and last position, ascending.
    pub(crate) windows: Vec<(usize, usize)>,
}

impl Setup {
    pub(crate) fn size(&self) -> usize {
        1 << self.host_bits
    }

    pub(crate) fn spec(&self) -> NetworkPoolSpec {
        let block = |host_bits, position| {
            format!(
                "{}/{}",
                self.place.address(position),
                self.place.prefix(host_bits)
            )
        };
        NetworkPoolSpec {
            cidr: block(self.host_bits, 0),
            reserved: self
                .reserved
                .iter()
                .map(|&(host_bits, position)| ReservedBlock {
                    cidr: block(host_bits, position),
                    description: None,
                })
                .collect(),
            tenant_allocation: Some(TenantAllocation {
                ranges: self
                    .windows
                    .iter()
                    .map(|&(first, last)| PoolRange {
                        start: self.place.address(first).to_string(),
                        end: self.place.address(last).to_string(),
                    })
                    .collect(),
                ..TenantAllocation::default()
            }),
        }
    }

    pub(crate) fn is_given(&self, position: usize) -> bool {
        let reserved = self
            .reserved
            .iter()
            .any(|&(host_bits, first)| (first..first + (1 << host_bits)).contains(&position));
        let window = self.windows.is_empty()
            || self
                .windows
                .iter()
                .any(|&(first, last)| first <= position && position <= last);
        let forbidden = self.host_bits >= 2
            && (position == 0 || (!self.place.ipv6 && position == self.size() - 1));
        window && !reserved && !forbidden
    }
}

pub(crate) fn setups() -> impl Strategy<Value = Setup> {
    let place = prop::sample::select(PLACES.to_vec());
    // Mostly networks with room for something to happen.
    let host_bits = prop_oneof![1 => 0_u32..=4, 3 => 5_u32..=8];
    (place, host_bits)
        .prop_flat_map(|(place, host_bits)| {
            let size = 1_usize << host_bits;
            let reserved = (0..=host_bits.saturating_sub(2), 0..size);
            let reserved = prop::collection::vec(reserved, 0..4);
            let cuts = prop::collection::btree_set(0..size, 0..=6);
            (Just((place, host_bits)), reserved, cuts)
        })
        .prop_map(|((place, host_bits), reserved, cuts)| {
            let cuts: Vec<_> = cuts.into_iter().collect();
            Setup {
                // The last block of a family does not begin at its base for smaller networks; any base will do.
                place: Place {
                    base: place.base & !((1 << host_bits) - 1),
                    ..place
                },
                host_bits,
                reserved: reserved
                    .into_iter()
                    .map(|(bits, at)| (bits, at >> bits << bits))
                    .collect(),
                windows: cuts
                    .chunks_exact(2)
                    .map(|ends| (ends[0], ends[1]))
                    .collect(),
            }
        })
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Allocate(u32),
    AllocateExactly(usize, usize),
    Hold(usize, usize),
    Release(usize),
    ReleaseAnything(usize, usize),
    Block(usize, usize),
}

pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let place = || (0_usize..256, 0_usize..12);
    let operation = prop_oneof![
        8 => (1_u32..=24).prop_map(Operation::Allocate),
        1 => (1_u32..=300).prop_map(Operation::Allocate),
        3 => place().prop_map(|(at, length)| Operation::AllocateExactly(at, length)),
        2 => place().prop_map(|(at, length)| Operation::Hold(at, length)),
        8 => (0_usize..1000).prop_map(Operation::Release),
        1 => place().prop_map(|(at, length)| Operation::ReleaseAnything(at, length)),
        1 => (0_usize..256, 0_usize..3).prop_map(|(at, length)| Operation::Block(at, length)),
    ];
    prop::collection::vec(operation, OPERATIONS)
}

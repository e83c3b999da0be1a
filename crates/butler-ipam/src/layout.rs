//! What the spec of a pool says, checked.
//!
//! Owns: the rules a spec must keep, in the words that admission and the controller both use, and which addresses follow
//! from it: those the pool gives out, those it never gives, those it leaves alone.
//!
//! Must not: know who holds what. A layout is a function of the spec.

use std::fmt;
use std::net::IpAddr;

use butler_api::butler::ip_allocation::AllocationType;
use butler_api::butler::network_pool::{AllocationDefaults, NetworkPoolSpec, TenantAllocation};
use butler_api::net::{AddressRange, Cidr, parse_address};
use thiserror::Error;

use crate::number::{Family, Span};
use crate::spans::SpanSet;

const CIDR_FIELD: &str = "spec.cidr";
const WINDOW_FIELD: &str = "spec.tenantAllocation";

/// Addresses for machines when neither the allocation nor the pool says how many.
const DEFAULT_NODES: u32 = 5;
/// Addresses for load balancers when neither the allocation nor the pool says how many.
const DEFAULT_LOAD_BALANCERS: u32 = 8;

/// Says which field of a manifest breaks which rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[error("{field}: {rule}")]
pub struct Violation {
    /// Where it is, as in the manifest: `spec.reserved[2].cidr`.
    pub field: String,
    /// What is wrong there, and what to write instead.
    pub rule: String,
}

impl Violation {
    pub(crate) fn new(field: impl Into<String>, rule: &(impl fmt::Display + ?Sized)) -> Self {
        Self {
            field: field.into(),
            rule: rule.to_string(),
        }
    }
}

/// What the spec of a pool says, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    cidr: Cidr,
    windows: Vec<AddressRange>,
    reserved: Vec<AddressRange>,
    given: SpanSet,
    nodes_by_default: u32,
    load_balancers_by_default: u32,
}

impl Layout {
    /// Checks a spec. All violations are reported, in the order of the fields.
    pub fn of(spec: &NetworkPoolSpec) -> Result<Self, Vec<Violation>> {
        let mut violations = Vec::new();
        let cidr = network(spec, &mut violations);
        let reserved = reserved(spec, cidr, &mut violations);
        let windows = windows(spec.tenant_allocation.as_ref(), cidr, &mut violations);
        let Some(cidr) = cidr.filter(|_| violations.is_empty()) else {
            return Err(violations);
        };
        let windows = if windows.is_empty() {
            vec![cidr.range()]
        } else {
            windows
        };
        let family = Family::of(cidr.first());
        let reserved: SpanSet = reserved
            .iter()
            .map(|block| Span::of(&block.range()))
            .collect();
        let closed = never_given(cidr).chain(reserved.iter()).collect();
        let given = windows
            .iter()
            .map(Span::of)
            .collect::<SpanSet>()
            .without(&closed);
        let defaults = spec
            .tenant_allocation
            .as_ref()
            .and_then(|allocation| allocation.defaults.as_ref());
        let by_default = |count: fn(&AllocationDefaults) -> i32, otherwise| {
            defaults
                .and_then(|defaults| u32::try_from(count(defaults)).ok())
                .filter(|&count| count > 0)
                .unwrap_or(otherwise)
        };
        Ok(Self {
            cidr,
            windows,
            reserved: reserved.iter().map(|span| family.range(span)).collect(),
            given,
            nodes_by_default: by_default(|defaults| defaults.nodes_per_tenant, DEFAULT_NODES),
            load_balancers_by_default: by_default(
                |defaults| defaults.lb_pool_per_tenant,
                DEFAULT_LOAD_BALANCERS,
            ),
        })
    }

    /// IPv4 or IPv6.
    pub fn family(&self) -> Family {
        Family::of(self.cidr.first())
    }

    /// The network.
    pub const fn cidr(&self) -> Cidr {
        self.cidr
    }

    /// The windows addresses are given from, as the spec has them; the whole network if it has none.
    pub fn windows(&self) -> &[AddressRange] {
        &self.windows
    }

    /// The reserved blocks, merged and ascending.
    pub fn reserved(&self) -> &[AddressRange] {
        &self.reserved
    }

    /// The addresses the pool gives out: the windows without what is reserved and what no host may have. Merged and
    /// ascending.
    pub fn given(&self) -> Vec<AddressRange> {
        self.ranges(self.given.iter())
    }

    /// The addresses the pool leaves alone: neither reserved, nor in a window, nor such that no host may have them.
    /// Merged and ascending.
    pub fn unmanaged(&self) -> Vec<AddressRange> {
        self.ranges(self.unmanaged_spans().iter())
    }

    /// How many addresses the longest run has that the pool gives out; no allocation can be larger.
    pub fn largest_window(&self) -> u128 {
        self.given.iter().map(Span::length).max().unwrap_or(0)
    }

    /// How many addresses an allocation gets that does not say.
    pub const fn default_count(&self, kind: AllocationType) -> u32 {
        match kind {
            AllocationType::Nodes => self.nodes_by_default,
            AllocationType::Loadbalancer => self.load_balancers_by_default,
        }
    }

    /// Whether no host may have the address: network and broadcast address in IPv4, the routers' anycast address in IPv6.
    pub(crate) fn is_never_given(&self, address: IpAddr) -> bool {
        Family::of(address) == self.family()
            && never_given(self.cidr).any(|span| span.contains(crate::number::number(address)))
    }

    pub(crate) const fn given_spans(&self) -> &SpanSet {
        &self.given
    }

    pub(crate) fn unmanaged_spans(&self) -> SpanSet {
        let managed = (self.windows.iter().chain(&self.reserved).map(Span::of))
            .chain(never_given(self.cidr))
            .collect();
        [Span::of(&self.cidr.range())]
            .into_iter()
            .collect::<SpanSet>()
            .without(&managed)
    }

    fn ranges(&self, spans: impl Iterator<Item = Span>) -> Vec<AddressRange> {
        let family = self.family();
        spans.map(|span| family.range(span)).collect()
    }
}

/// The addresses both pools give out; two pools that share any would give them twice.
pub fn overlap(one: &Layout, other: &Layout) -> Vec<AddressRange> {
    if one.family() != other.family() {
        return Vec::new();
    }
    let shared = one.given.iter().flat_map(|span| other.given.within(span));
    one.ranges(shared)
}

/// The addresses of a network that no host may have. A network of one or two addresses has none such.
fn never_given(cidr: Cidr) -> impl Iterator<Item = Span> {
    let span = Span::of(&cidr.range());
    let (first, last) = if cidr.is_ipv6() {
        (cidr.prefix_length() <= 126, false)
    } else {
        (cidr.prefix_length() <= 30, cidr.prefix_length() <= 30)
    };
    let first = first.then_some(Span::one(span.first));
    let last = last.then_some(Span::one(span.last));
    first.into_iter().chain(last)
}

fn network(spec: &NetworkPoolSpec, violations: &mut Vec<Violation>) -> Option<Cidr> {
    match spec.cidr.parse::<Cidr>() {
        Ok(cidr) if cidr.prefix_length() == 0 => {
            violations.push(Violation::new(
                CIDR_FIELD,
                &format!("{cidr} is every address there is; write the network that is yours"),
            ));
            None
        }
        Ok(cidr) => Some(cidr),
        Err(error) => {
            violations.push(Violation::new(CIDR_FIELD, &error));
            None
        }
    }
}

fn reserved(
    spec: &NetworkPoolSpec,
    cidr: Option<Cidr>,
    violations: &mut Vec<Violation>,
) -> Vec<Cidr> {
    let mut blocks = Vec::new();
    for (index, reserved) in spec.reserved.iter().enumerate() {
        let field = || format!("spec.reserved[{index}].cidr");
        match (reserved.cidr.parse::<Cidr>(), cidr) {
            (Ok(block), Some(cidr)) if !cidr.contains_block(&block) => {
                let rule = format!("{block} lies outside of the network {cidr}");
                violations.push(Violation::new(field(), &rule));
            }
            (Ok(block), _) => blocks.push(block),
            (Err(error), _) => violations.push(Violation::new(field(), &error)),
        }
    }
    blocks
}

/// The windows of the spec; none if it names none.
fn windows(
    allocation: Option<&TenantAllocation>,
    cidr: Option<Cidr>,
    violations: &mut Vec<Violation>,
) -> Vec<AddressRange> {
    let Some(allocation) = allocation else {
        return Vec::new();
    };
    if allocation.ranges.is_empty() {
        return match (&allocation.start, &allocation.end) {
            (Some(start), Some(end)) => window(WINDOW_FIELD, (start, end), cidr, violations)
                .into_iter()
                .collect(),
            (None, None) => Vec::new(),
            (given, _) => {
                let rule = if given.is_some() {
                    "start is given but end is not; write both, or ranges"
                } else {
                    "end is given but start is not; write both, or ranges"
                };
                violations.push(Violation::new(WINDOW_FIELD, rule));
                Vec::new()
            }
        };
    }
    let mut windows: Vec<AddressRange> = Vec::new();
    for (index, range) in allocation.ranges.iter().enumerate() {
        let field = format!("{WINDOW_FIELD}.ranges[{index}]");
        let ends = (range.start.as_str(), range.end.as_str());
        let Some(window) = window(&field, ends, cidr, violations) else {
            continue;
        };
        if let Some(before) = windows
            .last()
            .filter(|before| before.end() >= window.start())
        {
            let rule = if before.overlaps(&window) {
                format!(
                    "{window} overlaps {before}, the window before it; join them or keep them apart"
                )
            } else {
                format!(
                    "{window} comes after {before} but lies below it; write the windows in ascending order"
                )
            };
            violations.push(Violation::new(field, &rule));
        }
        windows.push(window);
    }
    windows
}

fn window(
    field: &str,
    (start, end): (&str, &str),
    cidr: Option<Cidr>,
    violations: &mut Vec<Violation>,
) -> Option<AddressRange> {
    let mut address = |text| {
        parse_address(text)
            .map_err(|error| violations.push(Violation::new(field, &error)))
            .ok()
    };
    let (start, end) = (address(start), address(end));
    let window = AddressRange::new(start?, end?)
        .map_err(|error| violations.push(Violation::new(field, &error)))
        .ok()?;
    if let Some(cidr) = cidr
        && !(cidr.contains(window.start()) && cidr.contains(window.end()))
    {
        let rule = if cidr.range().overlaps(&window) {
            format!("{window} reaches beyond the network {cidr}")
        } else {
            format!("{window} lies outside of the network {cidr}")
        };
        violations.push(Violation::new(field, &rule));
        return None;
    }
    Some(window)
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;

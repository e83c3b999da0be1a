//! Pools and allocations: no address is ever granted twice, none is lost.

mod claims;
mod orders;
mod truth;

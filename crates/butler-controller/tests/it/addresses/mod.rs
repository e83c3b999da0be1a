//! Pools and allocations: no address is ever granted twice, none is lost.

mod claims;
mod elastic;
mod lives;
mod orders;
mod pools;
mod scene;
mod truth;

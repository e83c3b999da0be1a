//! Pools and allocations: no address is ever granted twice, none is lost.

mod claims;
mod elastic;
mod first;
mod host;
mod lives;
mod machines;
mod orders;
mod pools;
mod scene;
mod truth;

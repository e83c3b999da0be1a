//! Pools and allocations under load: no address is granted twice at any revision, and none is lost.

mod orders;
mod record;
mod replay;
#[cfg(test)]
mod replay_tests;
mod rest;
mod storm;
mod truth;

//! The controllers of the management cluster.
//!
//! Each module is one controller and reads top-down: `mod.rs` says what it owns, watches, writes and which conditions it sets;
//! `observe.rs` reads, `plan.rs` decides. [`run`] wires them into a process. What several controllers read of a kind is in
//! [`projections`], so that they share one watch.

pub mod admission;
pub mod butler_cluster;
pub mod butler_config;
pub mod butler_machine;
pub mod cluster_api;
pub mod ip_allocation;
mod ipam;
pub mod kamaji;
pub mod metrics;
pub mod network_pool;
pub mod projections;
pub mod provider_config;
pub mod run;
pub mod tenant_cluster;
mod tenant_rules;
#[cfg(test)]
mod testing;

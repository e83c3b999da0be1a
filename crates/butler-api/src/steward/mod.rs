//! Kinds of the group `steward.butlerlabs.dev`: hosted control planes and where they keep their data.
//!
//! The parts that a `TenantControlPlane` and a `StewardControlPlane` spell the same way ([`addons`],
//! [`container_resources`], [`deployment`], [`exposure`], [`kubernetes`]) are written once here and used by both.

pub mod addons;
pub mod container_resources;
pub mod data_store;
pub mod deployment;
pub(crate) mod embedded;
pub mod exposure;
pub mod kubeconfig_generator;
pub mod kubernetes;
pub mod tenant_control_plane;

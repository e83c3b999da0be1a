//! Kinds of the group `steward.butlerlabs.dev`: hosted control planes and where they keep their data.
//!
//! The parts that a `TenantControlPlane` and a `StewardControlPlane` spell the same way ([`addons`], [`deployment`],
//! [`exposure`], [`kubernetes`]) are written once here and used by both.
#![expect(
    unreachable_pub,
    reason = "the KubeSchema derive copies a struct into a function body, where its pub reaches nobody"
)]
#![expect(
    clippy::duplicated_attributes,
    reason = "the print columns of a kind share their types"
)]

pub mod addons;
pub mod data_store;
pub mod deployment;
pub(crate) mod embedded;
pub mod exposure;
pub mod kubeconfig_generator;
pub mod kubernetes;
pub mod tenant_control_plane;

#[cfg(test)]
pub(crate) mod manifest;

//! Kinds of the group `steward.butlerlabs.dev`.

pub mod data_store;
pub mod kubeconfig_generator;
pub mod tenant_control_plane;

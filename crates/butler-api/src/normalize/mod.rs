//! Turns every accepted spelling of a manifest into the one the code reads.

pub mod cluster_bootstrap;
pub mod machine_request;
pub mod team;
pub mod tenant_cluster;

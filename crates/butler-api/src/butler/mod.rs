//! Kinds of the group `butler.butlerlabs.dev`.

pub mod addon_definition;
pub mod butler_config;
pub mod cluster_bootstrap;
pub mod cluster_creation_policy;
pub mod control_plane_exposure;
pub mod control_plane_resources;
pub mod identity_provider;
pub mod image_sync;
pub mod ip_allocation;
pub mod load_balancer_request;
pub mod machine_request;
pub mod management_addon;
pub mod network_pool;
pub mod network_pool_ledger;
pub mod provider_config;
pub mod team;
pub mod tenant_addon;
pub mod tenant_cluster;
pub mod user;
pub mod workspace;
pub mod workspace_template;

//! Steward: hosted control planes. API server, controller manager and scheduler of a tenant run as pods of the management
//! cluster, with their certificates, address and part of a data store.
//!
//! [`build`] makes manifests, [`secrets`] certificates and keys, [`store`] a tenant's part of a data store; all of them are
//! told what to do by [`tenant_control_plane`], which alone decides. What speaks to databases is behind [`store::StorePort`],
//! what happens inside of a tenant behind [`tenant_port::TenantPort`], what moves state between databases behind
//! [`move_port::MovePort`]; in a running process these are [`store::Drivers`], [`tenants::Tenants`] and [`moves::Moves`].
//! [`steward_control_plane`] makes Cluster API's control planes of them.
//!
//! Must not: run kubeadm, hold a private key longer than it takes to write it into its Secret, or read the clock where
//! something is decided.

pub mod addresses;
pub mod admission;
pub mod build;
pub mod data_store;
pub mod foreign_routes;
pub mod kubeconfig_generator;
pub mod metrics;
pub mod move_port;
pub mod moves;
pub mod names;
pub mod older_flags;
pub mod own_etcd;
pub mod projections;
pub mod run;
pub mod secrets;
pub mod settings;
pub mod steward_control_plane;
pub mod store;
pub mod tenant_control_plane;
pub mod tenant_port;
pub mod tenants;
#[cfg(test)]
mod testing;
pub mod tunnel;

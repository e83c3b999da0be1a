//! From a `TenantControlPlane` and what is known around it to the objects that make it up. Pure: one module for each family
//! of objects, nothing is read and nothing can fail.

mod budget;
mod egress;
mod exposure;
mod features;
mod pods;
mod service;

use std::{collections::BTreeMap, net::IpAddr};

use butler_api::{
    steward::{data_store::DataStoreDriver, tenant_control_plane::TenantControlPlane},
    version::KubernetesVersion,
};

use crate::{
    names::{Names, SecretRole},
    settings::Settings,
};

pub use budget::budget;
pub use egress::egress_configuration;
pub use exposure::{ingress, routes, traefik};
pub use features::shortfalls;
pub(crate) use pods::merge_arguments;
pub use pods::{
    api_server_image, deployment, mounted, reserved_paths, reserved_volumes, standing_volumes,
};
pub use service::service;

/// The name of the API server's container and of its port.
pub const API_SERVER: &str = "kube-apiserver";
/// The name of the reverse tunnel's container and of its port.
pub const KONNECTIVITY_SERVER: &str = "konnectivity-server";

/// Where a control plane keeps its state, as its pods need to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConnection {
    /// The `DataStore`.
    pub name: String,
    /// What it speaks.
    pub driver: DataStoreDriver,
    /// Its members, as `host:port`.
    pub endpoints: Vec<String>,
    /// The database, or the prefix of the keys.
    pub schema: String,
    /// Whether the connection is encrypted.
    pub encrypted: bool,
    /// Whether a client certificate is shown.
    pub client_certificate: bool,
    /// Resources that are kept in another store, and its members.
    pub overrides: Vec<(String, Vec<String>)>,
}

impl StoreConnection {
    /// Whether the API server speaks to the store itself; else kine stands between.
    pub fn is_etcd(&self) -> bool {
        self.driver == DataStoreDriver::Etcd
    }

    /// Whether the store has certificates for us to show or to check.
    pub fn has_certificates(&self) -> bool {
        self.encrypted
    }
}

/// What the pods of a control plane are made from.
#[derive(Clone, Debug)]
pub struct PodInputs<'a> {
    /// The control plane.
    pub control_plane: &'a TenantControlPlane,
    /// The names of its objects.
    pub names: &'a Names,
    /// The version to run.
    pub version: &'a KubernetesVersion,
    /// The address that the tenant's Service `kubernetes` leads to.
    pub advertised: IpAddr,
    /// Where the state is kept.
    pub connection: &'a StoreConnection,
    /// Fingerprints of the Secrets that the pods mount.
    pub checksums: &'a BTreeMap<SecretRole, String>,
    /// What holds for all control planes.
    pub settings: &'a Settings,
}

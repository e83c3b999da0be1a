//! What the API server asks us before it takes a manifest: rules that a schema and CEL cannot say.
//!
//! A reviewer decides from the request and from caches, and refuses only what would be wrong even if a cache lagged behind:
//! that something is not there *yet* is a warning. What slips through is held by the controllers. One thing is asked of the API
//! server: whether it would take a control plane's pods (`trial`).

mod cluster_api;
mod control_planes;
mod data_stores;
mod defaults;
mod pods;
mod secrets;
mod trial;
mod versions;

use std::sync::Arc;

use butler_api::{
    cluster_api::steward_control_plane::StewardControlPlane,
    steward::{data_store::DataStore, tenant_control_plane::TenantControlPlane},
};
use butler_runtime::{admission::Webhooks, cache::Caches};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, core::PartialObjectMeta};

use crate::settings::Settings;
use cluster_api::ClusterApiRules;
use data_stores::DataStoreRules;
use defaults::Defaults;
use secrets::SecretRules;
use trial::TriedControlPlanes;

/// The reviewers of Steward.
pub fn webhooks(client: &Client, caches: &Arc<Caches>, settings: &Settings) -> Webhooks {
    Webhooks::new()
        .defaulting::<TenantControlPlane, _>(Defaults::new(settings))
        .validating_with_reads::<TenantControlPlane, _>(TriedControlPlanes::new(
            client, caches, settings,
        ))
        .validating::<DataStore, _>(DataStoreRules::new(caches, settings))
        .validating::<StewardControlPlane, _>(ClusterApiRules)
        .validating::<PartialObjectMeta<Secret>, _>(SecretRules::new(caches, settings))
}

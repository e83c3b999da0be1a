//! `TenantControlPlane` of Kamaji, as far as Butler reads it.
//!
//! Must not: be written. What is not named here would be lost.

use std::borrow::Cow;

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, ResourceExt, core::object::HasStatus};
use serde::{Deserialize, Serialize};

use butler_api::keys::labels;

/// Kamaji's API group.
pub const GROUP: &str = "kamaji.clastix.io";
/// Its version.
pub const VERSION: &str = "v1alpha1";

/// A control plane that Kamaji hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KamajiTenantControlPlane {
    /// Name, labels, owners.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What Kamaji says of it.
    #[serde(default)]
    pub status: Option<KamajiStatus>,
}

/// What Kamaji says of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KamajiStatus {
    /// The objects that it is made of.
    #[serde(default)]
    pub kubernetes_resources: Option<KamajiResources>,
}

/// The objects that a control plane of Kamaji is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KamajiResources {
    /// Its version and how it is.
    #[serde(default)]
    pub version: Option<KamajiVersion>,
    /// Its pods.
    #[serde(default)]
    pub deployment: Option<KamajiDeployment>,
}

/// The version of a control plane of Kamaji, and how it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KamajiVersion {
    /// The version that runs.
    #[serde(default)]
    pub version: Option<String>,
    /// How it is, in one word.
    #[serde(default)]
    pub status: Option<String>,
}

/// The pods of a control plane of Kamaji.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KamajiDeployment {
    /// Their label selector, as text.
    #[serde(default)]
    pub selector: Option<String>,
    /// How many there are.
    #[serde(default)]
    pub replicas: Option<i32>,
    /// How many serve.
    #[serde(default)]
    pub ready_replicas: Option<i32>,
    /// How many have served for long enough.
    #[serde(default)]
    pub available_replicas: Option<i32>,
    /// How many are of the newest kind.
    #[serde(default)]
    pub updated_replicas: Option<i32>,
    /// How many are missing.
    #[serde(default)]
    pub unavailable_replicas: Option<i32>,
}

impl KamajiTenantControlPlane {
    /// The Cluster of Cluster API that it belongs to: by its label, else of the same name.
    pub fn cluster(&self) -> String {
        let labelled = self.labels().get(labels::CLUSTER_API_CLUSTER).cloned();
        labelled.unwrap_or_else(|| self.name_any())
    }
}

impl Resource for KamajiTenantControlPlane {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Cow::Borrowed("TenantControlPlane")
    }

    fn group((): &()) -> Cow<'_, str> {
        Cow::Borrowed(GROUP)
    }

    fn version((): &()) -> Cow<'_, str> {
        Cow::Borrowed(VERSION)
    }

    fn plural((): &()) -> Cow<'_, str> {
        Cow::Borrowed("tenantcontrolplanes")
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl HasStatus for KamajiTenantControlPlane {
    type Status = KamajiStatus;

    fn status(&self) -> Option<&KamajiStatus> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<KamajiStatus> {
        &mut self.status
    }
}

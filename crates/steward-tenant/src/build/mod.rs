//! The objects of each part, from the facts. Pure: no client, no clock, no randomness.
//!
//! Manifests name just the fields that matter, so that the rest stays with whoever sets it. Where a list belongs to one writer
//! as a whole, members that the API server would fill in are spelled out: what we compare with has them too.

pub(crate) mod access;
pub(crate) mod bootstrap;
pub(crate) mod core_dns;
pub(crate) mod freeze;
pub(crate) mod kube_proxy;
pub(crate) mod kubeadm_config;
pub(crate) mod kubelet_config;
pub(crate) mod patch;
mod policy;
pub(crate) mod rights;
pub(crate) mod versions;
pub(crate) mod write_permissions;

use butler_api::keys::{labels, values};
use butler_runtime::object::{Kind, Manifest};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use serde_json::{Value, json};

use crate::desired::DesiredObject;
use crate::facts::TenantFacts;
use crate::part::TenantPart;

/// Makes the objects of one part.
#[derive(Clone, Copy)]
pub(crate) struct Workbench<'a> {
    pub(crate) facts: &'a TenantFacts,
    pub(crate) part: TenantPart,
}

impl Workbench<'_> {
    /// An object with the labels by which we know it again.
    pub(crate) fn object<K>(self, body: Value) -> DesiredObject
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        self.labelled(Manifest::new(Kind::of::<K>(), body))
    }

    /// An object that somebody else built, with the labels by which we know it again.
    pub(crate) fn labelled(self, mut manifest: Manifest) -> DesiredObject {
        let labels = &mut manifest.body["metadata"]["labels"];
        if !labels.is_object() {
            *labels = json!({});
        }
        labels[labels::STEWARD_PROJECT] = values::STEWARD_PROJECT.into();
        labels[labels::STEWARD_NAME] = self.facts.name.as_str().into();
        labels[labels::STEWARD_COMPONENT] = self.part.as_str().into();
        DesiredObject {
            part: self.part,
            manifest,
        }
    }

    /// A `ConfigMap`.
    pub(crate) fn config_map(self, namespace: &str, name: &str, data: &Value) -> DesiredObject {
        self.object::<ConfigMap>(json!({
            "metadata": { "namespace": namespace, "name": name },
            "data": data,
        }))
    }
}

/// A document as YAML.
pub(crate) fn yaml(document: &Value) -> String {
    // JSON is YAML too: what cannot be written prettily is still written right.
    serde_saphyr::to_string(document).unwrap_or_else(|_| document.to_string())
}

/// An image reference.
pub(crate) fn image(repository: &str, name: &str, tag: &str) -> String {
    format!("{}/{name}:{tag}", repository.trim_end_matches('/'))
}

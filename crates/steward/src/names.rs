//! How the objects of a control plane are called and labelled.
//!
//! Owns: every name that is derived from that of a `TenantControlPlane`, and the metadata all its objects share. These are a
//! contract: other programs find Secrets by them.

use std::fmt;

use butler_api::{
    keys::{groups, labels, values},
    steward::{exposure::AdditionalMetadata, tenant_control_plane::TenantControlPlane},
};
use butler_runtime::object::ObjectKey;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// What a Secret of a control plane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SecretRole {
    /// The authority of the cluster.
    Authority,
    /// The authority of the aggregation layer.
    FrontProxyAuthority,
    /// The key pair of service account tokens.
    ServiceAccount,
    /// The serving certificate of the API server.
    ApiServer,
    /// The certificate the API server shows to kubelets.
    KubeletClient,
    /// The certificate the API server shows to aggregated APIs.
    FrontProxyClient,
    /// Kubeconfigs of administrators.
    AdminKubeconfig,
    /// The kubeconfig of the controller manager.
    ControllerManagerKubeconfig,
    /// The kubeconfig of the scheduler.
    SchedulerKubeconfig,
    /// The settings of the connection to the data store.
    StoreConfig,
    /// The certificate the API server, or kine, shows to the data store.
    StoreCertificate,
    /// The serving certificate of the konnectivity server.
    KonnectivityCertificate,
    /// The kubeconfig of the konnectivity server.
    KonnectivityKubeconfig,
}

impl SecretRole {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Authority,
        Self::FrontProxyAuthority,
        Self::ServiceAccount,
        Self::ApiServer,
        Self::KubeletClient,
        Self::FrontProxyClient,
        Self::AdminKubeconfig,
        Self::ControllerManagerKubeconfig,
        Self::SchedulerKubeconfig,
        Self::StoreConfig,
        Self::StoreCertificate,
        Self::KonnectivityCertificate,
        Self::KonnectivityKubeconfig,
    ];

    /// What follows the control plane's name in that of the Secret, and the value of its component label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authority => "ca",
            Self::FrontProxyAuthority => "front-proxy-ca-certificate",
            Self::ServiceAccount => "sa-certificate",
            Self::ApiServer => "api-server-certificate",
            Self::KubeletClient => "api-server-kubelet-client-certificate",
            Self::FrontProxyClient => "front-proxy-client-certificate",
            Self::AdminKubeconfig => values::STEWARD_COMPONENT_ADMIN_KUBECONFIG,
            Self::ControllerManagerKubeconfig => "controller-manager-kubeconfig",
            Self::SchedulerKubeconfig => "scheduler-kubeconfig",
            Self::StoreConfig => "datastore-config",
            Self::StoreCertificate => "datastore-certificate",
            Self::KonnectivityCertificate => "konnectivity-certificate",
            Self::KonnectivityKubeconfig => "konnectivity-kubeconfig",
        }
    }

    /// The role whose Secrets carry this component label.
    pub fn of_label(component: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == component)
    }

    /// What follows the prefix in the pod label that carries the Secret's checksum.
    pub const fn checksum_label(self) -> &'static str {
        match self {
            Self::ServiceAccount => "service-account",
            other => other.as_str(),
        }
    }
}

impl fmt::Display for SecretRole {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What follows the control plane's name in that of the egress configuration.
const EGRESS_CONFIGURATION: &str = "konnectivity-egress-selector-configuration";

/// The names of one control plane's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    namespace: String,
    name: String,
    uid: String,
}

impl Names {
    /// The names of a control plane's objects.
    pub fn of(control_plane: &TenantControlPlane) -> Self {
        Self {
            namespace: control_plane.namespace().unwrap_or_default(),
            name: control_plane.name_any(),
            uid: control_plane.uid().unwrap_or_default(),
        }
    }

    /// The namespace of everything.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the control plane.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The UID of the control plane.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The key of the control plane, which its Deployment, Service, Ingress and route share.
    pub fn itself(&self) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, &self.name)
    }

    /// The key of a Secret.
    pub fn secret(&self, role: SecretRole) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, self.secret_name(role))
    }

    /// The name of a Secret.
    pub fn secret_name(&self, role: SecretRole) -> String {
        format!("{}-{role}", self.name)
    }

    /// The name of the API server's egress configuration.
    pub fn egress_configuration(&self) -> String {
        format!("{}-{EGRESS_CONFIGURATION}", self.name)
    }

    /// The name of the route for agents of the reverse tunnel.
    pub fn konnectivity_route(&self) -> String {
        format!("{}-konnectivity", self.name)
    }

    /// The name of the Service inside of the management cluster.
    pub fn service_host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// The labels that pods are selected by.
    pub fn selector(&self) -> Value {
        json!({ labels::STEWARD_NAME: self.name })
    }

    /// The same as text.
    pub fn selector_text(&self) -> String {
        format!("{}={}", labels::STEWARD_NAME, self.name)
    }

    /// The metadata of an object that belongs to the control plane. What the user adds does not replace what we set.
    pub fn metadata(
        &self,
        name: &str,
        component: &str,
        additional: Option<&AdditionalMetadata>,
    ) -> Value {
        let mut labels = additional.map_or_else(Map::new, |more| text_map(&more.labels));
        labels.extend([
            (
                labels::STEWARD_PROJECT.to_owned(),
                values::STEWARD_PROJECT.into(),
            ),
            (labels::STEWARD_NAME.to_owned(), self.name.clone().into()),
            (labels::STEWARD_COMPONENT.to_owned(), component.into()),
        ]);
        let mut metadata = json!({
            "name": name,
            "namespace": self.namespace,
            "labels": labels,
            "ownerReferences": [self.owner_reference()],
        });
        if let Some(more) = additional.filter(|more| !more.annotations.is_empty()) {
            metadata["annotations"] = json!(more.annotations);
        }
        metadata
    }

    /// Says that the control plane is the reason why an object exists: with the one, the other goes.
    pub fn owner_reference(&self) -> Value {
        json!({
            "apiVersion": groups::STEWARD_API_VERSION,
            "kind": "TenantControlPlane",
            "name": self.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }
}

/// A map of texts as JSON.
pub(crate) fn text_map<'a>(
    texts: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Map<String, Value> {
    let texts = texts.into_iter();
    texts
        .map(|(key, value)| (key.clone(), value.clone().into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_found_by_its_label() {
        for role in SecretRole::ALL {
            assert_eq!(SecretRole::of_label(role.as_str()), Some(role));
        }
        assert_eq!(SecretRole::of_label("deployment"), None);
    }

    #[test]
    fn what_a_user_adds_does_not_replace_what_others_look_for() {
        let names = Names {
            namespace: "payments".to_owned(),
            name: "shop".to_owned(),
            uid: "1".to_owned(),
        };
        let additional = AdditionalMetadata {
            labels: [(labels::STEWARD_NAME.to_owned(), "other".to_owned())].into(),
            ..AdditionalMetadata::default()
        };
        let metadata = names.metadata("shop", "service", Some(&additional));
        assert_eq!(metadata["labels"][labels::STEWARD_NAME], "shop");
        assert_eq!(
            names.secret(SecretRole::Authority).to_string(),
            "payments/shop-ca"
        );
    }
}

//! What is seen of the `TenantControlPlane` that stands behind a control plane, here or in another cluster.

use butler_api::{
    cluster_api::contract::ControlPlaneEndpoint,
    conditions::types,
    net::HostPort,
    steward::tenant_control_plane::{
        ControlPlanePhase, TenantControlPlane,
        status::{SecretState, resources::DeploymentState},
    },
};
use butler_runtime::{fields::IntentHash, object::ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

/// What is seen of a `TenantControlPlane`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantSight {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// UID of the object that it was made by, if that is in the same cluster.
    pub controller: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What we applied to it, if it is in another cluster.
    pub applied: Option<IntentHash>,
    /// The store that its spec names.
    pub data_store: Option<String>,
    /// The version that its spec asks for.
    pub wanted_version: String,
    /// The version that runs.
    pub version: Option<String>,
    /// Where its API server is reached.
    pub endpoint: Option<ControlPlaneEndpoint>,
    /// Its state in one word.
    pub phase: ControlPlanePhase,
    /// Its pods.
    pub deployment: Option<DeploymentState>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// The Secret with the administrator's kubeconfigs.
    pub kubeconfig: Option<SecretSource>,
    /// The Secret with its certificate authority.
    pub authority: Option<SecretSource>,
}

/// A Secret of a `TenantControlPlane`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSource {
    /// Its key.
    pub key: ObjectKey,
    /// Fingerprint of its content.
    pub checksum: String,
}

impl TenantSight {
    /// What a `TenantControlPlane` shows.
    pub(super) fn of(found: &TenantControlPlane) -> Self {
        let namespace = found.namespace().unwrap_or_default();
        let status = found.status.clone().unwrap_or_default();
        let resources = status.kubernetes_resources.unwrap_or_default();
        let version = resources.version.unwrap_or_default();
        let source = |state: Option<SecretState>| {
            let state = state?;
            Some(SecretSource {
                key: ObjectKey::namespaced(&namespace, state.secret_name?),
                checksum: state.checksum?,
            })
        };
        let mut owners = found.owner_references().iter();
        let controller = owners.find(|owner| owner.controller == Some(true));
        Self {
            name: found.name_any(),
            uid: found.uid().unwrap_or_default(),
            controller: controller.map(|owner| owner.uid.clone()),
            deleting: found.metadata.deletion_timestamp.is_some(),
            applied: None,
            data_store: found.spec.data_store.clone(),
            wanted_version: found.spec.kubernetes.version.clone(),
            version: version.version,
            endpoint: status
                .control_plane_endpoint
                .as_deref()
                .and_then(|text| text.parse::<HostPort>().ok())
                .map(|endpoint| ControlPlaneEndpoint {
                    host: endpoint.host().to_owned(),
                    port: endpoint.port().into(),
                }),
            phase: version.status,
            deployment: resources.deployment,
            conditions: status.conditions,
            kubeconfig: status.kubeconfig.and_then(|states| source(states.admin)),
            authority: status.certificates.and_then(|states| source(states.ca)),
            namespace,
        }
    }

    /// Its key.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, &self.name)
    }

    /// What it says of itself under a type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.type_ == type_)
    }

    /// Whether its API server serves.
    pub fn is_serving(&self) -> bool {
        // Older releases of Steward, which may run in another cluster, say it in one word alone.
        let in_a_word = || {
            matches!(
                self.phase,
                ControlPlanePhase::Ready | ControlPlanePhase::Upgrading
            )
        };
        self.condition(types::AVAILABLE)
            .map_or_else(in_a_word, |said| said.status == "True")
    }
}

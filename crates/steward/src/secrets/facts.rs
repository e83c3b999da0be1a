//! What is remembered of a control plane's Secret: facts for plans, never a key.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use butler_api::keys::{annotations, finalizers, groups, labels, values};
use butler_runtime::{
    cache::{Cached, Projection},
    object::{Kind, ObjectKey},
};
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    content::{self, Data, KubeconfigFacts, Pair},
    order::{Guard, authority_of},
    rotation::{self, Request, RotationFacts},
};
use crate::{names::SecretRole, store::config_keys};

/// How much of a digest is enough to tell contents apart, and fits into a label.
const CHECKSUM_BYTES: usize = 16;

/// A Secret as it was seen.
pub type Seen = Arc<Cached<KeptSecret>>;

/// What is remembered of a Secret that carries Steward's label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSecret {
    /// The control plane it belongs to.
    pub tenant: ObjectKey,
    /// What it is for; none of a control plane's own if absent.
    pub role: Option<SecretRole>,
    /// The `KubeconfigGenerator` it was made for, if any.
    pub generator: Option<String>,
    /// The name of the control plane that the generator made it for, if any.
    pub generated_for: Option<String>,
    /// UID of the control plane that it goes with, if any.
    pub owner: Option<String>,
    /// Fingerprint of its values.
    pub checksum: String,
    /// The fingerprint we left when we wrote it; absent if somebody else brought the Secret.
    pub written: Option<String>,
    /// Whether somebody asks for new content.
    pub rotate: bool,
    /// Whether somebody asks to leave it as it is.
    pub is_paused: bool,
    /// Whether an older release left its finalizer on it, which nobody else takes off.
    pub is_held: bool,
    /// How far its authority is replaced, if it holds one.
    pub rotation: RotationFacts,
    /// Fingerprint of what was set up in the data store with it.
    pub setup: Option<String>,
    /// What it holds.
    pub content: Content,
}

impl KeptSecret {
    /// What is said of a Secret that somebody paused, and that would be written otherwise.
    pub(crate) fn told_paused(key: &ObjectKey, why: &str) -> String {
        format!(
            "the Secret {key} {why}, and stays as it is: it is paused; remove its annotation {} to have it made anew",
            annotations::STEWARD_PAUSED
        )
    }

    /// Whether we made it, so that we may make it anew.
    pub fn is_ours(&self) -> bool {
        self.written.is_some()
    }
}

/// What a Secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A certificate and its key, or what is wrong with them.
    Pair(Result<Pair, String>),
    /// A key pair of service account tokens, or what is wrong with it.
    ServiceAccount(Result<(), String>),
    /// Kubeconfigs by their keys, each or what is wrong with it.
    Kubeconfigs(BTreeMap<String, Result<KubeconfigFacts, String>>),
    /// The settings of a connection to a data store: what is not secret of them.
    StoreConfig {
        /// The database, or the prefix of the keys.
        schema: Option<String>,
        /// The user.
        user: Option<String>,
    },
    /// A store's authority and the certificate for it, or what is wrong with them.
    StoreCertificate {
        /// The store's authority.
        authority_pem: Option<String>,
        /// The certificate.
        pair: Result<Pair, String>,
    },
    /// Something that plans do not read.
    Other,
}

impl Content {
    fn of(role: Option<SecretRole>, kubeconfigs: bool, data: &Data) -> Self {
        use SecretRole as Role;
        let pair = |name: &str| content::pair(data, &format!("{name}.crt"), &format!("{name}.key"));
        match role {
            Some(Role::Authority) => Self::Pair(pair("ca")),
            Some(Role::FrontProxyAuthority) => Self::Pair(pair("front-proxy-ca")),
            Some(Role::ServiceAccount) => Self::ServiceAccount(content::service_account(data)),
            Some(Role::ApiServer) => Self::Pair(pair("apiserver")),
            Some(Role::KubeletClient) => Self::Pair(pair("apiserver-kubelet-client")),
            Some(Role::FrontProxyClient) => Self::Pair(pair("front-proxy-client")),
            Some(Role::KonnectivityCertificate) => Self::Pair(pair("tls")),
            Some(
                Role::AdminKubeconfig
                | Role::ControllerManagerKubeconfig
                | Role::SchedulerKubeconfig
                | Role::KonnectivityKubeconfig,
            ) => Self::Kubeconfigs(content::kubeconfigs(data)),
            Some(Role::StoreConfig) => Self::StoreConfig {
                schema: content::text(data, config_keys::SCHEMA),
                user: content::text(data, config_keys::USER),
            },
            Some(Role::StoreCertificate) => Self::StoreCertificate {
                authority_pem: content::text(data, "ca.crt"),
                pair: pair("server"),
            },
            None if kubeconfigs => Self::Kubeconfigs(content::kubeconfigs(data)),
            None => Self::Other,
        }
    }
}

fn rotation(
    role: Option<SecretRole>,
    data: &Data,
    notes: &BTreeMap<String, String>,
) -> RotationFacts {
    let Some((_, file)) = role.and_then(authority_of) else {
        return RotationFacts::default();
    };
    let bundle = content::text(data, &format!("{file}.crt"));
    let note = |key: &str| notes.get(key).map(String::as_str);
    let asked = note(annotations::STEWARD_ROTATE);
    // Older releases left the time where one asks.
    let since = [note(annotations::STEWARD_SIGNING_SINCE), asked];
    let mut since = since.into_iter().flatten();
    RotationFacts {
        trusted: bundle.map_or(0, |bundle| rotation::count(&bundle)),
        has_next: content::pair(data, "next.crt", "next.key").is_ok(),
        request: asked.and_then(Request::of),
        since: since.find_map(|time| time.parse().ok()),
        is_ours: note(annotations::STEWARD_CHECKSUM) == Some(checksum(data).as_str()),
    }
}

/// The control plane among owners.
fn owner_of(owners: &[OwnerReference]) -> Option<String> {
    let mut owners = owners.iter();
    let found = owners.find(|owner| {
        owner.api_version == groups::STEWARD_API_VERSION
            && owner.kind == "TenantControlPlane"
            && owner.controller == Some(true)
    });
    found.map(|owner| owner.uid.clone())
}

/// Fingerprint of a Secret's values.
pub fn checksum(data: &BTreeMap<String, ByteString>) -> String {
    let mut digest = Sha256::new();
    for (key, ByteString(value)) in data {
        for part in [key.as_bytes(), value.as_slice()] {
            // Lengths first: no two sets of values look alike when they are put together.
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
    }
    let digest = digest.finalize();
    let bytes = digest.iter().take(CHECKSUM_BYTES);
    bytes.fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Projection for KeptSecret {
    const LABELS: Option<&'static str> = Some(labels::STEWARD_PROJECT);

    fn kind() -> Kind {
        Kind::of::<Secret>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let secret: Secret = serde_json::from_value(object)?;
        let data = secret.data.unwrap_or_default();
        let found = secret.metadata.labels.unwrap_or_default();
        let notes = secret.metadata.annotations.unwrap_or_default();
        let mut held_by = secret.metadata.finalizers.iter().flatten();
        let label = |key: &str| found.get(key).cloned();
        let role = label(labels::STEWARD_COMPONENT).and_then(|text| SecretRole::of_label(&text));
        let lifecycle = label(labels::STEWARD_CERTIFICATE_LIFECYCLE);
        let kubeconfigs = lifecycle.as_deref() == Some(values::LIFECYCLE_KUBECONFIG);
        Ok(Self {
            tenant: ObjectKey::namespaced(
                secret.metadata.namespace.unwrap_or_default(),
                label(labels::STEWARD_NAME).unwrap_or_default(),
            ),
            role,
            generator: label(labels::STEWARD_MANAGED_BY),
            generated_for: label(labels::STEWARD_MANAGED_FOR),
            owner: secret
                .metadata
                .owner_references
                .as_deref()
                .and_then(owner_of),
            checksum: checksum(&data),
            written: notes.get(annotations::STEWARD_CHECKSUM).cloned(),
            rotate: notes
                .get(annotations::STEWARD_ROTATE)
                .is_some_and(String::is_empty),
            is_paused: notes.contains_key(annotations::STEWARD_PAUSED),
            is_held: held_by.any(|finalizer| finalizer == finalizers::DATA_STORE_SECRET),
            rotation: rotation(role, &data, &notes),
            setup: notes.get(annotations::STEWARD_STORE_SETUP).cloned(),
            content: Content::of(role, kubeconfigs, &data),
        })
    }
}

impl From<&Seen> for Guard {
    fn from(seen: &Seen) -> Self {
        Self::Version {
            uid: seen.facts.uid.clone(),
            resource_version: seen.facts.resource_version.clone(),
        }
    }
}

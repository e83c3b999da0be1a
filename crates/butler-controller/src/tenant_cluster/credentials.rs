//! The credentials of a provider that a cluster needs a copy of in its own namespace, because its machines are made by another
//! project (CAPX), and the authorities by which that project's API is trusted.
//!
//! Plans know where a copy comes from and which version of it, never what is in it. A copy follows its source.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use butler_api::{
    butler::{
        provider_config::{ClusterApiProvider, ProviderConfig},
        tenant_cluster::TenantCluster,
    },
    conditions::{reasons, types},
    keys::{annotations, labels, names, secret_keys, values},
};
use butler_runtime::{
    api_server::{ApiServer, Cause},
    cache::{Metadata, Projection},
    failure::{Class, Failure},
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Effect, build, tenant_namespace, why::Waiting};

/// Key of the authorities within the credentials.
const AUTHORITIES: &str = "ca.pem";
/// Key of what CAPX reads.
const CREDENTIALS: &str = "credentials";
/// Value of the label that says what a Secret holds.
const SECRET_TYPE: &str = "provider-credentials";

/// What is seen of credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// The Secret that the provider names, if a copy of it is needed.
    pub source: Option<ObjectKey>,
    /// Its version; `None` if it does not exist.
    pub version: Option<String>,
    /// The copy.
    pub copy: Option<CopySight>,
    /// Authorities of the provider's API, in PEM.
    pub trust_bundle: Option<String>,
}

/// What is seen of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopySight {
    /// Its UID and version.
    pub guard: (String, String),
    /// What is known of it.
    pub copy: CopiedCredentials,
}

/// What is remembered of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedCredentials {
    /// What it was copied from, and which version of that.
    pub copy_of: Option<String>,
    /// Whether its content is as it was written.
    pub is_intact: bool,
}

impl Projection for CopiedCredentials {
    const LABELS: Option<&'static str> =
        Some("butler.butlerlabs.dev/secret-type=provider-credentials");

    fn kind() -> Kind {
        Kind::of::<Secret>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let secret: Secret = serde_json::from_value(object)?;
        let notes = secret.metadata.annotations.unwrap_or_default();
        let data = secret.data.unwrap_or_default();
        let written = notes.get(annotations::CONTENT_CHECKSUM);
        Ok(Self {
            copy_of: notes.get(annotations::COPY_OF).cloned(),
            is_intact: written == Some(&checksum(&data)),
        })
    }
}

fn checksum(data: &BTreeMap<String, ByteString>) -> String {
    let mut digest = Sha256::new();
    for (key, value) in data {
        digest.update(key.len().to_le_bytes());
        digest.update(key.as_bytes());
        digest.update(value.0.len().to_le_bytes());
        digest.update(&value.0);
    }
    super::addresses::hex(&digest.finalize())
}

/// Key of a cluster's copy.
pub(super) fn copy_key(cluster: &TenantCluster) -> ObjectKey {
    let suffix = names::NUTANIX_CREDENTIALS_SUFFIX;
    let name = format!("{}{suffix}", cluster.name_any());
    ObjectKey::namespaced(tenant_namespace(cluster), name)
}

/// The Secret with the credentials of a provider whose machines another project makes.
pub(super) fn source(provider: &ProviderConfig) -> Option<ObjectKey> {
    if provider.spec.cluster_api_provider != ClusterApiProvider::Capx {
        return None;
    }
    let reference = provider.spec.credentials_ref.as_ref()?;
    let own = || provider.namespace().unwrap_or_default();
    let namespace = reference.namespace.clone().unwrap_or_else(own);
    Some(ObjectKey::namespaced(namespace, &reference.name))
}

/// Authorities by the version of the Secret they are in, so that each version is read once. A Secret that does not exist has no
/// version, and is known all the same: it may come. One that no cluster needs any more is forgotten.
#[derive(Debug, Default)]
pub(super) struct Bundles(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    /// What is known, by Secret.
    known: BTreeMap<ObjectKey, Known>,
    /// The Secret that each cluster needs.
    needed: BTreeMap<ObjectKey, ObjectKey>,
}

impl Books {
    fn tidy(&mut self) {
        let needed: BTreeSet<_> = self.needed.values().collect();
        self.known.retain(|secret, _| needed.contains(secret));
    }
}

/// What is known of a Secret with authorities.
#[derive(Clone, Debug)]
struct Known {
    /// Its version; `None` if it does not exist.
    version: Option<String>,
    /// The authorities in it.
    bundle: Option<String>,
}

impl Bundles {
    /// Whether some cluster needs that Secret.
    pub(super) fn knows(&self, key: &ObjectKey) -> bool {
        self.books().known.contains_key(key)
    }

    /// Forgets a cluster that is gone, and the Secret if nobody else needs it.
    pub(super) fn forget(&self, cluster: &ObjectKey) {
        let mut books = self.books();
        books.needed.remove(cluster);
        books.tidy();
    }

    /// A cluster needs this Secret, and no other.
    fn need(&self, cluster: &ObjectKey, secret: &ObjectKey) {
        let mut books = self.books();
        let before = books.needed.insert(cluster.clone(), secret.clone());
        if before.is_some_and(|before| before != *secret) {
            books.tidy();
        }
    }

    fn keep(&self, key: &ObjectKey, version: Option<&str>, bundle: Option<String>) {
        let version = version.map(str::to_owned);
        let known = Known { version, bundle };
        self.books().known.insert(key.clone(), known);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn of(
        &self,
        key: &ObjectKey,
        version: &str,
        api: &dyn ApiServer,
    ) -> Result<Option<String>, Failure> {
        let known = {
            let books = self.books();
            let known = books.known.get(key);
            known
                .filter(|known| known.version.as_deref() == Some(version))
                .cloned()
        };
        if let Some(known) = known {
            return Ok(known.bundle);
        }
        let found = read(key, api).await?;
        let bundle = found.get(AUTHORITIES).map(|bundle| bundle.0.clone());
        let bundle = bundle.and_then(|bundle| String::from_utf8(bundle).ok());
        self.keep(key, Some(version), bundle.clone());
        Ok(bundle)
    }
}

async fn read(
    key: &ObjectKey,
    api: &dyn ApiServer,
) -> Result<BTreeMap<String, ByteString>, Failure> {
    let body = api.get(&Kind::of::<Secret>(), key).await?;
    let Some(body) = body else {
        return Err(stale(format!("the Secret {key} is gone")));
    };
    // What is wrong with a Secret must not be told with what is in it.
    let secret: Secret = serde_json::from_value(body).map_err(|_| {
        let message = format!("the Secret {key} cannot be read; correct it");
        Failure::retry(reasons::CREDENTIALS_INVALID, message)
    })?;
    Ok(secret.data.unwrap_or_default())
}

pub(super) async fn sight(
    cluster: &TenantCluster,
    provider: Option<&ProviderConfig>,
    bundles: &Bundles,
    context: &Context,
) -> Result<Sight, Failure> {
    let own = ObjectKey::of(cluster);
    let Some(source) = provider.and_then(source) else {
        bundles.forget(&own);
        return Ok(Sight::default());
    };
    bundles.need(&own, &source);
    let found = context.cache::<Metadata<Secret>>().get(&source);
    let version = found.map(|found| found.facts.resource_version.clone());
    let trust_bundle = if let Some(version) = &version {
        bundles.of(&source, version, context.api()).await?
    } else {
        bundles.keep(&source, None, None);
        None
    };
    let copy = context.cache::<CopiedCredentials>().get(&copy_key(cluster));
    Ok(Sight {
        source: Some(source),
        version,
        copy: copy.map(|found| CopySight {
            guard: (
                found.facts.uid.clone(),
                found.facts.resource_version.clone(),
            ),
            copy: found.value.clone(),
        }),
        trust_bundle,
    })
}

/// Where a copy comes from, and over what it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// The Secret.
    pub source: ObjectKey,
    /// Its version.
    pub version: String,
    /// UID and version of the copy that is there.
    pub over: Option<(String, String)>,
}

impl Copy {
    /// In one word, to be left on the copy.
    fn text(&self) -> String {
        format!("{}@{}", self.source, self.version)
    }
}

/// What is to be copied, or what is missing.
pub(super) fn plan(sight: &Sight) -> Result<Option<Effect>, Box<Waiting>> {
    let Some(source) = &sight.source else {
        return Ok(None);
    };
    let Some(version) = &sight.version else {
        let why =
            format!("the Secret {source} with the credentials of the provider does not exist");
        let waiting = Waiting::new(
            types::INFRASTRUCTURE_READY,
            reasons::CREDENTIALS_INVALID,
            why,
        );
        let waiting = waiting
            .advise("create it, or correct spec.credentialsRef of the ProviderConfig")
            .needs_somebody();
        return Err(Box::new(waiting));
    };
    let copy = Copy {
        source: source.clone(),
        version: version.clone(),
        over: sight.copy.as_ref().map(|copy| copy.guard.clone()),
    };
    let found = sight.copy.as_ref().map(|found| &found.copy);
    let is_good = found.is_some_and(|found| found.is_intact && found.copy_of == Some(copy.text()));
    Ok((!is_good).then_some(Effect::CopyCredentials(copy)))
}

/// Copies credentials in the form that CAPX reads.
pub(super) async fn perform(
    cluster: &TenantCluster,
    copy: &Copy,
    context: &Context,
) -> Result<(), Failure> {
    let api = context.api();
    let found = read(&copy.source, api).await?;
    let entry = |key: &str| {
        let value = found.get(key).map(|value| value.0.clone());
        value
            .and_then(|value| String::from_utf8(value).ok())
            .ok_or_else(|| {
                let message = format!(
                    "the Secret {} has no text under the key {key}; add it",
                    copy.source
                );
                Failure::terminal(reasons::CREDENTIALS_INVALID, message)
            })
    };
    let login = build::nutanix_credentials(
        &entry(secret_keys::USERNAME)?,
        &entry(secret_keys::PASSWORD)?,
    );
    let data = BTreeMap::from([(CREDENTIALS.to_owned(), ByteString(login.into_bytes()))]);
    let key = copy_key(cluster);
    let mut body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": key.name, "namespace": key.namespace,
            "labels": {
                labels::MANAGED_BY: values::MANAGED_BY_BUTLER,
                labels::TENANT: cluster.name_any(),
                labels::CLUSTER_API_CLUSTER: cluster.name_any(),
                labels::SECRET_TYPE: SECRET_TYPE,
            },
            "annotations": {
                annotations::COPY_OF: copy.text(),
                annotations::CONTENT_CHECKSUM: checksum(&data),
            },
        },
        "data": data,
    });
    let kind = Kind::of::<Secret>();
    let written = match &copy.over {
        Some((uid, version)) => {
            body["metadata"]["uid"] = uid.clone().into();
            body["metadata"]["resourceVersion"] = version.clone().into();
            api.replace(&kind, &key, body).await
        }
        None => api.create(&kind, &key, body).await,
    };
    written.map(|_| ()).map_err(|error| match error.cause {
        Cause::AlreadyExists | Cause::NotFound => stale(error.to_string()),
        _ => error.into(),
    })
}

fn stale(message: String) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::OBSERVE_FAILED,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_as_long_as_some_cluster_needs_it() {
        let bundles = Bundles::default();
        let [shop, store] = ["shop", "store"].map(|name| ObjectKey::namespaced("team", name));
        let [prism, other] = ["prism", "other"].map(|name| ObjectKey::namespaced("system", name));
        for cluster in [&shop, &store] {
            bundles.need(cluster, &prism);
            bundles.keep(&prism, None, None);
        }
        bundles.forget(&shop);
        assert!(bundles.knows(&prism));
        bundles.need(&store, &other);
        bundles.keep(&other, None, None);
        assert!(
            !bundles.knows(&prism),
            "its last cluster has gone elsewhere"
        );
        bundles.forget(&store);
        assert!(!bundles.knows(&other));
    }
}

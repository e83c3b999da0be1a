//! From the references of a `DataStore` to access to it. Plans see facts, effects see the values, nothing else does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use butler_api::{
    conditions::reasons,
    steward::data_store::{ContentReference, DataStore, DataStoreDriver},
};
use butler_pki::SecretText;
use butler_runtime::{
    api_server::ApiServer, failure::Failure, object::ObjectKey, reconciler::Context,
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt;

use super::StoreAccess;
use crate::{
    projections::SecretVersion,
    secrets::{checksum, secret_kind},
};

/// What plans know of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFacts {
    /// Its name.
    pub name: String,
    /// What it speaks.
    pub driver: DataStoreDriver,
    /// Its members.
    pub endpoints: Vec<String>,
    /// The authority of its servers, if the connection is encrypted.
    pub authority_pem: Option<String>,
    /// What clients show to it.
    pub shows: Shows,
    /// Fingerprint of all that access depends on.
    pub fingerprint: String,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// Which certificate the clients of a store show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shows {
    /// None.
    #[default]
    Nothing,
    /// The one that the `DataStore` has: its authority's key is not ours.
    Shared,
    /// Each its own, issued by the store's authority: nobody can show another's.
    Own,
}

/// Reads what `DataStore`s refer to, once for each version of it.
#[derive(Clone, Debug, Default)]
pub struct Resolver {
    /// The namespace of Secrets that are named without one.
    namespace: String,
    known: Arc<Mutex<BTreeMap<String, Known>>>,
}

/// What was concluded, and from which versions of the store and its Secrets.
#[derive(Clone, Debug)]
struct Known {
    versions: Vec<(ObjectKey, Option<String>)>,
    identity: (Option<String>, Option<i64>),
    conclusion: Result<StoreFacts, String>,
}

impl Resolver {
    /// A resolver that looks for Secrets in this namespace unless told otherwise.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            known: Arc::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stores that were found to refer to a Secret.
    pub fn referring_to(&self, secret: &ObjectKey) -> BTreeSet<String> {
        let known = self.known();
        let referring = known
            .iter()
            .filter(|(_, known)| known.versions.iter().any(|(key, _)| key == secret));
        referring.map(|(store, _)| store.clone()).collect()
    }

    /// What plans may know of a store; the inner error says what is wrong with its references.
    pub async fn facts(
        &self,
        store: &DataStore,
        context: &Context,
    ) -> Result<Result<StoreFacts, String>, Failure> {
        let cache = context.cache::<SecretVersion>();
        let versions: Vec<_> = self
            .secrets(store)
            .into_iter()
            .map(|key| {
                let cached = cache.get(&key);
                (
                    key,
                    cached.map(|cached| cached.facts.resource_version.clone()),
                )
            })
            .collect();
        let deleting = store.metadata.deletion_timestamp.is_some();
        let identity = (store.uid(), store.metadata.generation);
        let name = store.name_any();
        let same = |known: &&Known| known.versions == versions && known.identity == identity;
        let recalled = self
            .known()
            .get(&name)
            .filter(same)
            .map(|known| known.conclusion.clone());
        let conclusion = if let Some(conclusion) = recalled {
            conclusion
        } else {
            let conclusion = self
                .access(store, context.api())
                .await?
                .map(|access| facts(&access));
            let known = Known {
                versions,
                identity,
                conclusion: conclusion.clone(),
            };
            self.known().insert(name, known);
            conclusion
        };
        Ok(conclusion.map(|facts| StoreFacts { deleting, ..facts }))
    }

    /// Forgets a store that is gone.
    pub fn forget(&self, store: &str) {
        self.known().remove(store);
    }

    /// Access to a store; the inner error says what is wrong with its references.
    pub async fn access(
        &self,
        store: &DataStore,
        api: &dyn ApiServer,
    ) -> Result<Result<StoreAccess, String>, Failure> {
        let mut values = BTreeMap::new();
        for key in self.secrets(store) {
            let body = api.get(&secret_kind(), &key).await?;
            let secret: Option<Secret> = body.and_then(|body| serde_json::from_value(body).ok());
            values.insert(key, secret.map(|secret| secret.data.unwrap_or_default()));
        }
        Ok(self.assemble(store, &values))
    }

    /// The same, where a reference that cannot be followed is a failure.
    pub async fn usable(
        &self,
        store: &DataStore,
        api: &dyn ApiServer,
    ) -> Result<StoreAccess, Failure> {
        let access = self.access(store, api).await?;
        access.map_err(|problem| Failure::retry(reasons::CREDENTIALS_INVALID, problem))
    }

    /// The Secrets that a store refers to.
    pub fn secrets(&self, store: &DataStore) -> Vec<ObjectKey> {
        let references = references(store).into_iter();
        let named = references.filter(|(_, reference)| reference.content.is_none());
        let mut keys: Vec<_> = named
            .filter_map(|(_, reference)| self.secret_of(reference))
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }

    fn secret_of(&self, reference: &ContentReference) -> Option<ObjectKey> {
        let named = reference.secret_reference.as_ref()?;
        let namespace = named.namespace.as_deref().unwrap_or(&self.namespace);
        Some(ObjectKey::namespaced(namespace, &named.name))
    }

    fn assemble(
        &self,
        store: &DataStore,
        secrets: &BTreeMap<ObjectKey, Option<BTreeMap<String, ByteString>>>,
    ) -> Result<StoreAccess, String> {
        let mut texts = BTreeMap::new();
        for (path, reference) in references(store) {
            texts.insert(path, self.text(path, reference, secrets)?);
        }
        let mut take = |path: &str| texts.remove(path);
        let certificate = take(paths::CLIENT);
        let key = take(paths::CLIENT_KEY).map(SecretText::new);
        Ok(StoreAccess {
            name: store.name_any(),
            driver: store.spec.driver,
            endpoints: store.spec.endpoints.clone(),
            authority_pem: take(paths::AUTHORITY),
            authority_key: take(paths::AUTHORITY_KEY).map(SecretText::new),
            client: certificate.zip(key),
            username: take(paths::USERNAME).map(SecretText::new),
            password: take(paths::PASSWORD).map(SecretText::new),
        })
    }

    fn text(
        &self,
        path: &str,
        reference: &ContentReference,
        secrets: &BTreeMap<ObjectKey, Option<BTreeMap<String, ByteString>>>,
    ) -> Result<String, String> {
        let as_text = |bytes: &ByteString| {
            let text = String::from_utf8(bytes.0.clone());
            text.map_err(|_| format!("spec.{path}: the value is no text; correct it"))
        };
        if let Some(inline) = &reference.content {
            return as_text(&inline.0);
        }
        let (Some(key), Some(named)) = (
            self.secret_of(reference),
            reference.secret_reference.as_ref(),
        ) else {
            return Err(format!("spec.{path}: give content or a secretReference"));
        };
        let Some(Some(data)) = secrets.get(&key) else {
            return Err(format!(
                "spec.{path}: the Secret {key} does not exist; create it"
            ));
        };
        let missing = || {
            format!(
                "spec.{path}: the Secret {key} has no key {}; add it",
                named.key_path
            )
        };
        as_text(data.get(&named.key_path).ok_or_else(missing)?)
    }
}

/// Where in a `DataStore` each value is referred to.
mod paths {
    pub(super) const AUTHORITY: &str = "tlsConfig.certificateAuthority.certificate";
    pub(super) const AUTHORITY_KEY: &str = "tlsConfig.certificateAuthority.privateKey";
    pub(super) const CLIENT: &str = "tlsConfig.clientCertificate.certificate";
    pub(super) const CLIENT_KEY: &str = "tlsConfig.clientCertificate.privateKey";
    pub(super) const USERNAME: &str = "basicAuth.username";
    pub(super) const PASSWORD: &str = "basicAuth.password";
}

/// All references of a store, with the field each is in.
fn references(store: &DataStore) -> Vec<(&'static str, &ContentReference)> {
    let mut all = Vec::new();
    if let Some(tls) = &store.spec.tls_config {
        all.push((paths::AUTHORITY, &tls.certificate_authority.certificate));
        let key = tls.certificate_authority.private_key.as_ref();
        all.extend(key.map(|key| (paths::AUTHORITY_KEY, key)));
        if let Some(pair) = &tls.client_certificate {
            all.push((paths::CLIENT, &pair.certificate));
            all.push((paths::CLIENT_KEY, &pair.private_key));
        }
    }
    if let Some(login) = &store.spec.basic_auth {
        all.push((paths::USERNAME, &login.username));
        all.push((paths::PASSWORD, &login.password));
    }
    all
}

fn facts(access: &StoreAccess) -> StoreFacts {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let secret =
        |text: &Option<SecretText>| text.as_ref().map_or("", |text| text.expose()).to_owned();
    let client = access.client.as_ref();
    let parts = [
        ("endpoints", access.endpoints.join(",")),
        (
            "authority",
            access.authority_pem.clone().unwrap_or_default(),
        ),
        ("authority-key", secret(&access.authority_key)),
        (
            "client",
            client
                .map(|(certificate, _)| certificate.clone())
                .unwrap_or_default(),
        ),
        (
            "client-key",
            client
                .map(|(_, key)| key.expose().to_owned())
                .unwrap_or_default(),
        ),
        ("username", secret(&access.username)),
        ("password", secret(&access.password)),
    ];
    let parts = parts.map(|(name, text)| (name.to_owned(), bytes(&text)));
    StoreFacts {
        name: access.name.clone(),
        driver: access.driver,
        endpoints: access.endpoints.clone(),
        authority_pem: access.authority_pem.clone(),
        shows: match (access.driver, &access.authority_key, client) {
            (_, Some(_), _) => Shows::Own,
            // To etcd, a certificate is who one is: its administrator's is not for others.
            (DataStoreDriver::Etcd, None, _) | (_, None, None) => Shows::Nothing,
            (_, None, Some(_)) => Shows::Shared,
        },
        fingerprint: checksum(&parts.into()),
        deleting: false,
    }
}

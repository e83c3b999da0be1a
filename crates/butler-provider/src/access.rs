//! How a request comes to its provider: the configuration it names, and the credentials that one names.
//!
//! Credentials are read once for each version of their Secret and go to the provider alone: no world, plan, status or log holds
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use butler_api::{
    butler::provider_config::{
        ClusterApiProvider, NetworkMode, Provider as ProviderKind, ProviderConfig,
        ProviderConfigSpec,
    },
    conditions::reasons,
};
use butler_runtime::{
    api_server::ApiServer,
    cache::{Caches, Metadata, Whole},
    failure::{Class, Failure},
    object::{Kind, ObjectKey},
    reconciler::{Claim, Context},
};
use k8s_openapi::{ByteString, api::core::v1::Secret};

use crate::{
    error::{ErrorClass, ProviderError},
    order::Access,
    provider::Provider,
    secrets::Credentials,
};

/// The way to a provider is open.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) access: Access,
    /// Version of the Secret with the credentials.
    pub(crate) credentials_version: Option<String>,
}

/// A request as far as its provider is concerned.
pub(crate) struct Petition<'a> {
    /// The request.
    pub(crate) request: ObjectKey,
    /// The provider configuration it names.
    pub(crate) configuration: &'a ObjectKey,
    pub(crate) deleting: bool,
}

/// The ways to providers, and what is remembered of them.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    credentials: Mutex<BTreeMap<ObjectKey, Known>>,
    valid: Mutex<BTreeMap<ObjectKey, Validated>>,
    uses: Uses,
}

#[derive(Debug)]
struct Known {
    version: String,
    credentials: Credentials,
}

/// What was found valid: another configuration, or another Secret, is looked at anew.
#[derive(Debug, PartialEq, Eq)]
struct Validated {
    uid: Option<String>,
    generation: Option<i64>,
    credentials_version: Option<String>,
}

/// Which requests depend on which Secrets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses(Arc<Mutex<BTreeMap<ObjectKey, BTreeSet<ObjectKey>>>>);

impl Uses {
    fn note(&self, secret: &ObjectKey, request: ObjectKey) {
        lock(&self.0)
            .entry(secret.clone())
            .or_default()
            .insert(request);
    }

    /// The requests that a change of a Secret may matter to.
    pub(crate) fn of(&self, secret: &ObjectKey) -> Vec<ObjectKey> {
        let uses = lock(&self.0);
        uses.get(secret).into_iter().flatten().cloned().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whose a request is, by the configuration it names. Who holds its finalizer stays in charge.
pub(crate) fn claim<P: Provider>(
    configuration: Option<&ObjectKey>,
    holds_finalizer: bool,
    caches: &Caches,
) -> Claim {
    if holds_finalizer {
        return Claim::Ours;
    }
    let found = configuration.and_then(|key| caches.store::<Whole<ProviderConfig>>().get(key));
    match found {
        Some(found) if found.value.0.spec.provider == P::KIND => Claim::Ours,
        Some(_) => Claim::Foreign,
        None => Claim::Unclear,
    }
}

/// The address pools of a configuration, in the order in which they are asked.
pub(crate) fn pools(config: &ProviderConfig) -> Vec<String> {
    let network = config.spec.network.as_ref();
    let network = network.filter(|network| network.mode == NetworkMode::Ipam);
    let mut references: Vec<_> = network
        .into_iter()
        .flat_map(|network| &network.pool_refs)
        .collect();
    // Stable: those of equal priority stay in the order written.
    references.sort_by_key(|pool| std::cmp::Reverse(pool.priority));
    references
        .into_iter()
        .map(|pool| pool.name.clone())
        .collect()
}

impl Doors {
    pub(crate) fn uses(&self) -> Uses {
        self.uses.clone()
    }

    /// The way to the provider of a request, or what is in the way.
    pub(crate) async fn open<P: Provider>(
        &self,
        petition: &Petition<'_>,
        context: &Context,
    ) -> Result<Result<Granted, ProviderError>, Failure> {
        let key = petition.configuration;
        let cached = context.cache::<Whole<ProviderConfig>>().get(key);
        let config = cached.filter(|cached| cached.value.0.spec.provider == P::KIND);
        let Some(config) = config else {
            let needs_none = P::KIND.credential_keys().is_empty();
            if petition.deleting && needs_none {
                // What stands on this very host can be removed without settings.
                return Ok(Ok(Granted {
                    access: Access {
                        config: without_settings(P::KIND, key),
                        credentials: Credentials::default(),
                    },
                    credentials_version: None,
                }));
            }
            return missing(key, context.api()).await.map(Err);
        };
        let config = config.value.0.clone();
        let (credentials, credentials_version) =
            match self.credentials(&config, petition, context).await? {
                Ok(found) => found,
                Err(error) => return Ok(Err(error)),
            };
        Ok(Ok(Granted {
            access: Access {
                config,
                credentials,
            },
            credentials_version,
        }))
    }

    /// Asks the provider whether it can be used, once for each configuration and Secret.
    pub(crate) async fn validate<P: Provider>(
        &self,
        provider: &P,
        granted: &Granted,
    ) -> Result<(), ProviderError> {
        let metadata = &granted.access.config.metadata;
        let key = ObjectKey::of(&granted.access.config);
        let validated = Validated {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            credentials_version: granted.credentials_version.clone(),
        };
        if lock(&self.valid).get(&key) == Some(&validated) {
            return Ok(());
        }
        provider.validate(&granted.access).await?;
        lock(&self.valid).insert(key, validated);
        Ok(())
    }

    async fn credentials(
        &self,
        config: &ProviderConfig,
        petition: &Petition<'_>,
        context: &Context,
    ) -> Result<Result<(Credentials, Option<String>), ProviderError>, Failure> {
        let Some(reference) = &config.spec.credentials_ref else {
            return Ok(Ok((Credentials::default(), None)));
        };
        let configuration = petition.configuration;
        let namespace = reference.namespace.as_ref();
        let key = ObjectKey {
            namespace: namespace.or(configuration.namespace.as_ref()).cloned(),
            name: reference.name.clone(),
        };
        self.uses.note(&key, petition.request.clone());
        let absent = || {
            let message = format!(
                "ProviderConfig {configuration}: the Secret {key} named by spec.credentialsRef does not exist; create it"
            );
            ProviderError::credentials(message)
        };
        let Some(cached) = context.cache::<Metadata<Secret>>().get(&key) else {
            lock(&self.credentials).remove(&key);
            return Ok(Err(absent()));
        };
        let version = cached.facts.resource_version.clone();
        if let Some(known) = lock(&self.credentials).get(&key)
            && known.version == version
        {
            return Ok(Ok((known.credentials.clone(), Some(version))));
        }
        let Some((credentials, version)) = read_secret(&key, context.api()).await? else {
            return Ok(Err(absent()));
        };
        let known = Known {
            version: version.clone(),
            credentials: credentials.clone(),
        };
        lock(&self.credentials).insert(key, known);
        Ok(Ok((credentials, Some(version))))
    }
}

/// The values of a Secret and their version; nothing if it does not exist.
pub(crate) async fn read_secret(
    key: &ObjectKey,
    api: &dyn ApiServer,
) -> Result<Option<(Credentials, String)>, Failure> {
    let body = api.get(&Kind::of::<Secret>(), key).await?;
    let secret: Option<Secret> = body.and_then(|body| serde_json::from_value(body).ok());
    Ok(secret.map(|secret| {
        let values = secret.data.unwrap_or_default().into_iter();
        let values = values
            .map(|(key, ByteString(value))| (key, value))
            .collect();
        let version = secret.metadata.resource_version.unwrap_or_default();
        (Credentials::new(values), version)
    }))
}

/// The configuration is not in the cache. Only the API server knows whether it exists.
async fn missing(key: &ObjectKey, api: &dyn ApiServer) -> Result<ProviderError, Failure> {
    if api.get(&Kind::of::<ProviderConfig>(), key).await?.is_some() {
        return Err(Failure {
            class: Class::Stale,
            reason: reasons::OBSERVE_FAILED,
            message: format!("ProviderConfig {key} is newer than our picture of it"),
        });
    }
    let message = format!(
        "the ProviderConfig {key} does not exist; create it, or correct spec.providerRef in a new request"
    );
    let class = ErrorClass::Terminal;
    Ok(ProviderError::new(
        class,
        reasons::PROVIDER_CONFIG_NOT_FOUND,
        message,
    ))
}

fn without_settings(kind: ProviderKind, key: &ObjectKey) -> ProviderConfig {
    let spec = ProviderConfigSpec {
        provider: kind,
        credentials_ref: None,
        cluster_api_provider: ClusterApiProvider::default(),
        harvester: None,
        nutanix: None,
        proxmox: None,
        azure: None,
        aws: None,
        gcp: None,
        local: None,
        network: None,
        scope: None,
        limits: None,
    };
    let mut config = ProviderConfig::new(&key.name, spec);
    config.metadata.namespace.clone_from(&key.namespace);
    config
}

//! What the plan for the platform's settings depends on. All of it is cached.

use butler_api::{
    butler::{butler_config::ButlerConfig, provider_config::ProviderConfig, team::Team},
    keys::names,
};
use butler_runtime::{cache::Metadata, object::ObjectKey, reconciler::Context};
use k8s_openapi::api::core::v1::{Namespace, Secret};

use super::namespace_key;
use crate::projections::TenantClusterFacts;

/// The world around the platform's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// How many teams there are.
    pub teams: usize,
    /// How many tenant clusters there are.
    pub clusters: usize,
    /// The namespace for clusters without a team.
    pub namespace: NamespaceState,
    /// References that lead nowhere: the field and what it names.
    pub missing: Vec<(&'static str, ObjectKey)>,
}

/// How the namespace for clusters without a team stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    /// It does not exist.
    Absent,
    /// It exists.
    Present,
    /// It is going away; it can be made anew when it is gone.
    Terminating,
}

pub(super) fn observe(config: &ButlerConfig, context: &Context) -> World {
    let namespace = context
        .cache::<Metadata<Namespace>>()
        .get(&namespace_key(config));
    let providers = context.cache::<Metadata<ProviderConfig>>();
    let secret_cache = context.cache::<Metadata<Secret>>();
    let provider = default_provider(config).filter(|key| providers.get(key).is_none());
    let missing_secrets = secrets(config).filter(|(_, key)| secret_cache.get(key).is_none());
    World {
        teams: context.cache::<Metadata<Team>>().len(),
        clusters: context.cache::<TenantClusterFacts>().len(),
        namespace: match namespace {
            None => NamespaceState::Absent,
            Some(namespace) if namespace.facts.deleting => NamespaceState::Terminating,
            Some(_) => NamespaceState::Present,
        },
        missing: provider
            .map(|key| ("spec.defaultProviderConfigRef", key))
            .into_iter()
            .chain(missing_secrets)
            .collect(),
    }
}

/// The provider that clusters use when they name none.
pub(super) fn default_provider(config: &ButlerConfig) -> Option<ObjectKey> {
    let reference = config.spec.default_provider_config_ref.as_ref()?;
    Some(ObjectKey::namespaced(
        names::SYSTEM_NAMESPACE,
        &reference.name,
    ))
}

/// The Secrets the settings name, with the field that does.
pub(super) fn secrets(config: &ButlerConfig) -> impl Iterator<Item = (&'static str, ObjectKey)> {
    let git = config.spec.git_provider.as_ref().map(|git| {
        (
            "spec.gitProvider.secretRef",
            ObjectKey::namespaced(names::SYSTEM_NAMESPACE, &git.secret_ref.name),
        )
    });
    let images = config
        .spec
        .image_factory
        .as_ref()
        .and_then(|factory| factory.credentials_ref.as_ref())
        .map(|secret| {
            let namespace = secret
                .namespace
                .as_deref()
                .unwrap_or(names::SYSTEM_NAMESPACE);
            (
                "spec.imageFactory.credentialsRef",
                ObjectKey::namespaced(namespace, &secret.name),
            )
        });
    git.into_iter().chain(images)
}

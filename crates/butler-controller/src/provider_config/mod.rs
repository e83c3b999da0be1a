//! `ProviderConfig`: access to an infrastructure.
//!
//! | | |
//! |---|---|
//! | reconciles | `ProviderConfig` |
//! | watches | Secret (metadata), Team (metadata), `NetworkPool`, `TenantCluster`, `ButlerConfig` (which provider is the default) |
//! | writes | nothing but the status; the finalizer is held while a tenant cluster uses the provider |
//! | conditions | `CredentialsValid`, `PoolAvailable` (address pools in use), `QuotaSatisfied` (limits set), `Ready` |
//!
//! Credentials are read once per version of their Secret and only their shape is kept: whether a key is there and whether its
//! value can be what it should be.

mod credentials;
mod observe;
mod plan;

use butler_api::{
    butler::{
        butler_config::ButlerConfig,
        provider_config::{ProviderConfig, ProviderConfigStatus},
        team::Team,
    },
    keys::finalizers,
};
use butler_runtime::{
    cache::{Metadata, Whole},
    failure::Failure,
    object::ObjectKey,
    plan::Plan,
    reconciler::{Context, NoEffect, Reconciler, Sources},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use crate::projections::{NetworkPoolFacts, TenantClusterFacts};
pub use credentials::CredentialsShape;
pub use observe::{Usage, World};
pub(crate) use observe::{provider_of, users};

/// The controller of [`ProviderConfig`].
#[derive(Debug, Default)]
pub struct ProviderConfigReconciler {
    shapes: credentials::Shapes,
}

impl Reconciler for ProviderConfigReconciler {
    const NAME: &'static str = "providerconfig";
    const FINALIZER: Option<&'static str> = Some(finalizers::PROVIDER_CONFIG);

    type Object = ProviderConfig;
    type Status = ProviderConfigStatus;
    type World = World;
    type Effect = NoEffect;

    fn sources(&self, sources: &mut Sources<'_, ProviderConfig>) {
        sources.reads::<Metadata<Secret>>(|secret, providers| {
            let uses = |provider: &ProviderConfig| {
                observe::credentials_key(provider).as_ref() == Some(&secret.facts.key)
            };
            providers.keys_where(|provider| uses(&provider.value.0))
        });
        sources.reads::<Whole<Team>>(|team, providers| {
            // The team that it is for, and teams whose clusters may run on it unasked.
            let concerns = |provider: &ProviderConfig| {
                observe::team(provider) == Some(team.facts.key.name.as_str())
            };
            providers.keys_where(|provider| {
                concerns(&provider.value.0) || observe::may_be_default(&provider.facts.key)
            })
        });
        sources.reads::<NetworkPoolFacts>(|pool, providers| {
            let uses =
                |provider: &ProviderConfig| observe::pools(provider).contains(&pool.facts.key);
            providers.keys_where(|provider| uses(&provider.value.0))
        });
        sources.reads::<TenantClusterFacts>(|cluster, providers| match &cluster.value.provider {
            Some(key) => providers
                .get(key)
                .map(|provider| provider.facts.key.clone())
                .into_iter()
                .collect(),
            None => providers.keys_where(|provider| observe::may_be_default(&provider.facts.key)),
        });
        sources.reads::<Whole<ButlerConfig>>(|_, providers| {
            providers.keys_where(|provider| observe::may_be_default(&provider.facts.key))
        });
    }

    async fn observe(
        &self,
        provider: &ProviderConfig,
        context: &Context,
    ) -> Result<World, Failure> {
        observe::observe(provider, &self.shapes, context).await
    }

    fn plan(
        &self,
        provider: &ProviderConfig,
        world: &World,
        now: Timestamp,
    ) -> Plan<ProviderConfigStatus, NoEffect> {
        plan::plan(provider, world, now)
    }

    async fn perform(
        &self,
        _: &ProviderConfig,
        effect: &NoEffect,
        _: &Context,
    ) -> Result<(), Failure> {
        match *effect {}
    }
}

/// The namespace a provider's references lead to when they name none.
fn own_namespace(provider: &ProviderConfig) -> &str {
    provider.metadata.namespace.as_deref().unwrap_or_default()
}

fn key_in(provider: &ProviderConfig, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey::namespaced(namespace.unwrap_or_else(|| own_namespace(provider)), name)
}

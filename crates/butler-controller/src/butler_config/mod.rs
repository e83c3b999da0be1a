//! `ButlerConfig`: the platform's settings, of which there is one.
//!
//! | | |
//! |---|---|
//! | reconciles | `ButlerConfig` `butler` |
//! | watches | Namespace (metadata), Team (metadata), `TenantCluster`, `ProviderConfig` (metadata), Secret (metadata) |
//! | writes | the namespace for tenant clusters without a team, unless teams are enforced. It is never deleted: clusters may live in it |
//! | conditions | `NamespaceReady`, `Configured`, `FeaturesAvailable` |
//!
//! The counts in the status follow their watches; nothing is polled.

mod observe;
mod plan;

use butler_api::butler::{
    butler_config::{ButlerConfig, ButlerConfigStatus},
    provider_config::ProviderConfig,
    team::Team,
};
use butler_runtime::{
    cache::Metadata,
    failure::Failure,
    object::ObjectKey,
    plan::Plan,
    reconciler::{Context, NoEffect, Reconciler, Sources},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};

use crate::projections::TenantClusterFacts;
pub use observe::{NamespaceState, World};

/// The controller of [`ButlerConfig`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ButlerConfigReconciler;

impl Reconciler for ButlerConfigReconciler {
    const NAME: &'static str = "butlerconfig";

    type Object = ButlerConfig;
    type Status = ButlerConfigStatus;
    type World = World;
    type Effect = NoEffect;

    fn sources(&self, sources: &mut Sources<'_, ButlerConfig>) {
        sources.owns_as::<Metadata<Namespace>>();
        // Also while it is not ours yet: one that is going away is made anew when it is gone.
        sources.reads::<Metadata<Namespace>>(|namespace, configs| {
            configs.keys_where(|config| namespace_key(&config.value.0) == namespace.facts.key)
        });
        sources.reads::<Metadata<Team>>(|_, configs| configs.keys());
        sources.reads::<TenantClusterFacts>(|_, configs| configs.keys());
        sources.reads::<Metadata<ProviderConfig>>(|provider, configs| {
            let named = |config: &ButlerConfig| {
                observe::default_provider(config).is_some_and(|key| key == provider.facts.key)
            };
            configs.keys_where(|config| named(&config.value.0))
        });
        sources.reads::<Metadata<Secret>>(|secret, configs| {
            configs.keys_where(|config| {
                observe::secrets(&config.value.0).any(|(_, key)| key == secret.facts.key)
            })
        });
    }

    async fn observe(&self, config: &ButlerConfig, context: &Context) -> Result<World, Failure> {
        Ok(observe::observe(config, context))
    }

    fn plan(
        &self,
        config: &ButlerConfig,
        world: &World,
        now: Timestamp,
    ) -> Plan<ButlerConfigStatus, NoEffect> {
        plan::plan(config, world, now)
    }

    async fn perform(
        &self,
        _: &ButlerConfig,
        effect: &NoEffect,
        _: &Context,
    ) -> Result<(), Failure> {
        match *effect {}
    }
}

/// The key of the namespace that tenant clusters without a team live in.
fn namespace_key(config: &ButlerConfig) -> ObjectKey {
    ObjectKey::cluster(&config.spec.default_namespace)
}

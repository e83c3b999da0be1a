//! `TenantControlPlane`: one hosted control plane.
//!
//! | | |
//! |---|---|
//! | reconciles | `TenantControlPlane` |
//! | watches | Secrets with Steward's label, Services, Deployments, Ingresses and routes it owns, `DataStore`s and the Secrets they refer to, other `TenantControlPlane`s (who has which part of a store) |
//! | writes | Secrets (certificates, keys, kubeconfigs, store settings), Service, Deployment, disruption budget, egress configuration, Ingress or routes; its part of the data store; the inside of the tenant through its port; the finalizer is held while its data is in a store |
//! | conditions | `CertificatesReady`, `DataStoreReady`, `DataStoreMigrated` (while the state is not where it shall be), `EndpointReady`, `Available` (pods serve), `RollingOut`, `TenantConfigured`, `FeaturesAvailable`, `Ready` |
//!
//! Everything that does not depend on something else is made in the first pass: Service, authorities, keys, clients'
//! certificates. With the address come the serving certificate and the kubeconfigs; with the store's set-up and all Secrets,
//! the pods. The store a control plane uses, and its name there, are in the status before the store hears of it: so nothing
//! is left behind however a deletion comes. How the state moves to another store is told by `migration`.

mod exposure;
mod findings;
mod inside;
mod look;
mod migration;
mod observe;
mod part;
mod perform;
mod phase;
mod plan;
mod stages;
mod status;
mod step;
mod storage;

use std::sync::Arc;

use butler_api::{
    keys::{annotations, finalizers},
    steward::{
        data_store::DataStore,
        tenant_control_plane::{TenantControlPlane, TenantControlPlaneStatus},
    },
};
use butler_runtime::{
    cache::Whole,
    failure::Failure,
    object::ObjectKey,
    plan::Plan,
    reconciler::{Bell, Context, Needs, Reconciler, Sources},
};
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::ConfigMap, policy::v1::PodDisruptionBudget};
use kube::ResourceExt;
use serde::Serialize;

use crate::{
    foreign_routes::{
        InV1, InV1Alpha2, InV1Alpha3, TlsRoute, TlsRouteDefinition, TraefikDefinition, TraefikRoute,
    },
    move_port::MovePort,
    names::SecretRole,
    projections::{DeploymentFacts, IngressFacts, SecretVersion, ServiceFacts},
    secrets::{KeptSecret, Keys, Order},
    settings::Settings,
    store::{DiscardOrder, ErrandOrder, Resolver, StoreOrder, StorePort},
    tenant_port::TenantPort,
};

pub(crate) use observe::cached;
pub use observe::{StoreView, World};
pub(crate) use part::{
    chosen_store, is_frozen, overrides_of, touches, used_stores, watched_stores,
};
pub use phase::phase;
pub(crate) use plan::{serving_version, version_to_run};

/// What server-side apply cannot do for a control plane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Effect {
    /// Makes certificates, keys and kubeconfigs.
    Issue {
        /// Which, and why.
        orders: Vec<Order>,
        /// When: they are valid from then on.
        at: Timestamp,
    },
    /// Sets its part of the data store up.
    EnsureStore(StoreOrder),
    /// Takes its part of the data store away.
    DiscardStore(DiscardOrder),
    /// Has something done in data stores that may take long.
    RunErrand(Box<ErrandOrder>),
    /// Brings the inside of the tenant in step.
    ConfigureTenant {
        /// Fingerprint of what it depends on.
        fingerprint: String,
    },
    /// Lets go of the inside of the tenant.
    ReleaseTenant,
    /// Removes a Secret that nothing needs any more.
    RemoveSecret {
        /// Which.
        role: SecretRole,
        /// Its UID.
        uid: String,
        /// The version that was judged.
        resource_version: String,
    },
    /// Ends the pods: their Deployment goes when all of them are gone.
    EndPods {
        /// UID of the Deployment.
        uid: String,
    },
    /// Takes the finalizer off that an older release left.
    DropLegacyFinalizer,
    /// Takes the finalizer off Secrets on which an older release left it: they could never go.
    FreeSecrets {
        /// Which.
        roles: Vec<SecretRole>,
    },
}

/// What the controller reaches beside Kubernetes.
#[derive(Clone)]
pub struct Ports {
    /// The way to data stores.
    pub stores: Arc<dyn StorePort>,
    /// The way into tenants; without one, tenants stay as Kubernetes makes them.
    pub tenants: Option<Arc<dyn TenantPort>>,
    /// What moves state between data stores.
    pub moves: Arc<dyn MovePort>,
    /// Where keys come from.
    pub keys: Arc<dyn Keys>,
    /// Rung when something inside of a tenant changed.
    pub bell: Bell<TenantControlPlane>,
}

/// The controller of [`TenantControlPlane`].
#[derive(Clone)]
pub struct TenantControlPlaneReconciler {
    settings: Settings,
    ports: Ports,
    resolver: Resolver,
}

impl TenantControlPlaneReconciler {
    /// A controller with these settings and ports.
    pub fn new(settings: Settings, ports: Ports) -> Self {
        let resolver = Resolver::new(&settings.namespace);
        Self {
            settings,
            ports,
            resolver,
        }
    }
}

impl Reconciler for TenantControlPlaneReconciler {
    const NAME: &'static str = "tenantcontrolplane";
    const FINALIZER: Option<&'static str> = Some(finalizers::TENANT_CONTROL_PLANE);

    type Object = TenantControlPlane;
    type Status = TenantControlPlaneStatus;
    type World = World;
    type Effect = Effect;

    fn sources(&self, sources: &mut Sources<'_, TenantControlPlane>) {
        sources.owns::<ConfigMap>();
        sources.owns_as::<ServiceFacts>();
        sources.owns::<PodDisruptionBudget>();
        sources.owns_as::<DeploymentFacts>();
        sources.owns_as::<IngressFacts>();
        sources.owns_as::<TraefikRoute>();
        sources.owns_as::<TlsRoute<InV1>>();
        sources.owns_as::<TlsRoute<InV1Alpha3>>();
        sources.owns_as::<TlsRoute<InV1Alpha2>>();
        sources.reads::<TlsRouteDefinition>(|_, control_planes| {
            control_planes.keys_where(|found| found.value.0.spec.control_plane.gateway.is_some())
        });
        sources.reads::<TraefikDefinition>(|_, control_planes| {
            control_planes.keys_where(|found| found.value.0.spec.control_plane.ingress.is_some())
        });
        sources.reads::<KeptSecret>(|secret, control_planes| {
            let tenant = &secret.value.tenant;
            control_planes
                .get(tenant)
                .map(|_| tenant.clone())
                .into_iter()
                .collect()
        });
        let settings = self.settings.clone();
        sources.reads::<Whole<DataStore>>(move |store, control_planes| {
            let name = store.value.0.name_any();
            control_planes
                .keys_where(|found| watched_stores(&found.value.0, &settings).contains(&name))
        });
        let (settings, resolver) = (self.settings.clone(), self.resolver.clone());
        sources.reads::<SecretVersion>(move |secret, control_planes| {
            let stores = resolver.referring_to(&secret.facts.key);
            if stores.is_empty() {
                return Vec::new();
            }
            control_planes.keys_where(|found| {
                let watched = watched_stores(&found.value.0, &settings);
                watched.iter().any(|store| stores.contains(store))
            })
        });
        let settings = self.settings.clone();
        // Who gives up a part of a store makes room for who waits for it.
        sources.reads::<Whole<TenantControlPlane>>(move |changed, control_planes| {
            let changed = &changed.value.0;
            control_planes.keys_where(|found| {
                let other = &found.value.0;
                other.uid() != changed.uid() && touches(other, changed, &settings)
            })
        });
        sources.hears(&self.ports.bell);
    }

    fn paused(&self, control_plane: &TenantControlPlane, _: &Context) -> Option<String> {
        let paused = control_plane
            .annotations()
            .contains_key(annotations::STEWARD_PAUSED);
        paused.then(|| {
            format!(
                "remove the annotation {} to go on",
                annotations::STEWARD_PAUSED
            )
        })
    }

    async fn observe(
        &self,
        control_plane: &TenantControlPlane,
        context: &Context,
    ) -> Result<World, Failure> {
        observe::observe(control_plane, self, context).await
    }

    fn plan(
        &self,
        control_plane: &TenantControlPlane,
        world: &World,
        now: Timestamp,
    ) -> Plan<TenantControlPlaneStatus, Effect> {
        plan::plan(control_plane, world, &self.settings, now)
    }

    fn leaves_a_mark(&self, effect: &Effect) -> bool {
        !matches!(
            effect,
            Effect::ConfigureTenant { .. } | Effect::ReleaseTenant
        )
    }

    fn needs(&self, effect: &Effect) -> Needs {
        match effect {
            // Whatever is refused or does not answer: certificates are renewed, stores set up, tenants repaired.
            Effect::Issue { .. }
            | Effect::EnsureStore(_)
            | Effect::ConfigureTenant { .. }
            | Effect::FreeSecrets { .. } => Needs::Nothing,
            Effect::DiscardStore(_)
            | Effect::RunErrand(_)
            | Effect::RemoveSecret { .. }
            | Effect::ReleaseTenant
            | Effect::EndPods { .. }
            | Effect::DropLegacyFinalizer => Needs::EarlierEffects,
        }
    }

    async fn perform(
        &self,
        control_plane: &TenantControlPlane,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        perform::perform(control_plane, effect, self, context).await
    }
}

/// The key of a control plane.
pub(crate) fn key_of(control_plane: &TenantControlPlane) -> ObjectKey {
    ObjectKey::of(control_plane)
}

//! `DataStore`: a database that keeps the state of control planes.
//!
//! | | |
//! |---|---|
//! | reconciles | `DataStore` |
//! | watches | `TenantControlPlane`s that use it, the Secrets it refers to (by version) |
//! | writes | nothing but the status; the finalizer is held while a control plane uses it |
//! | conditions | `DataStoreValidated` (its references can be followed), `FeaturesAvailable` (False: not all that it says is used), `Ready` (it answers and accepts the credentials) |
//!
//! A store is asked how it is when it or its credentials change, and every now and then. The answer is remembered, so that a
//! look between costs nothing.

pub(crate) mod plan;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use butler_api::{
    keys::{annotations, finalizers},
    steward::{
        data_store::{DataStore, DataStoreStatus},
        tenant_control_plane::TenantControlPlane,
    },
};
use butler_runtime::{
    cache::{Caches, Whole},
    failure::Failure,
    object::ObjectKey,
    plan::Plan,
    reconciler::{Context, Reconciler, Sources},
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use crate::{
    projections::SecretVersion,
    settings::Settings,
    store::{Resolver, StoreError, StoreFacts, StorePort},
    tenant_control_plane::used_stores,
};

/// How a store was when it was asked last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Fingerprint of the access it was asked with.
    pub fingerprint: String,
    /// When.
    pub at: Timestamp,
    /// What it answered.
    pub answer: Result<(), StoreError>,
}

/// The world around a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// The control planes that use it.
    pub users: Vec<ObjectKey>,
    /// What is known of it, or what is wrong with its references.
    pub facts: Result<StoreFacts, String>,
    /// How it was when it was asked last.
    pub health: Option<Health>,
}

/// What server-side apply cannot do for a store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Effect {
    /// Asks it how it is.
    Ask {
        /// Fingerprint of the access.
        fingerprint: String,
        /// When.
        at: Timestamp,
    },
}

/// The controller of [`DataStore`].
#[derive(Clone)]
pub struct DataStoreReconciler {
    settings: Settings,
    port: Arc<dyn StorePort>,
    resolver: Resolver,
    period: Duration,
    healths: Arc<Mutex<BTreeMap<String, Health>>>,
}

impl DataStoreReconciler {
    /// A controller that asks each store through this port, at least once in a period.
    pub fn new(settings: Settings, port: Arc<dyn StorePort>, period: Duration) -> Self {
        Self {
            resolver: Resolver::new(&settings.namespace),
            settings,
            port,
            period,
            healths: Arc::default(),
        }
    }

    fn healths(&self) -> MutexGuard<'_, BTreeMap<String, Health>> {
        self.healths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The control planes that use a store, or want to.
fn users(caches: &Caches, store: &str, settings: &Settings) -> Vec<ObjectKey> {
    users_where(caches, store, settings, |_| true)
}

/// Those of them that are there to stay. One that is being deleted may wait for the store itself: whether it answers once more,
/// or is given up.
pub(crate) fn staying_users(caches: &Caches, store: &str, settings: &Settings) -> Vec<ObjectKey> {
    users_where(caches, store, settings, |user| {
        user.metadata.deletion_timestamp.is_none()
    })
}

fn users_where(
    caches: &Caches,
    store: &str,
    settings: &Settings,
    is_meant: impl Fn(&TenantControlPlane) -> bool,
) -> Vec<ObjectKey> {
    let all = caches.store::<Whole<TenantControlPlane>>().list();
    let using = all.iter().filter(|found| {
        let control_plane = &found.value.0;
        let used = used_stores(control_plane, settings);
        is_meant(control_plane) && used.iter().any(|used| used == store)
    });
    using.map(|found| found.facts.key.clone()).collect()
}

impl Reconciler for DataStoreReconciler {
    const NAME: &'static str = "datastore";
    const FINALIZER: Option<&'static str> = Some(finalizers::DATA_STORE);

    type Object = DataStore;
    type Status = DataStoreStatus;
    type World = World;
    type Effect = Effect;

    fn sources(&self, sources: &mut Sources<'_, DataStore>) {
        let settings = self.settings.clone();
        sources.reads::<Whole<TenantControlPlane>>(move |control_plane, stores| {
            let used = used_stores(&control_plane.value.0, &settings).into_iter();
            let keys = used.map(ObjectKey::cluster);
            keys.filter(|key| stores.get(key).is_some()).collect()
        });
        let resolver = self.resolver.clone();
        sources.reads::<SecretVersion>(move |secret, stores| {
            let referring = resolver.referring_to(&secret.facts.key).into_iter();
            let keys = referring.map(ObjectKey::cluster);
            keys.filter(|key| stores.get(key).is_some()).collect()
        });
    }

    fn paused(&self, store: &DataStore, _: &Context) -> Option<String> {
        let paused = store
            .annotations()
            .contains_key(annotations::STEWARD_PAUSED);
        paused.then(|| {
            format!(
                "remove the annotation {} to go on",
                annotations::STEWARD_PAUSED
            )
        })
    }

    async fn observe(&self, store: &DataStore, context: &Context) -> Result<World, Failure> {
        let facts = self.resolver.facts(store, context).await?;
        let uid = store.uid().unwrap_or_default();
        Ok(World {
            users: users(context.caches(), &store.name_any(), &self.settings),
            facts,
            health: self.healths().get(&uid).cloned(),
        })
    }

    fn plan(
        &self,
        store: &DataStore,
        world: &World,
        now: Timestamp,
    ) -> Plan<DataStoreStatus, Effect> {
        plan::plan(store, world, self.period, now)
    }

    /// A question changes nothing, and is due after every restart.
    fn leaves_a_mark(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Ask { .. } => false,
        }
    }

    async fn perform(
        &self,
        store: &DataStore,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        let Effect::Ask { fingerprint, at } = effect;
        let access = self.resolver.usable(store, context.api()).await?;
        let answer = self.port.check(&access).await;
        let health = Health {
            fingerprint: fingerprint.clone(),
            at: *at,
            answer,
        };
        self.healths()
            .insert(store.uid().unwrap_or_default(), health);
        Ok(())
    }
}

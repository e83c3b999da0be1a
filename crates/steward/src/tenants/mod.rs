//! The insides of tenants, kept in step with their control planes: what stands behind [`TenantPort`] in a running process.
//!
//! Owns: one connection and one light task for each tenant that serves; what is known of each, by UID, in memory alone. The
//! task waits until the tenant's API server is ready, makes the tenant what `steward-tenant` says, and looks again when a watch
//! tells of a change, and now and then. Tenants share a bounded number of such passes; none of them waits for a tenant that does not answer.
//!
//! Must not: decide what a tenant has, or write into the management cluster.

mod connect;
mod keep;
mod vigil;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_runtime::{
    client::Component,
    failure::Failure,
    metrics::Metrics,
    reconciler::{Bell, Context},
    remote::{HealthSettings, RemoteClusters, RemoteKey, RemoteSettings},
    task,
};
use futures::future::BoxFuture;
use tokio::{sync::Semaphore, task::AbortHandle};

use crate::{
    names::Names,
    settings::Settings,
    tenant_port::{TenantPort, TenantState},
};

pub use connect::TenantAccess;
pub(crate) use connect::{chosen_kubeconfig, facts_of};

/// As many tenants are brought in step at the same time: enough for a fleet that starts all at once, few enough that the
/// process stays small.
const CONCURRENT_PASSES: usize = 16;
/// How often a tenant that was found ready is asked whether it still is. Nothing but the next pass waits for the answer.
const HEALTH_PERIOD: Duration = Duration::from_mins(5);

/// The insides of tenants. Dropping it ends all work on them.
pub struct Tenants {
    shared: Arc<Shared>,
    remotes: RemoteClusters,
    passes: Arc<Semaphore>,
    access: TenantAccess,
    settings: Settings,
}

struct Shared {
    bell: Bell<TenantControlPlane>,
    known: Mutex<BTreeMap<String, Known>>,
}

/// What is known of one tenant.
struct Known {
    key: RemoteKey,
    wanted: String,
    state: TenantState,
    _keeper: Keeper,
}

/// The task of a tenant; it ends when this goes.
struct Keeper(AbortHandle);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Tenants {
    /// No tenants yet. `bell` is rung when something becomes known of one.
    pub fn new(
        component: Component,
        metrics: Metrics,
        bell: Bell<TenantControlPlane>,
        access: TenantAccess,
        settings: Settings,
    ) -> Self {
        let remote = RemoteSettings {
            health: HealthSettings {
                interval: HEALTH_PERIOD,
                ..HealthSettings::default()
            },
            ..RemoteSettings::default()
        };
        Self {
            shared: Arc::new(Shared {
                bell,
                known: Mutex::default(),
            }),
            remotes: RemoteClusters::new(component, remote, metrics),
            passes: Arc::new(Semaphore::new(CONCURRENT_PASSES)),
            access,
            settings,
        }
    }

    async fn begin(
        &self,
        control_plane: &TenantControlPlane,
        fingerprint: &str,
        context: &Context,
    ) -> Result<(), Failure> {
        let names = Names::of(control_plane);
        if self.shared.is_at_it(names.uid(), fingerprint) {
            return Ok(());
        }
        let facts = connect::facts(control_plane, &names, &self.settings, context)?;
        let cluster = connect::connect(&self.remotes, control_plane, self.access, context).await?;
        let work = keep::Work {
            shared: Arc::downgrade(&self.shared),
            passes: Arc::clone(&self.passes),
            uid: names.uid().to_owned(),
            fingerprint: fingerprint.to_owned(),
            cluster,
            facts,
        };
        let mut known = self.shared.known();
        let keeper = task::spawn("tenant", work.run());
        let entry = Known {
            key: connect::remote_key(&names),
            wanted: fingerprint.to_owned(),
            state: TenantState::default(),
            _keeper: Keeper(keeper.abort_handle()),
        };
        known.insert(names.uid().to_owned(), entry);
        Ok(())
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_at_it(&self, uid: &str, fingerprint: &str) -> bool {
        self.known()
            .get(uid)
            .is_some_and(|known| known.wanted == fingerprint)
    }

    /// Remembers how a tenant is, if that is still what was asked for, and says so if it is news.
    fn tell(&self, uid: &str, fingerprint: &str, state: TenantState) {
        let is_news = {
            let mut known = self.known();
            let entry = known
                .get_mut(uid)
                .filter(|entry| entry.wanted == fingerprint);
            entry.is_some_and(|entry| {
                let is_news = entry.state != state;
                entry.state = state;
                is_news
            })
        };
        if is_news {
            self.bell.ring(uid);
        }
    }
}

impl TenantPort for Tenants {
    fn state(&self, uid: &str) -> TenantState {
        let known = self.shared.known();
        known
            .get(uid)
            .map(|known| known.state.clone())
            .unwrap_or_default()
    }

    fn configure<'a>(
        &'a self,
        control_plane: &'a TenantControlPlane,
        fingerprint: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(self.begin(control_plane, fingerprint, context))
    }

    fn release(&self, uid: &str) {
        let known = self.shared.known().remove(uid);
        if let Some(known) = known {
            self.remotes.remove(&known.key);
        }
    }
}

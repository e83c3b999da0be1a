//! Stores in memory with what tenants wrote into them, the API servers that stand before them, and the tenants who write.
//!
//! What a process of Steward remembers is its *life*: with the process it is lost, and what it had begun stays half done.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use butler_api::steward::tenant_control_plane::{TenantControlPlane, status::MigrationStage};
use butler_runtime::{
    failure::Failure,
    object::ObjectKey,
    reconciler::{Bell, Context},
};
use butler_testkit::simulator::{Fault, Handling, ObjectStore, Wire};
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use serde_json::json;
use steward::{
    move_port::{Arrival, ErrandState, ErrandTask, Job, MovePort, Progress},
    store::{StoreAccess, StoreAnswer, StoreError, StoreErrorKind, StoreGrant, StorePort},
    tenant_port::{TenantPort, TenantState},
};

use crate::scene::{self, SYSTEM};

/// One tenant's part of one store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// What was written.
    pub(crate) entries: BTreeSet<u64>,
    /// Whether the tenant's API servers on this store refuse writes.
    frozen: bool,
    /// Whether the tenant's account may use it.
    open: bool,
    /// Whether it takes no writes, whoever writes: its copy counts.
    fenced: bool,
}

/// Everything there is beside Kubernetes.
#[derive(Default)]
pub(crate) struct Contents {
    /// What is in stores, by the names of the store and the UIDs of tenants.
    pub(crate) parts: BTreeMap<(String, String), Part>,
    /// The stores that API servers of a tenant use now.
    pub(crate) serving: BTreeMap<String, BTreeSet<String>>,
    /// What tenants were told is stored.
    pub(crate) accepted: BTreeMap<String, BTreeSet<u64>>,
    /// How much tenants write in all.
    pub(crate) writes: u64,
    /// Stores with which no pod comes up.
    pub(crate) useless: BTreeSet<String>,
    life: Option<Arc<Life>>,
    turns: u64,
}

/// Lets everybody in the world look again: what is not in Kubernetes has changed.
fn pulse(contents: &mut Contents, store: &mut ObjectStore) {
    contents.turns += 1;
    let status = json!({ "turns": contents.turns });
    store.update_status(
        "vault",
        &scene::namespaces(),
        &ObjectKey::cluster(SYSTEM),
        status,
    );
}

impl Contents {
    /// Turns to the next of several.
    fn turn<T: Clone>(&mut self, choices: impl Iterator<Item = T>) -> Option<T> {
        let choices: Vec<T> = choices.collect();
        self.turns += 1;
        let count = u64::try_from(choices.len()).unwrap().max(1);
        choices
            .get(usize::try_from(self.turns % count).unwrap())
            .cloned()
    }

    /// The stores of a tenant that its API servers can use.
    fn usable(&self, uid: &str) -> Vec<String> {
        let serving = self.serving.get(uid).into_iter().flatten();
        let open = |store: &&String| {
            let part = self.parts.get(&((*store).clone(), uid.to_owned()));
            part.is_some_and(|part| part.open)
        };
        serving.filter(open).cloned().collect()
    }

    /// Some tenant writes something, if any API server lets it.
    pub(crate) fn write(&mut self) -> Option<String> {
        let uids: Vec<String> = self.serving.keys().cloned().collect();
        let uid = self.turn(uids.into_iter())?;
        let written = self.accepted.get(&uid).map_or(0, BTreeSet::len);
        let number = u64::try_from(written).unwrap();
        if number >= self.writes {
            return None;
        }
        let usable = self.usable(&uid);
        let free = usable.into_iter().filter(|store| {
            let part = self.parts.get(&(store.clone(), uid.clone()));
            part.is_some_and(|part| !part.frozen && !part.fenced)
        });
        let free: Vec<String> = free.collect();
        let store = self.turn(free.into_iter())?;
        let part = self.parts.get_mut(&(store.clone(), uid.clone()))?;
        part.entries.insert(number);
        self.accepted.entry(uid).or_default().insert(number);
        Some(format!("writes {number} into {store}"))
    }

    /// A process of Steward comes a step further inside of a tenant.
    pub(crate) fn configure(&mut self, objects: &mut ObjectStore) -> Option<String> {
        let life = self.life.clone()?;
        let mut tenants = life.tenants.lock().unwrap();
        let mut all = tenants.iter_mut();
        let (uid, tenant) = all.find(|(uid, tenant)| {
            tenant.state.configured.as_ref() != Some(&tenant.wanted) && !self.usable(uid).is_empty()
        })?;
        let usable = self.usable(uid);
        // Whichever of the API servers answers.
        let store = self.turn(usable.into_iter())?;
        let part = self.parts.get_mut(&(store.clone(), uid.clone()))?;
        if part.fenced && part.frozen != tenant.frozen {
            return None;
        }
        part.frozen = tenant.frozen;
        tenant.state.configured = Some(tenant.wanted.clone());
        life.bell.ring(uid);
        pulse(self, objects);
        Some(format!("frozen in {store}: {}", tenant.frozen))
    }

    /// A process of Steward comes a step further with an errand.
    pub(crate) fn run_errand(&mut self, objects: &mut ObjectStore) -> Option<String> {
        let life = self.life.clone()?;
        let mut errands = life.errands.lock().unwrap();
        let mut all = errands.iter_mut();
        let (uid, errand) = all.find(|(_, errand)| {
            matches!(
                errand.state.progress,
                Progress::Working | Progress::Failing(_)
            )
        })?;
        self.turns += 1;
        let key = |store: &str| (store.to_owned(), uid.clone());
        let progress = match (&errand.state.errand.task, errand.copied.take()) {
            // Every now and then something is in the way.
            _ if self.turns.is_multiple_of(7) => Progress::Failing("no answer".to_owned()),
            (ErrandTask::Copy { from, to, .. }, None) => {
                let source = self.parts.entry(key(from)).or_default();
                source.fenced = true;
                let snapshot = source.clone();
                let half = snapshot.entries.iter().take(snapshot.entries.len() / 2);
                let half = half.copied().collect();
                let partial = Part {
                    entries: half,
                    ..Part::default()
                };
                self.parts.insert(key(to), partial);
                errand.copied = Some(snapshot);
                Progress::Working
            }
            (ErrandTask::Copy { to, .. }, Some(snapshot)) => {
                let entries = u64::try_from(snapshot.entries.len()).unwrap();
                let arrived = Part {
                    open: true,
                    fenced: false,
                    ..snapshot
                };
                self.parts.insert(key(to), arrived);
                Progress::Done(Some(Arrival { entries, behind: 0 }))
            }
            (ErrandTask::Open { store }, _) => {
                if let Some(part) = self.parts.get_mut(&key(store)) {
                    part.open = true;
                    part.fenced = false;
                }
                Progress::Done(None)
            }
            (ErrandTask::Seal { store }, _) => {
                if let Some(part) = self.parts.get_mut(&key(store)) {
                    part.open = false;
                }
                Progress::Done(None)
            }
            (ErrandTask::Clear { store, .. }, _) => {
                self.parts.remove(&key(store));
                Progress::Done(None)
            }
        };
        errand.state.progress = progress;
        life.bell.ring(uid);
        pulse(self, objects);
        Some(format!("{:?}", errand.state))
    }
}

/// What one process remembers.
#[derive(Default)]
struct Life {
    bell: Bell<TenantControlPlane>,
    tenants: Mutex<BTreeMap<String, Tenant>>,
    errands: Mutex<BTreeMap<String, Errand>>,
}

struct Tenant {
    wanted: String,
    frozen: bool,
    state: TenantState,
}

struct Errand {
    state: ErrandState,
    /// The state as it was when the copy began.
    copied: Option<Part>,
}

/// All stores, and the way to them.
#[derive(Clone)]
pub(crate) struct Vault {
    contents: Arc<Mutex<Contents>>,
    wire: Wire,
}

/// What a process reaches beside Kubernetes.
#[derive(Clone)]
pub(crate) struct Reach {
    vault: Vault,
    life: Arc<Life>,
}

impl Vault {
    pub(crate) fn new(wire: Wire) -> Self {
        Self {
            contents: Arc::default(),
            wire,
        }
    }

    pub(crate) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap()
    }

    /// A process begins; what another one remembered is forgotten.
    pub(crate) fn begin_life(&self) -> Reach {
        let life = Arc::<Life>::default();
        self.contents().life = Some(Arc::clone(&life));
        Reach {
            vault: self.clone(),
            life,
        }
    }

    fn ask(
        &self,
        words: String,
        act: impl FnOnce(&mut Contents) + Send + 'static,
    ) -> StoreAnswer<'static> {
        let contents = Arc::clone(&self.contents);
        self.while_wanted(move |handling| {
            let unreachable = Err(StoreError {
                kind: StoreErrorKind::Unreachable,
                message: "no answer; check the endpoint".to_owned(),
            });
            let fault = handling.fault();
            if fault == Some(Fault::BeforeEffect) {
                return (unreachable, format!("{words}, in vain"));
            }
            act(&mut contents.lock().unwrap());
            match fault {
                Some(_) => (unreachable, format!("{words}, unheard")),
                None => (Ok(()), words),
            }
        })
    }

    /// Has something remembered, in a process that may end before.
    fn tell(
        &self,
        words: &'static str,
        act: impl FnOnce() + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        let contents = Arc::clone(&self.contents);
        self.while_wanted(move |handling| {
            act();
            pulse(&mut contents.lock().unwrap(), handling.store);
            ((), words.to_owned())
        })
    }

    /// A request that is handled while somebody waits for it, or never: a database does not carry out later what a process has
    /// given up, and memory less so.
    fn while_wanted<T: Send + 'static>(
        &self,
        effect: impl FnOnce(&mut Handling<'_>) -> (T, String) + Send + 'static,
    ) -> BoxFuture<'static, T> {
        let wanted = Arc::new(());
        let still = Arc::downgrade(&wanted);
        let reply = self
            .wire
            .call("steward", move |handling: &mut Handling<'_>| {
                if still.upgrade().is_none() {
                    return (None, "is given up".to_owned());
                }
                let (answer, words) = effect(handling);
                (Some(answer), words)
            });
        Box::pin(async move {
            let answer = reply.await;
            drop(wanted);
            match answer {
                Some(answer) => answer,
                // Whoever waits wants it.
                None => std::future::pending().await,
            }
        })
    }
}

impl Reach {
    pub(crate) fn bell(&self) -> Bell<TenantControlPlane> {
        self.life.bell.clone()
    }
}

impl StorePort for Vault {
    fn check<'a>(&'a self, store: &'a StoreAccess) -> StoreAnswer<'a> {
        self.ask(format!("checks {}", store.name), |_| ())
    }

    fn ensure<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        let key = (store.name.clone(), grant.uid.clone());
        let words = format!("gives {} a part of {}", grant.uid, store.name);
        self.ask(words, move |contents| {
            let part = contents.parts.entry(key).or_default();
            (part.open, part.fenced) = (true, false);
        })
    }

    fn discard<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        let key = (store.name.clone(), grant.uid.clone());
        let words = format!("takes {}'s part of {} away", grant.uid, store.name);
        self.ask(words, move |contents| {
            contents.parts.remove(&key);
        })
    }
}

/// Whether the status says that writes are refused.
fn is_frozen(control_plane: &TenantControlPlane) -> bool {
    let storage = control_plane
        .status
        .as_ref()
        .and_then(|status| status.storage.as_ref());
    let migration = storage.and_then(|storage| storage.migration.as_ref());
    migration.is_some_and(|migration| {
        !matches!(
            migration.stage,
            MigrationStage::Finishing | MigrationStage::Returning | MigrationStage::Failed
        )
    })
}

impl TenantPort for Reach {
    fn state(&self, uid: &str) -> TenantState {
        let tenants = self.life.tenants.lock().unwrap();
        tenants
            .get(uid)
            .map(|tenant| tenant.state.clone())
            .unwrap_or_default()
    }

    fn configure<'a>(
        &'a self,
        control_plane: &'a TenantControlPlane,
        fingerprint: &'a str,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let tenant = Tenant {
            wanted: fingerprint.to_owned(),
            frozen: is_frozen(control_plane),
            state: TenantState::default(),
        };
        let uid = control_plane.uid().unwrap();
        let life = Arc::clone(&self.life);
        let told = self.vault.tell("configures a tenant", move || {
            let mut tenants = life.tenants.lock().unwrap();
            let known = tenants.get(&uid);
            if known.is_none_or(|known| known.wanted != tenant.wanted) {
                tenants.insert(uid, tenant);
            }
        });
        Box::pin(async {
            told.await;
            Ok(())
        })
    }

    fn release(&self, uid: &str) {
        self.life.tenants.lock().unwrap().remove(uid);
    }
}

impl MovePort for Reach {
    fn state(&self, uid: &str) -> Option<ErrandState> {
        let errands = self.life.errands.lock().unwrap();
        errands.get(uid).map(|errand| errand.state.clone())
    }

    fn begin(&self, job: Job) -> BoxFuture<'_, ()> {
        let errand = Errand {
            state: ErrandState {
                errand: job.errand,
                progress: Progress::Working,
            },
            copied: None,
        };
        let life = Arc::clone(&self.life);
        self.vault.tell("begins an errand", move || {
            let mut errands = life.errands.lock().unwrap();
            errands.insert(job.grant.uid, errand);
        })
    }

    fn stop<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, ()> {
        self.life.errands.lock().unwrap().remove(uid);
        Box::pin(async {})
    }
}

impl StorePort for Reach {
    fn check<'a>(&'a self, store: &'a StoreAccess) -> StoreAnswer<'a> {
        self.vault.check(store)
    }

    fn ensure<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        self.vault.ensure(store, grant)
    }

    fn discard<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        self.vault.discard(store, grant)
    }
}

//! Errands in data stores: what stands behind [`MovePort`] in a running process.
//!
//! Owns: one task for each control plane whose state moves, and what is known of it, by UID, in memory alone. An errand that
//! fails is tried again, with pauses, until it succeeds or the controller wants another one.
//!
//! Must not: decide what is moved and when, or write into the management cluster.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_runtime::{backoff::Backoff, failure::Class, reconciler::Bell, task};
use futures::future::BoxFuture;
use rand::RngExt as _;
use tokio::{sync::Semaphore, task::JoinHandle};

use crate::{
    move_port::{Arrival, Errand, ErrandState, ErrandTask, Job, MovePort, Progress},
    store::{self, StoreError, StoreErrorKind},
};

/// As many errands are worked on at the same time: a fleet that moves all at once must not starve its stores.
const CONCURRENT_ERRANDS: usize = 4;
const BACKOFF: Backoff = Backoff {
    shortest: Duration::from_millis(500),
    longest: Duration::from_secs(30),
};

/// The errands of a process. Dropping it ends all of them.
pub struct Moves {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
}

struct Shared {
    bell: Bell<TenantControlPlane>,
    known: Mutex<BTreeMap<String, Known>>,
}

/// The errand of one control plane.
struct Known {
    state: ErrandState,
    task: Task,
}

/// A task that ends when this goes.
struct Task(Option<JoinHandle<()>>);

impl Task {
    /// Ends the task and waits until it has ended: whatever follows must not meet its last requests.
    async fn end(mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
            // That it was cut off is what was asked for.
            let _ = task.await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl Moves {
    /// No errands yet. `bell` is rung when one has come further.
    pub fn new(bell: Bell<TenantControlPlane>) -> Self {
        let known = Mutex::default();
        Self {
            shared: Arc::new(Shared { bell, known }),
            places: Arc::new(Semaphore::new(CONCURRENT_ERRANDS)),
        }
    }

    async fn replace(&self, job: Job) {
        let uid = job.grant.uid.clone();
        let previous = self.shared.known().remove(&uid);
        if let Some(previous) = previous {
            previous.task.end().await;
        }
        let state = ErrandState {
            errand: job.errand.clone(),
            progress: Progress::Working,
        };
        let work = Work {
            shared: Arc::downgrade(&self.shared),
            places: Arc::clone(&self.places),
            job,
        };
        let mut known = self.shared.known();
        let task = Task(Some(task::spawn("errand", work.run())));
        known.insert(uid, Known { state, task });
    }

    async fn forget(&self, uid: &str) {
        let known = self.shared.known().remove(uid);
        if let Some(known) = known {
            known.task.end().await;
        }
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers how far an errand has come, if it is still wanted, and says so if it is news.
    fn tell(&self, uid: &str, errand: &Errand, progress: Progress) {
        let is_news = {
            let mut known = self.known();
            let entry = known
                .get_mut(uid)
                .filter(|entry| entry.state.errand == *errand);
            entry.is_some_and(|entry| {
                let is_news = entry.state.progress != progress;
                entry.state.progress = progress;
                is_news
            })
        };
        if is_news {
            self.bell.ring(uid);
        }
    }
}

impl MovePort for Moves {
    fn state(&self, uid: &str) -> Option<ErrandState> {
        self.shared
            .known()
            .get(uid)
            .map(|known| known.state.clone())
    }

    fn begin(&self, job: Job) -> BoxFuture<'_, ()> {
        Box::pin(self.replace(job))
    }

    fn stop<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.forget(uid))
    }
}

/// What the task of an errand needs.
struct Work {
    shared: Weak<Shared>,
    places: Arc<Semaphore>,
    job: Job,
}

impl Work {
    /// Goes on until the errand is done, or cannot be done, or nobody wants it any more.
    async fn run(self) {
        let mut failures = 0;
        loop {
            let outcome = self.attempt().await;
            let progress = match outcome {
                Ok(arrival) => Progress::Done(arrival),
                Err(error) if is_final(error.kind) => Progress::Refused(error.message),
                Err(error) => Progress::Failing(error.message),
            };
            let is_over = !matches!(progress, Progress::Failing(_));
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            shared.tell(&self.job.grant.uid, &self.job.errand, progress);
            drop(shared);
            if is_over {
                return;
            }
            failures += 1;
            let wait = BACKOFF.after(failures, Class::Retry, rand::rng().random());
            tokio::time::sleep(wait).await;
        }
    }

    async fn attempt(&self) -> Result<Option<Arrival>, StoreError> {
        // Closed never; then the limit no longer matters.
        let _place = self.places.acquire().await.ok();
        let Job {
            errand,
            grant,
            store,
            target,
        } = &self.job;
        match (&errand.task, target) {
            (ErrandTask::Copy { remains, .. }, Some(target)) => {
                let copied = store::copy(store, target, grant, *remains).await;
                copied.map(Some)
            }
            // There is nowhere to copy to.
            (ErrandTask::Copy { .. }, None) => Ok(None),
            (ErrandTask::Open { .. }, _) => store::open(store, grant).await.map(|()| None),
            (ErrandTask::Seal { .. }, _) => store::seal(store, grant).await.map(|()| None),
            (ErrandTask::Clear { leaving, .. }, _) => match store::clear(store, grant).await {
                Err(error) if *leaving => {
                    tracing::warn!(store = %store.name, %error, "a data store that is being deleted keeps its remains");
                    Ok(None)
                }
                cleared => cleared.map(|()| None),
            },
        }
    }
}

/// Whether trying again is of no use.
const fn is_final(kind: StoreErrorKind) -> bool {
    match kind {
        StoreErrorKind::Taken | StoreErrorKind::Unsupported => true,
        StoreErrorKind::Unreachable | StoreErrorKind::Refused | StoreErrorKind::Failed => false,
    }
}

#[cfg(test)]
mod tests {
    use butler_api::steward::data_store::DataStoreDriver;
    use jiff::Timestamp;

    use super::*;
    use crate::store::{StoreAccess, StoreGrant};

    const UID: &str = "6f9619ff-8b86-4011-b42d-00c04fc964ff";

    fn job(store: &str, leaving: bool) -> Job {
        Job {
            errand: Errand {
                task: ErrandTask::Clear {
                    store: store.to_owned(),
                    leaving,
                },
                since: Timestamp::UNIX_EPOCH,
                access: String::new(),
            },
            grant: StoreGrant {
                uid: UID.to_owned(),
                schema: "shop".to_owned(),
                user: "shop".to_owned(),
                password: None,
                established: true,
            },
            // Nobody listens there.
            store: StoreAccess {
                name: store.to_owned(),
                driver: DataStoreDriver::Etcd,
                endpoints: vec!["127.0.0.1:1".to_owned()],
                authority_pem: None,
                authority_key: None,
                client: None,
                username: None,
                password: None,
            },
            target: None,
        }
    }

    async fn progressed(moves: &Moves) -> ErrandState {
        let found = butler_testkit::process::until(Duration::from_secs(30), async || {
            let state = moves.state(UID)?;
            (state.progress != Progress::Working).then_some(state)
        });
        found.await.unwrap()
    }

    #[tokio::test]
    async fn an_errand_to_a_store_that_does_not_answer_says_so_and_goes_on_until_it_is_stopped() {
        let moves = Moves::new(Bell::default());
        moves.begin(job("old", false)).await;
        let state = progressed(&moves).await;
        assert!(
            matches!(state.progress, Progress::Failing(_)),
            "{:?}",
            state.progress
        );
        // Another errand takes its place.
        moves.begin(job("older", false)).await;
        let state = progressed(&moves).await;
        assert_eq!(state.errand, job("older", false).errand);
        moves.stop(UID).await;
        assert_eq!(moves.state(UID), None);
    }

    #[tokio::test]
    async fn a_store_that_is_being_deleted_and_does_not_answer_holds_nobody_up() {
        let moves = Moves::new(Bell::default());
        moves.begin(job("old", true)).await;
        assert_eq!(progressed(&moves).await.progress, Progress::Done(None));
    }
}

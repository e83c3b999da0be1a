//! Owns the start of every background task: a task has a name, runs in a span of that name, and
//! its panic is logged. Nothing else in the workspace calls `tokio::spawn`.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// Starts a named task.
///
/// A panic is logged with the task's name and then handed to whoever awaits the handle.
pub fn spawn<F>(name: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let span = tracing::info_span!("task", task = name);
    let name = name.to_owned();
    let named = async move {
        match AssertUnwindSafe(future).catch_unwind().await {
            Ok(output) => output,
            Err(panic) => {
                let message = panic_message(panic.as_ref());
                tracing::error!(task = %name, panic = message, "a task panicked; this is a defect");
                std::panic::resume_unwind(panic)
            }
        }
    }
    .instrument(span);
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that starts tasks"
    )]
    tokio::spawn(named)
}

/// The words of a panic, as far as they are words.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Tasks were still running when the time to finish was over.
#[derive(Debug, thiserror::Error)]
#[error("still running after {grace:?}: {}", names.join(", "))]
pub struct StillRunning {
    /// The names of the tasks that did not end.
    pub names: Vec<String>,
    /// How long they were given.
    pub grace: Duration,
}

/// Tasks that live and end together.
#[derive(Clone, Debug)]
pub struct TaskGroup {
    tracker: TaskTracker,
    cancellation: CancellationToken,
    running: Arc<Running>,
}

impl TaskGroup {
    /// A group that is told to end when `cancellation` is cancelled.
    pub fn new(cancellation: CancellationToken) -> Self {
        Self {
            tracker: TaskTracker::new(),
            cancellation,
            running: Arc::default(),
        }
    }

    /// Starts a named task in this group. The task should end soon after [`Self::token`] is
    /// cancelled.
    pub fn spawn<F>(&self, name: &str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let entry = Running::enter(&self.running, name);
        let tracked = self.tracker.track_future(async move {
            let _entry = entry;
            future.await
        });
        spawn(name, tracked)
    }

    /// The token by which the tasks of the group are told to end.
    pub fn token(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// The names of the tasks that run now.
    pub fn names(&self) -> Vec<String> {
        self.running.names()
    }

    /// Tells every task to end and waits for them, at most for `grace`.
    pub async fn finish(&self, grace: Duration) -> Result<(), StillRunning> {
        self.cancellation.cancel();
        self.tracker.close();
        match tokio::time::timeout(grace, self.tracker.wait()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(StillRunning {
                names: self.names(),
                grace,
            }),
        }
    }
}

#[derive(Debug, Default)]
struct Running {
    next: AtomicU64,
    names: Mutex<BTreeMap<u64, String>>,
}

impl Running {
    fn enter(running: &Arc<Self>, name: &str) -> Entry {
        let number = running.next.fetch_add(1, Ordering::Relaxed);
        let mut names = running.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(number, name.to_owned());
        Entry {
            number,
            running: Arc::clone(running),
        }
    }

    fn names(&self) -> Vec<String> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.values().cloned().collect()
    }
}

/// Takes its name off the list when the task ends, also by a panic.
struct Entry {
    number: u64,
    running: Arc<Running>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut names = self
            .running
            .names
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        names.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_reaches_whoever_waits_for_the_task() {
        let handle = spawn("clumsy", async { panic!("dropped the tray") });
        let error = handle.await.expect_err("the task panicked");
        let panic = error.into_panic();
        assert_eq!(panic_message(panic.as_ref()), "dropped the tray");
    }

    #[tokio::test]
    async fn a_group_ends_when_its_tasks_listen_to_the_token() {
        let group = TaskGroup::new(CancellationToken::new());
        let token = group.token().clone();
        let handle = group.spawn("polite", async move { token.cancelled().await });
        group
            .finish(Duration::from_secs(5))
            .await
            .expect("the task listens");
        handle.await.expect("the task ended without a panic");
        assert!(group.names().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_named() {
        let group = TaskGroup::new(CancellationToken::new());
        let stubborn = group.spawn("stubborn", std::future::pending::<()>());
        group.spawn("quick", async {}).await.expect("ends at once");
        let error = group
            .finish(Duration::from_secs(5))
            .await
            .expect_err("it never ends");
        assert_eq!(error.to_string(), "still running after 5s: stubborn");
        stubborn.abort();
    }
}

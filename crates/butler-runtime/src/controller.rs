//! Runs one controller: workers take keys from a queue and have the engine make a pass over each.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use butler_api::conditions::reasons;
use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{Engine, Report, Verdict},
    failure::Class,
    metrics::{Metrics, PassResult},
    object::ObjectKey,
    queue::Queue,
    reconciler::Reconciler,
    task::{TaskGroup, panic_message},
};

/// How a controller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// How many objects are worked on at the same time.
    pub workers: usize,
    /// How long a pass may take. Waiting is not done in passes, so this is for peers that do not answer.
    pub deadline: Duration,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            workers: 4,
            deadline: Duration::from_mins(1),
        }
    }
}

/// A controller of any type, ready to run.
pub(crate) trait AnyController: Send + Sync {
    /// Works until cancelled; passes under way are finished.
    fn run(self: Arc<Self>, cancelled: CancellationToken) -> BoxFuture<'static, ()>;
}

/// A controller and its queue.
pub(crate) struct Controller<R: Reconciler> {
    pub(crate) engine: Engine<R>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) settings: ControllerSettings,
    pub(crate) metrics: Metrics,
}

impl<R: Reconciler> AnyController for Controller<R> {
    fn run(self: Arc<Self>, cancelled: CancellationToken) -> BoxFuture<'static, ()> {
        async move {
            let workers = TaskGroup::new(cancelled.clone());
            for number in 0..self.settings.workers {
                let work = Arc::clone(&self).work(cancelled.clone());
                workers.spawn(&format!("{}-{number}", R::NAME), work);
            }
            cancelled.cancelled().await;
            if let Err(error) = workers.finish(self.settings.deadline).await {
                tracing::warn!(%error, controller = R::NAME, "passes were cut off");
            }
        }
        .boxed()
    }
}

impl<R: Reconciler> Controller<R> {
    async fn work(self: Arc<Self>, cancelled: CancellationToken) {
        loop {
            let key = tokio::select! {
                biased;
                () = cancelled.cancelled() => return,
                key = self.queue.take() => key,
            };
            let verdict = self.pass(&key).await;
            if let Verdict::After(wait) = verdict {
                self.queue.add_at(key.clone(), Instant::now() + wait);
            }
            // Last: whoever looks in between must not take a queue for empty that is not.
            self.queue.done(&key);
        }
    }

    /// One pass, within its deadline. A panic in it is a defect of ours that must not stop the other objects.
    async fn pass(&self, key: &ObjectKey) -> Verdict {
        let started = Instant::now();
        let pass = AssertUnwindSafe(self.pass_in_time(key)).catch_unwind();
        let report = pass.await.unwrap_or_else(|panic| {
            let message = panic_message(panic.as_ref());
            tracing::error!(controller = R::NAME, %key, panic = message, "a pass panicked; this is a defect");
            self.engine.panicked(key, message)
        });
        let result = match &report.failure {
            None if report.writes == 0 => PassResult::Unchanged,
            None => PassResult::Changed,
            Some(failure) => {
                if failure.class == Class::Stale {
                    tracing::debug!(controller = R::NAME, %key, %failure, "a pass was out of date");
                } else {
                    tracing::warn!(controller = R::NAME, %key, reason = failure.reason, %failure, "a pass failed");
                }
                match failure.class {
                    _ if failure.reason == reasons::DEADLINE_EXCEEDED => PassResult::Deadline,
                    Class::Retry | Class::Stale => PassResult::Retry,
                    Class::Terminal => PassResult::Terminal,
                }
            }
        };
        for note in &report.told {
            self.metrics.event(R::NAME, note.severity);
        }
        let took = started.elapsed();
        self.metrics.pass(R::NAME, result, took);
        self.engine.passed(key, report.verdict, took);
        report.verdict
    }

    async fn pass_in_time(&self, key: &ObjectKey) -> Report {
        let deadline = self.settings.deadline;
        match timeout(deadline, self.engine.pass(key, Timestamp::now())).await {
            Ok(report) => report,
            Err(_) => self.engine.overdue(key, deadline, Timestamp::now()).await,
        }
    }
}

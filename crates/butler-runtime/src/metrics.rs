//! Owns the numbers of a process: one registry, no globals. The engine's families are here;
//! controllers register their own through [`Metrics::register`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::{plan::Severity, queue::Queue};

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How a pass over an object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassResult {
    /// The world was as planned; nothing was written.
    Unchanged,
    /// Something was written.
    Changed,
    /// It failed and is tried again.
    Retry,
    /// It failed in a way that only a change of the object can heal.
    Terminal,
    /// It took too long and was ended.
    Deadline,
}

/// What was asked of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Create an object.
    Create,
    /// Server-side apply.
    Apply,
    /// JSON merge patch.
    Merge,
    /// Replace guarded by the resource version.
    Replace,
    /// Write the status.
    Status,
    /// Delete an object.
    Delete,
}

/// What the API server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// Done.
    Success,
    /// The object is not there.
    NotFound,
    /// Somebody else wrote first.
    Conflict,
    /// The request was refused: invalid or forbidden.
    Refused,
    /// No answer, or an error of the server.
    Failure,
}

macro_rules! label_value {
    ($($name:ident)*) => {$(
        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
                format!("{self:?}").to_ascii_lowercase().as_str().encode(encoder)
            }
        }
    )*};
}
label_value! { PassResult Verb RequestOutcome Severity }

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    controller: String,
    result: PassResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    controller: String,
    verb: Verb,
    kind: String,
    outcome: RequestOutcome,
}

/// The queue of a controller.
#[derive(Debug)]
struct QueueOf {
    labels: ControllerLabels,
    queue: Arc<Queue>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    controller: String,
    r#type: Severity,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    lease: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RemoteLabels {
    namespace: String,
    name: String,
}

/// From one millisecond to half a minute, which is longer than any pass may take.
#[derive(Clone, Debug)]
struct PassSeconds;

impl MetricConstructor<Histogram> for PassSeconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.001, 2.0, 16))
    }
}

/// The numbers of a process. A clone counts into the same registry.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    passes: Family<PassLabels, Counter>,
    pass_seconds: Family<ControllerLabels, Histogram, PassSeconds>,
    queues: Arc<Mutex<Vec<QueueOf>>>,
    queue_depth: Family<ControllerLabels, Gauge>,
    passes_running: Family<ControllerLabels, Gauge>,
    requests: Family<RequestLabels, Counter>,
    events: Family<EventLabels, Counter>,
    leader: Family<LeaseLabels, Gauge>,
    remote_healthy: Family<RemoteLabels, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A registry with the engine's families, all empty.
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::new(Mutex::new(Registry::with_prefix("butler"))),
            passes: Family::default(),
            pass_seconds: Family::new_with_constructor(PassSeconds),
            queues: Arc::default(),
            queue_depth: Family::default(),
            passes_running: Family::default(),
            requests: Family::default(),
            events: Family::default(),
            leader: Family::default(),
            remote_healthy: Family::default(),
        };
        metrics.register(|registry| {
            registry.register("passes", "Passes over objects", metrics.passes.clone());
            registry.register_with_unit(
                "pass_duration",
                "How long a pass took",
                Unit::Seconds,
                metrics.pass_seconds.clone(),
            );
            registry.register(
                "queue_depth",
                "Objects that wait",
                metrics.queue_depth.clone(),
            );
            registry.register(
                "passes_running",
                "Objects that are worked on",
                metrics.passes_running.clone(),
            );
            registry.register(
                "api_requests",
                "Requests to the API",
                metrics.requests.clone(),
            );
            registry.register("events", "Events written", metrics.events.clone());
            registry.register(
                "leader",
                "1 while the lease is ours",
                metrics.leader.clone(),
            );
            registry.register(
                "remote_cluster_healthy",
                "1 while the remote cluster answers that it is ready",
                metrics.remote_healthy.clone(),
            );
        });
        metrics
    }

    /// Adds families of a controller. Names get the prefix `butler_`.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Counts a pass.
    pub fn pass(&self, controller: &str, result: PassResult, duration: Duration) {
        let controller = controller.to_owned();
        self.passes
            .get_or_create(&PassLabels {
                controller: controller.clone(),
                result,
            })
            .inc();
        let seconds = duration.as_secs_f64();
        self.pass_seconds
            .get_or_create(&ControllerLabels { controller })
            .observe(seconds);
    }

    /// Counts what waits in a queue and what is worked on, whenever the numbers are asked for.
    pub fn queue(&self, controller: &str, queue: &Arc<Queue>) {
        let labels = ControllerLabels {
            controller: controller.to_owned(),
        };
        let queue = Arc::clone(queue);
        self.queues().push(QueueOf { labels, queue });
    }

    fn queues(&self) -> MutexGuard<'_, Vec<QueueOf>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at_queues(&self) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for QueueOf { labels, queue } in self.queues().iter() {
            let load = queue.load();
            let (waiting, running) = (number(load.waiting), number(load.running));
            self.queue_depth.get_or_create(labels).set(waiting);
            self.passes_running.get_or_create(labels).set(running);
        }
    }

    /// Counts a request to the API server.
    pub fn api_request(&self, controller: &str, verb: Verb, kind: &str, outcome: RequestOutcome) {
        let (controller, kind) = (controller.to_owned(), kind.to_owned());
        self.requests
            .get_or_create(&RequestLabels {
                controller,
                verb,
                kind,
                outcome,
            })
            .inc();
    }

    /// Counts a written event.
    pub fn event(&self, controller: &str, event_type: Severity) {
        let labels = EventLabels {
            controller: controller.to_owned(),
            r#type: event_type,
        };
        self.events.get_or_create(&labels).inc();
    }

    /// Says whether the lease is ours.
    pub fn leader(&self, lease: &str, leading: bool) {
        let labels = LeaseLabels {
            lease: lease.to_owned(),
        };
        self.leader.get_or_create(&labels).set(i64::from(leading));
    }

    /// Says whether a remote cluster is healthy; `None` forgets it.
    pub fn remote_health(&self, namespace: &str, name: &str, healthy: Option<bool>) {
        let labels = RemoteLabels {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match healthy {
            Some(healthy) => {
                self.remote_healthy
                    .get_or_create(&labels)
                    .set(i64::from(healthy));
            }
            None => {
                self.remote_healthy.remove(&labels);
            }
        }
    }

    /// The numbers in the `OpenMetrics` text format.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        self.look_at_queues();
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::object::ObjectKey;

    #[test]
    fn what_is_counted_can_be_read() {
        let metrics = Metrics::new();
        metrics.pass("teams", PassResult::Changed, Duration::from_millis(20));
        let queue = Arc::new(Queue::default());
        metrics.queue("teams", &queue);
        for name in ["red", "green", "blue"] {
            queue.add(ObjectKey::namespaced("default", name));
        }
        let taken = queue.take().now_or_never();
        assert!(taken.is_some());
        metrics.api_request("teams", Verb::Apply, "Namespace", RequestOutcome::Success);
        metrics.event("teams", Severity::Warning);
        metrics.leader("butler-controller", true);
        metrics.remote_health("team-a", "demo", Some(false));
        let text = metrics.encode().expect("encodes");
        for line in [
            "butler_passes_total{controller=\"teams\",result=\"changed\"} 1",
            "butler_pass_duration_seconds_count{controller=\"teams\"} 1",
            "butler_queue_depth{controller=\"teams\"} 2",
            "butler_passes_running{controller=\"teams\"} 1",
            "butler_events_total{controller=\"teams\",type=\"warning\"} 1",
            "butler_leader{lease=\"butler-controller\"} 1",
            "butler_remote_cluster_healthy{namespace=\"team-a\",name=\"demo\"} 0",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing in\n{text}"
            );
        }
        assert!(text.contains("verb=\"apply\",kind=\"Namespace\",outcome=\"success\"} 1"));
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_forgotten_cluster_is_no_longer_reported() {
        let metrics = Metrics::new();
        metrics.remote_health("team-a", "demo", Some(true));
        metrics.remote_health("team-a", "demo", None);
        assert!(!metrics.encode().expect("encodes").contains("demo"));
    }

    #[test]
    fn a_controller_adds_its_own_numbers() {
        let metrics = Metrics::new();
        let granted = Counter::<u64>::default();
        metrics.register(|registry| {
            registry.register("addresses_granted", "Addresses granted", granted.clone());
        });
        granted.inc();
        assert!(
            metrics
                .encode()
                .expect("encodes")
                .contains("butler_addresses_granted_total 1")
        );
    }
}

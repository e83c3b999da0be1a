//! The numbers of a tunnel's end.

use butler_runtime::metrics::Metrics;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use crate::failure::Failure;

/// Where bytes go, as seen from the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Taken from a connection of this host, to be sent to the other end.
    IntoTunnel,
    /// Received from the other end, and handed to a connection of this host.
    OutOfTunnel,
}

impl EncodeLabelValue for Direction {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        match self {
            Self::IntoTunnel => "into_tunnel",
            Self::OutOfTunnel => "out_of_tunnel",
        }
        .encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabels {
    direction: Direction,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    reason: Failure,
}

/// The numbers of a tunnel's end, of either kind. A clone counts into the same numbers.
#[derive(Clone, Debug, Default)]
pub struct TunnelMetrics {
    connections: Gauge,
    connection_failures: Counter,
    refusals: Counter,
    streams_open: Gauge,
    streams: Counter,
    failures: Family<FailureLabels, Counter>,
    bytes: Family<DirectionLabels, Counter>,
}

impl TunnelMetrics {
    /// Numbers that are shown with those of a process; `peers` says what is connected, as a word in a sentence.
    pub fn register(metrics: &Metrics, peers: &str) -> Self {
        let numbers = Self::default();
        metrics.register(|registry| {
            registry.register(
                "tunnel_connections",
                format!("Connected {peers}"),
                numbers.connections.clone(),
            );
            registry.register(
                "tunnel_connection_failures",
                "Connections between the ends of the tunnel that were not made, or broke",
                numbers.connection_failures.clone(),
            );
            registry.register(
                "tunnel_refusals",
                "Connections that ended because somebody was not let in",
                numbers.refusals.clone(),
            );
            registry.register(
                "tunnel_streams_open",
                "Connections that go through the tunnel now",
                numbers.streams_open.clone(),
            );
            registry.register(
                "tunnel_streams",
                "Connections that went through the tunnel",
                numbers.streams.clone(),
            );
            registry.register(
                "tunnel_dial_failures",
                "Connections that could not be made",
                numbers.failures.clone(),
            );
            registry.register("tunnel_bytes", "Bytes carried", numbers.bytes.clone());
        });
        numbers
    }

    /// How many connections there are between this end and others.
    pub fn connections(&self) -> i64 {
        self.connections.get()
    }

    /// How many connections between this end and others were not made, or broke.
    pub fn connection_failures(&self) -> u64 {
        self.connection_failures.get()
    }

    /// How many streams are open.
    pub fn streams_open(&self) -> i64 {
        self.streams_open.get()
    }

    /// How often somebody was not let in.
    pub fn refusals(&self) -> u64 {
        self.refusals.get()
    }

    /// How many streams could not be opened for this reason.
    pub fn failures(&self, reason: Failure) -> u64 {
        self.failures.get_or_create(&FailureLabels { reason }).get()
    }

    /// How many bytes went this way.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.bytes_counter(direction).get()
    }

    /// The counter itself, so that each chunk need not look it up.
    pub(crate) fn bytes_counter(&self, direction: Direction) -> Counter {
        let labels = DirectionLabels { direction };
        self.bytes.get_or_create_owned(&labels)
    }

    pub(crate) fn not_connected(&self) {
        self.connection_failures.inc();
    }

    pub(crate) fn refused(&self) {
        self.refusals.inc();
    }

    pub(crate) fn failed(&self, reason: Failure) {
        self.failures.get_or_create(&FailureLabels { reason }).inc();
    }

    /// Counts a connection until the answer is dropped.
    pub(crate) fn connected(&self) -> Counted {
        Counted::new(&self.connections)
    }

    /// Counts an open stream until the answer is dropped.
    pub(crate) fn streaming(&self) -> Counted {
        self.streams.inc();
        Counted::new(&self.streams_open)
    }
}

/// One more, as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_can_be_read() {
        let process = Metrics::new();
        let numbers = TunnelMetrics::register(&process, "agents");
        let connection = numbers.connected();
        let stream = numbers.streaming();
        drop(stream);
        numbers.failed(Failure::NoAgent);
        numbers.refused();
        numbers.bytes_counter(Direction::IntoTunnel).inc_by(5);
        let text = process.encode().expect("encodes");
        for line in [
            "butler_tunnel_connections 1",
            "butler_tunnel_refusals_total 1",
            "butler_tunnel_streams_open 0",
            "butler_tunnel_streams_total 1",
            "butler_tunnel_dial_failures_total{reason=\"no_agent\"} 1",
            "butler_tunnel_bytes_total{direction=\"into_tunnel\"} 5",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing in\n{text}"
            );
        }
        drop(connection);
        assert_eq!(numbers.connections(), 0);
    }
}

//! What both processes have in common: probes, numbers, durations on the command line, names.

use std::{net::SocketAddr, time::Duration};

use butler_runtime::{
    metrics::Metrics,
    serve::{Listener, ReadyChecks, ServeError, health_router, metrics_router},
    shutdown::Shutdown,
    task::TaskGroup,
};
use rand::RngExt as _;

/// Serves `/healthz`, `/readyz` and `/metrics` until the shutdown.
pub(crate) async fn serve_probes(
    health: Option<SocketAddr>,
    numbers: Option<SocketAddr>,
    checks: ReadyChecks,
    metrics: Metrics,
    shutdown: &Shutdown,
) -> Result<TaskGroup, ServeError> {
    let listeners = TaskGroup::new(shutdown.token());
    let health = health.map(|address| ("health", address, health_router(checks)));
    let numbers = numbers.map(|address| ("metrics", address, metrics_router(metrics)));
    for (purpose, address, router) in health.into_iter().chain(numbers) {
        let listener = Listener::bind(purpose, address).await?;
        let stop = shutdown.token();
        listeners.spawn(purpose, async move {
            if let Err(error) = listener.serve(router, stop).await {
                tracing::error!(%error, "a listener ended");
            }
        });
    }
    Ok(listeners)
}

/// Reads a duration as people write it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>();
    let parsed = parsed.ok().and_then(|duration| duration.try_into().ok());
    parsed.ok_or_else(|| "write a duration such as 500ms, 30s or 10m".to_owned())
}

/// Reads `NAMESPACE/NAME`.
pub(crate) fn namespaced(text: &str) -> Option<(&str, &str)> {
    text.split_once('/')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
}

/// The name of this host, as the kernel knows it: in a pod, that of the pod.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown" } else { name }.to_owned()
}

/// A number nobody else has.
pub(crate) fn seed() -> u64 {
    rand::rng().random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "soon", "-5s", "5"] {
            assert!(duration(wrong).unwrap_err().contains("such as"), "{wrong}");
        }
    }
}

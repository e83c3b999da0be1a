use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use butler_runtime::metrics::{Metrics, PassResult};
use butler_runtime::serve::{Listener, ReadyChecks, health_router, metrics_router};
use butler_runtime::task;
use tokio_util::sync::CancellationToken;

use crate::http::{any_port, get};

#[tokio::test]
async fn a_process_is_alive_at_once_and_ready_when_its_caches_are() {
    let checks = ReadyChecks::new();
    let synced = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&synced);
    checks.register("caches", move || {
        seen.load(Ordering::Relaxed)
            .then_some(())
            .ok_or_else(|| "teams is not in sync".to_owned())
    });
    let listener = Listener::bind("health", any_port())
        .await
        .expect("a free port");
    let address = listener.address();
    let shutdown = CancellationToken::new();
    let served = task::spawn(
        "health",
        listener.serve(health_router(checks), shutdown.clone()),
    );

    assert!(
        get(address, "/healthz")
            .await
            .starts_with("HTTP/1.0 200 OK")
    );
    let waiting = get(address, "/readyz").await;
    assert!(waiting.starts_with("HTTP/1.0 503"), "{waiting}");
    assert!(
        waiting.ends_with("[-]caches teams is not in sync\nnot ready\n"),
        "{waiting}"
    );

    synced.store(true, Ordering::Relaxed);
    let ready = get(address, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.0 200 OK"), "{ready}");
    assert!(ready.ends_with("[+]caches ok\nready\n"), "{ready}");

    shutdown.cancel();
    served
        .await
        .expect("no panic")
        .expect("ends without an error");
}

#[tokio::test]
async fn prometheus_can_read_the_metrics() {
    let metrics = Metrics::new();
    metrics.pass("teams", PassResult::Unchanged, Duration::from_millis(3));
    let listener = Listener::bind("metrics", any_port())
        .await
        .expect("a free port");
    let address = listener.address();
    let shutdown = CancellationToken::new();
    let served = task::spawn(
        "metrics",
        listener.serve(metrics_router(metrics), shutdown.clone()),
    );
    let answer = get(address, "/metrics").await;
    let content_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(answer.contains(content_type), "{answer}");
    let line = "butler_passes_total{controller=\"teams\",result=\"unchanged\"} 1\n";
    assert!(answer.contains(line), "{answer}");
    shutdown.cancel();
    served
        .await
        .expect("no panic")
        .expect("ends without an error");
}

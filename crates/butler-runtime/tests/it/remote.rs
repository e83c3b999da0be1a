use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;
use butler_runtime::client::Component;
use butler_runtime::metrics::Metrics;
use butler_runtime::remote::{
    Health, HealthSettings, RemoteCluster, RemoteClusters, RemoteError, RemoteKey,
    RemoteKubeconfig, RemoteSettings,
};
use butler_runtime::serve::Listener;
use butler_runtime::task;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::{PATIENCE, any_port};

/// An API server that knows only whether it is ready.
struct Toy {
    state: ToyState,
    url: String,
    loads: AtomicUsize,
    _stop: DropGuard,
}

#[derive(Clone, Default)]
struct ToyState {
    broken: Arc<AtomicBool>,
    user_agents: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Toy {
    async fn start() -> Self {
        async fn ready(State(state): State<ToyState>, headers: HeaderMap) -> (StatusCode, String) {
            let agents = headers.get_all(header::USER_AGENT).iter();
            let agents = agents.map(|agent| agent.to_str().unwrap_or_default().to_owned());
            state
                .user_agents
                .lock()
                .expect("no panic")
                .push(agents.collect());
            if state.broken.load(Ordering::Relaxed) {
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "[-]etcd failed".to_owned(),
                )
            } else {
                (StatusCode::OK, "ok".to_owned())
            }
        }
        let state = ToyState::default();
        let router = Router::new()
            .route("/readyz", get(ready))
            .with_state(state.clone());
        let listener = Listener::bind("toy", any_port())
            .await
            .expect("a free port");
        let url = format!("http://{}", listener.address());
        let stop = CancellationToken::new();
        task::spawn("toy", listener.serve(router, stop.clone()));
        Self {
            state,
            url,
            loads: AtomicUsize::new(0),
            _stop: stop.drop_guard(),
        }
    }

    async fn get(
        &self,
        clusters: &RemoteClusters,
        fingerprint: &str,
    ) -> Result<RemoteCluster, RemoteError<Infallible>> {
        let load = || async {
            self.loads.fetch_add(1, Ordering::Relaxed);
            let text = format!(
                "{{apiVersion: v1, kind: Config, current-context: c, \
                 clusters: [{{name: c, cluster: {{server: '{}'}}}}], \
                 users: [{{name: c, user: {{token: abc}}}}], \
                 contexts: [{{name: c, context: {{cluster: c, user: c}}}}]}}",
                self.url
            );
            Ok(RemoteKubeconfig::from(text.into_bytes()))
        };
        clusters.get(&key(), fingerprint, load).await
    }
}

fn key() -> RemoteKey {
    RemoteKey {
        namespace: "team-a".to_owned(),
        name: "demo".to_owned(),
    }
}

fn clusters(idle_after: Duration, metrics: &Metrics) -> RemoteClusters {
    let component = Component::new("butler-controller", "0.1.0").expect("valid");
    let health = HealthSettings {
        interval: Duration::from_millis(10),
        first_retry: Duration::from_millis(10),
        longest_retry: Duration::from_millis(10),
        ..HealthSettings::default()
    };
    let settings = RemoteSettings {
        health,
        idle_after,
        ..RemoteSettings::default()
    };
    RemoteClusters::new(component, settings, metrics.clone())
}

async fn until(health: &mut watch::Receiver<Health>, what: impl Fn(&Health) -> bool) -> Health {
    let seen = timeout(PATIENCE, health.wait_for(what))
        .await
        .expect("in time");
    seen.expect("is probed still").clone()
}

#[tokio::test]
async fn the_health_of_a_cluster_follows_what_it_answers() {
    let toy = Toy::start().await;
    let metrics = Metrics::new();
    let clusters = clusters(Duration::from_mins(1), &metrics);
    let cluster = toy.get(&clusters, "1").await.expect("connects");
    let mut health = cluster.health();
    until(&mut health, Health::is_healthy).await;

    toy.state.broken.store(true, Ordering::Relaxed);
    let sick = until(&mut health, |health| !health.is_healthy()).await;
    let Health::Unhealthy { reason, .. } = sick else {
        panic!("unhealthy, not {sick:?}")
    };
    assert!(reason.contains("[-]etcd failed"), "{reason}");
    let line = "butler_remote_cluster_healthy{namespace=\"team-a\",name=\"demo\"} 0";
    assert!(metrics.encode().expect("encodes").contains(line));

    toy.state.broken.store(false, Ordering::Relaxed);
    until(&mut health, Health::is_healthy).await;
    let agents = toy.state.user_agents.lock().expect("no panic").clone();
    assert!(
        agents
            .iter()
            .all(|agents| *agents == ["butler-controller/0.1.0"]),
        "{agents:?}"
    );
}

#[tokio::test]
async fn one_client_serves_until_the_kubeconfig_changes() {
    let toy = Toy::start().await;
    let clusters = clusters(Duration::from_mins(1), &Metrics::new());
    let (one, two) = tokio::join!(toy.get(&clusters, "1"), toy.get(&clusters, "1"));
    let mut health = one.expect("connects").health();
    two.expect("connects");
    assert_eq!(
        toy.loads.load(Ordering::Relaxed),
        1,
        "asked twice at once, loaded once"
    );
    until(&mut health, Health::is_healthy).await;

    toy.get(&clusters, "2").await.expect("connects");
    assert_eq!(toy.loads.load(Ordering::Relaxed), 2);
    toy.state.broken.store(true, Ordering::Relaxed);
    until(&mut health, |health| !health.is_healthy()).await;
}

#[tokio::test]
async fn a_cluster_that_nobody_uses_is_dropped() {
    let toy = Toy::start().await;
    let metrics = Metrics::new();
    let clusters = clusters(Duration::ZERO, &metrics);
    let cluster = toy.get(&clusters, "1").await.expect("connects");
    let mut health = cluster.health();
    until(&mut health, Health::is_healthy).await;
    assert_eq!(clusters.keys(), [key()], "it is held");
    drop(cluster);
    let gone = async { while health.changed().await.is_ok() {} };
    timeout(PATIENCE, gone).await.expect("dropped");
    assert!(clusters.keys().is_empty());
    assert!(clusters.health(&key()).is_none());
    assert!(!metrics.encode().expect("encodes").contains("demo"));
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_says_why() {
    let toy = Toy::start().await;
    let closed = Toy {
        url: "http://127.0.0.1:1".to_owned(),
        ..toy
    };
    let clusters = clusters(Duration::from_mins(1), &Metrics::new());
    let cluster = closed
        .get(&clusters, "1")
        .await
        .expect("a client needs no answer");
    let mut health = cluster.health();
    let sick = until(&mut health, |health| *health != Health::Unknown).await;
    let Health::Unhealthy { reason, .. } = sick else {
        panic!("unhealthy, not {sick:?}")
    };
    assert!(reason.to_lowercase().contains("refused"), "{reason}");
}

#[tokio::test]
async fn a_bad_kubeconfig_names_the_cluster() {
    let clusters = clusters(Duration::from_mins(1), &Metrics::new());
    let load = || async { Ok::<_, Infallible>(RemoteKubeconfig::from(b"sesame".to_vec())) };
    let error = clusters
        .get(&key(), "1", load)
        .await
        .expect_err("not a kubeconfig");
    assert_eq!(
        error.to_string(),
        "cannot use the kubeconfig of cluster team-a/demo"
    );
}

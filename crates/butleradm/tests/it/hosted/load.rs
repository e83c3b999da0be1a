//! Users who do not stop: reads and writes through the endpoint of a control plane, over connections that are kept and over
//! new ones. Every request that fails is on record.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use futures::future::join_all;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::PostParams,
    client::{Body, ClientBuilder, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tower::ServiceBuilder;

/// Users of each kind.
const USERS: usize = 3;
/// How long a user thinks between two requests.
const THOUGHT: Duration = Duration::from_millis(15);
/// A request that is not answered by then has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a user comes again who was asked to.
const RETURNS: u32 = 3;
/// The answer of an API server that is about to end: come again, to another one.
const COME_AGAIN: u16 = 429;

/// What the users have seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// Requests that were answered.
    pub(super) answered: u64,
    /// Of them, those that an ending API server sent to another one.
    pub(super) sent_on: u64,
    /// Versions of the API servers that answered.
    pub(super) versions: BTreeSet<String>,
    /// When, after the beginning, what failed and how.
    pub(super) failures: Vec<String>,
}

/// Users at work.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    report: Arc<Mutex<Report>>,
    worker: Option<JoinHandle<()>>,
}

impl Load {
    /// Lets users begin, with a kubeconfig.
    pub(super) fn start(kubeconfig: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let report = Arc::new(Mutex::new(Report::default()));
        let office = Office {
            kubeconfig,
            began: Instant::now(),
            stop: Arc::clone(&stop),
            report: Arc::clone(&report),
        };
        let worker = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(office.open());
        });
        Self {
            stop,
            report,
            worker: Some(worker),
        }
    }

    /// How many requests were answered so far.
    pub(super) fn answered(&self) -> u64 {
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.answered
    }

    /// Lets all users finish what they have begun, and gives what they have seen.
    pub(super) fn finish(mut self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.worker.take().unwrap().join().unwrap();
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.clone()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // A chapter that failed does not wait for users.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What all users share.
struct Office {
    kubeconfig: PathBuf,
    began: Instant,
    stop: Arc<AtomicBool>,
    report: Arc<Mutex<Report>>,
}

impl Office {
    async fn open(self) {
        let keepers = join_all((0..USERS).map(|number| self.keeper(number)));
        let strangers = join_all((0..USERS).map(|number| self.stranger(number)));
        tokio::join!(keepers, strangers);
    }

    fn is_open(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// A client with a connection of its own, which does not come again by itself. It speaks HTTP/2, as kubectl and all
    /// controllers in Go do: an API server that ends says so there, while over HTTP/1.1 it can only close, and a request that
    /// is on its way is lost.
    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let mut tls = config.rustls_client_config().unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let connector = HttpsConnector::from((tcp, tls));
        let http = HttpClient::builder(TokioExecutor::new()).build::<_, Body>(connector);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .service(http);
        ClientBuilder::new(service, config.default_namespace).build()
    }

    /// Reads and writes one object over connections that are kept.
    async fn keeper(&self, number: usize) {
        let client = self.client().await;
        let name = format!("kept-{number}");
        let mut count = 0_u64;
        let mut object: Option<ConfigMap> = None;
        while self.is_open() {
            object = self.step(&client, &name, object, &mut count).await;
            tokio::time::sleep(THOUGHT).await;
        }
    }

    /// The same over a new connection for each step.
    async fn stranger(&self, number: usize) {
        let name = format!("fresh-{number}");
        let mut count = 0_u64;
        let mut object: Option<ConfigMap> = None;
        while self.is_open() {
            let client = self.client().await;
            let asked = self.request("GET /version", || client.apiserver_version());
            if let Some(version) = asked.await {
                let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                report.versions.insert(version.git_version);
            }
            object = self.step(&client, &name, object, &mut count).await;
            tokio::time::sleep(THOUGHT).await;
        }
    }

    /// Reads the object, demands that it is as it was written, and writes it anew. Nobody else writes it: a conflict is a write
    /// that was carried out twice.
    async fn step(
        &self,
        client: &Client,
        name: &str,
        before: Option<ConfigMap>,
        count: &mut u64,
    ) -> Option<ConfigMap> {
        let objects = Api::<ConfigMap>::default_namespaced(client.clone());
        let parameters = PostParams::default();
        let Some(before) = before else {
            let first = config_map(name, *count);
            let made = self.request("POST", || objects.create(&parameters, &first));
            return made.await;
        };
        let Some(mut found) = self.request("GET", || objects.get(name)).await else {
            return Some(before);
        };
        if found.data != before.data {
            let words = format!("read {:?} after {:?} was written", found.data, before.data);
            self.fail("GET", &words);
        }
        *count += 1;
        found.data = config_map(name, *count).data;
        let written = self.request("PUT", || objects.replace(name, &parameters, &found));
        // After a failure, what is there is what was there before.
        Some(written.await.unwrap_or(before))
    }

    /// Makes a request, and comes again if it is asked to.
    async fn request<T, F>(&self, what: &str, ask: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let mut returns = 0;
        loop {
            let answer = tokio::time::timeout(PATIENCE, ask()).await;
            match answer {
                Ok(Ok(answer)) => {
                    let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                    report.answered += 1;
                    report.sent_on += u64::from(returns > 0);
                    return Some(answer);
                }
                Ok(Err(kube::Error::Api(status)))
                    if status.code == COME_AGAIN && returns < RETURNS =>
                {
                    returns += 1;
                }
                Ok(Err(error)) => {
                    self.fail(what, &format!("{error:?}"));
                    return None;
                }
                Err(_) => {
                    self.fail(what, &format!("no answer within {PATIENCE:?}"));
                    return None;
                }
            }
        }
    }

    fn fail(&self, what: &str, words: &str) {
        let after = self.began.elapsed().as_secs_f32();
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report
            .failures
            .push(format!("after {after:.2}s: {what}: {words}"));
    }
}

fn config_map(name: &str, count: u64) -> ConfigMap {
    let object = json!({ "metadata": { "name": name }, "data": { "count": count.to_string() } });
    serde_json::from_value(object).unwrap()
}

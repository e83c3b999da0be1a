//! A node for all Deployments of a namespace: it runs what they say, and says how that goes, as kubelets and Kubernetes' own
//! controllers would.

use std::{collections::BTreeMap, sync::Arc};

use butler_runtime::task;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use tokio::{sync::Mutex, task::JoinHandle};

use crate::{kubelet::Kubelet, scene::TEAM};

/// The pods of a Deployment.
struct Pods {
    template: Value,
    kubelet: Kubelet,
}

type Running = Arc<Mutex<BTreeMap<String, Pods>>>;

/// A node. What runs on it goes when this is dropped.
pub(crate) struct Node {
    running: Running,
    task: JoinHandle<()>,
}

impl Node {
    /// Runs the API servers of all Deployments from now on.
    pub(crate) fn start(client: Client) -> Self {
        let running = Running::default();
        let work = Work {
            client,
            running: Arc::clone(&running),
        };
        let task = task::spawn("node", work.run());
        Self { running, task }
    }

    /// Whether the API server of a Deployment runs.
    pub(crate) async fn runs(&self, name: &str) -> bool {
        let running = self.running.lock().await;
        running
            .get(name)
            .is_some_and(|pods| pods.kubelet.is_running())
    }

    /// Runs the controller manager of a Deployment too, beside its API server.
    pub(crate) async fn run_controller_manager(&self, client: &Client, deployment: &Deployment) {
        let mut running = self.running.lock().await;
        let pods = running.get_mut(&deployment.name_any()).unwrap();
        let kubelet = &mut pods.kubelet;
        kubelet
            .run_controller_manager(client, TEAM, deployment)
            .await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Work {
    client: Client,
    running: Running,
}

impl Work {
    async fn run(self) {
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), TEAM);
        let events = watcher(deployments.clone(), watcher::Config::default()).default_backoff();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            let Ok(watcher::Event::Apply(seen) | watcher::Event::InitApply(seen)) = event else {
                continue;
            };
            // While pods start, a Deployment may change more than once: only how it is now counts.
            if let Ok(Some(deployment)) = deployments.get_opt(&seen.name_any()).await {
                self.follow(&deployments, &deployment).await;
            }
        }
    }

    async fn follow(&self, deployments: &Api<Deployment>, deployment: &Deployment) {
        let (name, spec) = (deployment.name_any(), deployment.spec.as_ref().unwrap());
        let (wanted, template) = (spec.replicas.unwrap_or(1), json!(spec.template));
        let mut running = self.running.lock().await;
        let pods = running.get(&name);
        let is_current = wanted > 0 && pods.is_some_and(|pods| pods.template == template);
        if !is_current {
            // What ran before has ended, and its port is free, when this returns.
            running.remove(&name);
        }
        drop(running);
        if !is_current {
            tell(deployments, deployment, 0).await;
        }
        if !is_current && wanted > 0 {
            let mut kubelet = Kubelet::new();
            kubelet.run_api_server(&self.client, TEAM, deployment).await;
            let pods = Pods { template, kubelet };
            self.running.lock().await.insert(name, pods);
        }
        tell(deployments, deployment, wanted).await;
    }
}

/// Says how many pods of the newest kind serve.
async fn tell(deployments: &Api<Deployment>, deployment: &Deployment, serving: i32) {
    let status = json!({ "status": {
        "observedGeneration": deployment.metadata.generation,
        "replicas": serving, "updatedReplicas": serving,
        "readyReplicas": serving, "availableReplicas": serving,
    } });
    let (name, parameters) = (deployment.name_any(), PatchParams::default());
    // A Deployment that is gone needs no status, and whoever waits for one says what is missing.
    drop(
        deployments
            .patch_status(&name, &parameters, &Patch::Merge(status))
            .await,
    );
}

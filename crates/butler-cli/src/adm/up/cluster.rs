//! What is installed into the management cluster beside charts: the pod network of its first node, Cluster API.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use butler_api::keys::labels;
use butler_assets::{Asset, Component};
use butler_host::{host::Host, network::PodNetwork};
use futures::StreamExt as _;
use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};

use super::{
    Run,
    platform::{self, NAMESPACE},
};
use crate::{
    adm::{
        apply::{could_take, within},
        boots::Boots,
        cluster_api,
        error::Error,
    },
    output::progress::{Outcome, Running},
};

/// How often webhooks are tried.
const GLANCE: Duration = Duration::from_millis(300);

/// Gives the first node its pod network. The host process does the same for every node, and takes over later.
pub(super) async fn pod_network(
    run: &Run,
    host: &Host,
    client: &Client,
) -> anyhow::Result<Outcome> {
    let step = run.progress.begin("Pod network");
    let machine = run.installation.first_machine()?;
    if host.pod_network(&machine).await?.own.is_some() {
        step.end(Outcome::Unchanged);
        return Ok(Outcome::Unchanged);
    }
    let nodes = Api::<Node>::all(client.clone());
    let range = |node: Option<&Node>| -> Option<Ipv4Net> {
        node?.spec.as_ref()?.pod_cidr.as_ref()?.parse().ok()
    };
    let known = kube::runtime::wait::await_condition(
        nodes.clone(),
        machine.as_str(),
        |node: Option<&Node>| range(node).is_some(),
    );
    within(
        run.patience(),
        "the first node's range for pods",
        "look at the controller manager's log",
        known,
    )
    .await?;
    let node = nodes
        .get(machine.as_str())
        .await
        .map_err(Error::api("read the first node"))?;
    let network = PodNetwork {
        own: range(Some(&node)),
        peers: BTreeMap::new(),
    };
    if run.installation.workers == 0 {
        // kubeadm keeps load balancers away from control planes; here it is the only node.
        let open = Patch::Merge(
            json!({ "metadata": { "labels": { labels::EXCLUDE_FROM_LOAD_BALANCERS: null } } }),
        );
        nodes
            .patch(machine.as_str(), &PatchParams::default(), &open)
            .await
            .map_err(Error::api("open the first node for load balancers"))?;
    }
    // Last: it is the sign that this step was done.
    host.set_pod_network(&machine, &network).await?;
    step.end(Outcome::Done);
    Ok(Outcome::Done)
}

/// Installs Cluster API.
pub(super) async fn cluster_api(run: &Run, client: &Client) -> anyhow::Result<Outcome> {
    let version = Asset::default_of(Component::ClusterApiCore)
        .version
        .to_string();
    let step = run.progress.begin(format!("Cluster API {version}"));
    if cluster_api::is_installed(client, &version).await? {
        step.end(Outcome::Unchanged);
        return Ok(Outcome::Unchanged);
    }
    let manifests = cluster_api::manifests(&run.resolver).await?;
    Box::pin(cluster_api::install(
        client,
        manifests,
        &version,
        run.patience(),
        &step,
    ))
    .await
    .context("could not install Cluster API")?;
    step.end(Outcome::Done);
    Ok(Outcome::Done)
}

/// Waits until every node is Ready and every pod runs.
pub(super) async fn ready(run: &Run, host: &Host, client: &Client) -> anyhow::Result<()> {
    let step = run.progress.begin("Everything runs");
    let wished = usize::try_from(run.installation.workers)? + 1;
    let nodes = Api::<Node>::all(client.clone());
    let advice = "\"butleradm status\" tells what is missing";
    let all_nodes = settled(nodes, |nodes: &BTreeMap<String, Node>| {
        nodes.len() >= wished && nodes.values().all(node_is_ready)
    });
    within(
        run.patience(),
        "the readiness of every node",
        advice,
        all_nodes,
    )
    .await?;
    let boots = Boots::of(&host.list().await?);
    let pods = Api::<Pod>::all(client.clone());
    let all_pods = settled(pods, |pods: &BTreeMap<String, Pod>| {
        let mut platform = pods.values().filter(|pod| is_of_the_platform(pod));
        !pods.is_empty() && platform.all(|pod| pod_is_fine(pod) && boots.believes(pod))
    });
    within(
        run.patience(),
        "the readiness of every pod",
        advice,
        all_pods,
    )
    .await?;
    webhooks_answer(run, client, &platform::probes(&run.installation), &step).await?;
    step.end(Outcome::Done);
    Ok(())
}

/// Waits until the webhooks that review these objects answer.
///
/// A pod is ready a moment before a Service leads to it, and nobody tells when it does: therefore they are tried.
pub(super) async fn webhooks_answer(
    run: &Run,
    client: &Client,
    objects: &[Value],
    step: &Running,
) -> Result<(), Error> {
    for object in objects {
        while !could_take(client, object).await? && !run.patience().is_zero() {
            step.detail("waiting for webhooks");
            tokio::time::sleep(GLANCE).await;
        }
    }
    Ok(())
}

/// Watches all objects of a kind until they are as wished.
async fn settled<K>(
    api: Api<K>,
    wished: impl Fn(&BTreeMap<String, K>) -> bool,
) -> Result<(), watcher::Error>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    let key = |object: &K| {
        format!(
            "{}/{}",
            object.namespace().unwrap_or_default(),
            object.name_any()
        )
    };
    let mut seen = BTreeMap::new();
    let mut listed = false;
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        // The watch begins anew by itself; who waits has a limit.
        let Ok(event) = event else { continue };
        match event {
            watcher::Event::Init => {
                seen.clear();
                listed = false;
            }
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                seen.insert(key(&object), object);
            }
            watcher::Event::Delete(object) => {
                seen.remove(&key(&object));
            }
            watcher::Event::InitDone => listed = true,
        }
        if listed && wished(&seen) {
            break;
        }
    }
    Ok(())
}

/// Whether a node says that it is Ready.
pub(crate) fn node_is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

/// Whether a pod is part of the platform, and not somebody's who uses it.
pub(crate) fn is_of_the_platform(pod: &Pod) -> bool {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    [NAMESPACE, "kube-system"].contains(&namespace)
        || cluster_api::DEPLOYMENTS
            .iter()
            .any(|(of_cluster_api, _)| *of_cluster_api == namespace)
}

/// Whether a pod runs with all its containers, or has done what it was for.
pub(crate) fn pod_is_fine(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return false;
    };
    let ready = status.conditions.as_ref().is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    match status.phase.as_deref() {
        Some("Succeeded") => true,
        Some("Running") => ready,
        _ => false,
    }
}

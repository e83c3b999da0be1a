//! `butleradm status`: whether an installation is healthy, part by part.

use std::time::Duration;

use butler_api::{conditions::types, keys::names, steward::data_store::DataStore};
use butler_host::host::{Host, MachineState};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::{Api, Client, ResourceExt, api::ListParams, config::Kubeconfig};

use super::{
    Global,
    apply::is_available,
    boots::Boots,
    cluster_api,
    error::Error,
    installation::{Installation, Places},
    up::{self, NAMESPACE, client, is_of_the_platform, node_is_ready, pod_is_fine, store_is_ready},
};
use crate::output::table::table;

/// An API server that does not answer in this time does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// One part of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    healthy: bool,
    name: String,
    state: String,
}

impl Part {
    fn new(name: impl Into<String>, healthy: bool, state: impl Into<String>) -> Self {
        Self {
            healthy,
            name: name.into(),
            state: state.into(),
        }
    }
}

/// Looks at every part. Gives what to print, and whether all of it is healthy.
pub(crate) async fn status(global: &Global) -> anyhow::Result<(String, bool)> {
    let places = global.places()?;
    let installation = places.read()?.ok_or_else(|| Error::NotInstalled {
        name: global.installation(),
    })?;
    let (mut parts, boots) = host_parts(&installation, &places).await?;
    match tokio::time::timeout(PATIENCE, cluster_parts(&installation, &places, &boots)).await {
        Ok(Ok(found)) => parts.extend(found),
        Ok(Err(error)) => parts.push(Part::new("API server", false, format!("{error:#}"))),
        Err(_) => parts.push(Part::new("API server", false, "does not answer")),
    }
    let healthy = parts.iter().all(|part| part.healthy);
    Ok((report(&installation, &parts, healthy), healthy))
}

fn report(installation: &Installation, parts: &[Part], healthy: bool) -> String {
    let rows = parts.iter().map(|part| {
        let health = if part.healthy { "ok" } else { "NOT OK" };
        [part.name.clone(), health.to_owned(), part.state.clone()]
    });
    let word = if healthy { "healthy" } else { "not healthy" };
    format!(
        "{} is {word}.\n\n{}",
        installation.name,
        table(["PART", "HEALTH", "STATE"], rows)
    )
}

async fn host_parts(
    installation: &Installation,
    places: &Places,
) -> anyhow::Result<(Vec<Part>, Boots)> {
    let kept = up::host_process_runs(installation, places).await?;
    let words = if kept {
        "running"
    } else {
        "not running; \"butleradm up\" starts it"
    };
    let mut parts = vec![Part::new("host process", kept, words)];
    let host = Host::open(installation.host_config(places)?)?;
    let machines = host.list().await?;
    let boots = Boots::of(&machines);
    for machine in machines {
        let (healthy, state) = match &machine.state {
            MachineState::Running { .. } => (true, "running".to_owned()),
            MachineState::Stopped => (false, "stopped".to_owned()),
            MachineState::Broken { reason } => (false, reason.clone()),
        };
        parts.push(Part::new(
            format!("machine {}", machine.name),
            healthy,
            state,
        ));
    }
    Ok((parts, boots))
}

async fn cluster_parts(
    installation: &Installation,
    places: &Places,
    boots: &Boots,
) -> anyhow::Result<Vec<Part>> {
    let client = client(Kubeconfig::read_from(places.kubeconfig())?).await?;
    let version = client.apiserver_version().await?;
    let mut parts = vec![Part::new("API server", true, version.git_version)];
    let nodes = Api::<Node>::all(client.clone())
        .list(&ListParams::default())
        .await?
        .items;
    let wished = usize::try_from(installation.workers)? + 1;
    if nodes.len() < wished {
        parts.push(Part::new(
            "nodes",
            false,
            format!("{} of {wished}", nodes.len()),
        ));
    }
    for node in &nodes {
        let info = node
            .status
            .as_ref()
            .and_then(|status| status.node_info.as_ref());
        let kubelet = info
            .map(|info| info.kubelet_version.clone())
            .unwrap_or_default();
        let ready = node_is_ready(node);
        let word = if ready { "Ready" } else { "not Ready" };
        parts.push(Part::new(
            format!("node {}", node.name_any()),
            ready,
            format!("{word}, {kubelet}"),
        ));
    }
    for (namespace, name) in components() {
        parts.push(deployment(&client, namespace, name).await?);
    }
    parts.push(data_store(&client).await?);
    let pods = Api::<Pod>::all(client)
        .list(&ListParams::default())
        .await?
        .items;
    let ill: Vec<String> = pods
        .iter()
        .filter(|pod| is_of_the_platform(pod))
        .filter(|pod| !pod_is_fine(pod) || !boots.believes(pod))
        .map(ResourceExt::name_any)
        .collect();
    let words = if ill.is_empty() {
        "running".to_owned()
    } else {
        format!("not running: {}", ill.join(", "))
    };
    parts.push(Part::new("pods", ill.is_empty(), words));
    Ok(parts)
}

/// What a management cluster runs, by namespace and name.
fn components() -> impl Iterator<Item = (&'static str, &'static str)> {
    [
        ("kube-system", "coredns"),
        (NAMESPACE, "butler-controller"),
        (NAMESPACE, "steward"),
    ]
    .into_iter()
    .chain(cluster_api::DEPLOYMENTS)
}

/// Where control planes of tenants keep their state.
async fn data_store(client: &Client) -> anyhow::Result<Part> {
    let store = names::DEFAULT_DATA_STORE;
    let found = Api::<DataStore>::all(client.clone()).get_opt(store).await?;
    let title = format!("data store {store}");
    let Some(found) = found else {
        let words = "missing; \"butleradm up\" installs it";
        return Ok(Part::new(title, false, words));
    };
    let ready = store_is_ready(&found);
    let status = found.status.unwrap_or_default();
    let mut said = status.conditions.into_iter();
    let said = said.find(|condition| condition.type_ == types::READY);
    let words = match said {
        _ if ready => found.spec.endpoints.join(", "),
        Some(condition) => condition.message,
        None => "nobody has looked at it yet".to_owned(),
    };
    Ok(Part::new(title, ready, words))
}

async fn deployment(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Part> {
    let found = Api::<Deployment>::namespaced(client.clone(), namespace)
        .get_opt(name)
        .await?;
    let Some(found) = found else {
        return Ok(Part::new(
            name,
            false,
            "missing; \"butleradm up\" installs it",
        ));
    };
    let pod = found
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let image = pod
        .and_then(|pod| pod.containers.first()?.image.clone())
        .unwrap_or_default();
    Ok(Part::new(name, is_available(&found), image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_ill_part_makes_the_whole_not_healthy() {
        let installation = Installation {
            name: "butler-local".parse().unwrap(),
            range: "172.30.0.0/20".parse().unwrap(),
            kubernetes_version: "1.36.3".parse().unwrap(),
            cpus: 2,
            memory_mib: 4096,
            egress: butler_host::network::Egress::Off,
            workers: 0,
            first_machine_id: "6f9619ff-8b86-4d01-b42d-00cf4fc964ff".parse().unwrap(),
        };
        let parts = [
            Part::new("host process", true, "running"),
            Part::new("machine butler-local-cp-0", false, "stopped"),
        ];
        insta::assert_snapshot!(report(&installation, &parts, false));
    }
}

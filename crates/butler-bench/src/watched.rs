//! A component in the management cluster, seen from the host: what the kernel knows of its process, and what it counts itself.
//!
//! The cluster keeps no log of requests. Components count every request of their controllers, by verb and kind, and that is
//! what is read here; where there is a log, it is counted by user agent. What a component asks the API server about its readers is
//! in neither count: to read must not look like a write, and a review writes nothing.

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::{local::installation::NAMESPACE, process::Process, scrape::Reader};

/// Where components tell their numbers.
const METRICS_PORT: u16 = 8080;
/// The container, as the chart calls it.
const CONTAINER: &str = "butler";
/// How requests are counted.
const REQUESTS: &str = "butler_api_requests_total{";
/// What changes nothing, and what nobody is held to.
const NOT_COUNTED: [&str; 3] = ["verb=\"get\"", "verb=\"list\"", "kind=\"Lease\""];

/// The one replica of a component.
pub(crate) struct Watched {
    client: Client,
    component: &'static str,
    pod: String,
    reader: Reader,
}

impl Watched {
    /// Finds it by the labels that the chart gives to pods.
    pub(crate) async fn of(client: Client, component: &'static str) -> anyhow::Result<Self> {
        let selector =
            format!("app.kubernetes.io/name={component},app.kubernetes.io/part-of=butler");
        let wanted = ListParams::default().labels(&selector);
        let found = pods(&client).list(&wanted).await?.items;
        let pod = found.first().map(ResourceExt::name_any);
        let pod = pod.with_context(|| format!("there is no pod of {component}"))?;
        let reader = Reader::of(client.clone()).await?;
        Ok(Self {
            client,
            component,
            pod,
            reader,
        })
    }

    /// What it is called.
    pub(crate) fn component(&self) -> &'static str {
        self.component
    }

    /// Its process on this host.
    pub(crate) async fn process(&self) -> anyhow::Result<Process> {
        process_in(&pods(&self.client).get(&self.pod).await?, CONTAINER)
    }

    /// How many of its requests have changed something so far, leases excepted.
    pub(crate) async fn writes(&self) -> anyhow::Result<usize> {
        let process = self.process().await?;
        let metrics = self.reader.numbers(process, METRICS_PORT).await;
        let metrics =
            metrics.with_context(|| format!("could not read the numbers of {}", self.component))?;
        Ok(writes_in(&metrics))
    }
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// The process of a container, whatever the pod it is in and whether it is a sidecar, on this host.
pub(crate) fn process_in(pod: &Pod, container: &str) -> anyhow::Result<Process> {
    let status = pod.status.as_ref();
    let all = status.into_iter().flat_map(|status| {
        let sidecars = status.init_container_statuses.iter().flatten();
        status.container_statuses.iter().flatten().chain(sidecars)
    });
    let mut found = all.filter(|status| status.name == container);
    let number = found.find_map(|status| {
        let (_runtime, number) = status.container_id.as_deref()?.split_once("://")?;
        Some(number)
    });
    let number = number.with_context(|| {
        format!(
            "the container {container} of {} does not run",
            pod.name_any()
        )
    })?;
    Process::of_container(number)
}

fn writes_in(metrics: &str) -> usize {
    let counted = metrics
        .lines()
        .filter(|line| line.starts_with(REQUESTS))
        .filter(|line| !NOT_COUNTED.iter().any(|label| line.contains(label)));
    counted
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use butler_runtime::metrics::{Metrics, RequestOutcome, Verb};

    use super::*;

    #[test]
    fn writes_are_counted_as_the_engine_writes_them_down() {
        let metrics = Metrics::new();
        let ask = |verb, kind| metrics.api_request("tcp", verb, kind, RequestOutcome::Success);
        ask(Verb::Apply, "Secret");
        ask(Verb::Apply, "Secret");
        ask(Verb::Status, "TenantControlPlane");
        ask(Verb::Get, "Secret");
        ask(Verb::List, "Secret");
        ask(Verb::Replace, "Lease");
        assert_eq!(writes_in(&metrics.encode().unwrap()), 3);
    }
}

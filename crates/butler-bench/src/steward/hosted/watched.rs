//! The process of Steward in the management cluster, seen from the host: what the kernel knows of it, and what it counts itself.
//!
//! The cluster keeps no log of requests. Steward counts every request of its controllers, by verb and kind, and that is what
//! is read here; where there is a log, it is counted by user agent.

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::{local::installation::NAMESPACE, process::Process};

/// The pods of Steward, as its chart labels them.
const PODS: &str = "app.kubernetes.io/name=steward,app.kubernetes.io/part-of=butler";
/// Where its numbers are.
const METRICS_PORT: u16 = 8080;
/// How requests are counted.
const REQUESTS: &str = "butler_api_requests_total{";
/// What changes nothing, and what nobody is held to.
const NOT_COUNTED: [&str; 3] = ["verb=\"get\"", "verb=\"list\"", "kind=\"Lease\""];

/// The one replica of Steward.
pub(super) struct Steward {
    client: Client,
    pod: String,
}

impl Steward {
    /// Finds it.
    pub(super) async fn of(client: Client) -> anyhow::Result<Self> {
        let pods = pods(&client);
        let found = pods.list(&ListParams::default().labels(PODS)).await?.items;
        let pod = found.first().context("there is no pod of Steward")?;
        Ok(Self {
            pod: pod.name_any(),
            client,
        })
    }

    /// Its process on this host.
    pub(super) async fn process(&self) -> anyhow::Result<Process> {
        let pod = pods(&self.client).get(&self.pod).await?;
        let statuses = pod.status.and_then(|status| status.container_statuses);
        let container = statuses.into_iter().flatten().find_map(|status| {
            let (_runtime, number) = status.container_id.as_deref()?.split_once("://")?;
            Some(number.to_owned())
        });
        Process::of_container(&container.context("the pod of Steward does not run")?)
    }

    /// How many of its requests have changed something so far, leases excepted.
    pub(super) async fn writes(&self) -> anyhow::Result<usize> {
        let path = format!(
            "/api/v1/namespaces/{NAMESPACE}/pods/{}:{METRICS_PORT}/proxy/metrics",
            self.pod
        );
        let request = http::Request::get(path).body(Vec::new())?;
        let metrics = self.client.request_text(request).await;
        Ok(writes_in(
            &metrics.context("could not read the numbers of Steward")?,
        ))
    }
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), NAMESPACE)
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

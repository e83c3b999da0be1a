//! Makes the Service `kubernetes` lead to the proxies that are ready.
//!
//! Kubernetes itself knows which they are: they have a Service of their own. Its addresses are written into the `EndpointSlice`
//! `default/kubernetes`, which the API server would else keep (it is told not to). Every proxy does this, and all come to the same
//! result; so none of them has to be the one that does it. At rest nothing is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::{
    api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
    runtime::{
        WatchStreamExt as _,
        watcher::{Config, Event, watch_object, watcher},
    },
};

use crate::manifests::names;

/// The label by which a slice belongs to a Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The label that says who keeps a slice.
const KEEPER_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// The Service by which pods reach their API server, and the slice of it.
const KUBERNETES: &str = "kubernetes";
const KUBERNETES_NAMESPACE: &str = "default";
/// The name of that Service's port.
const PORT_NAME: &str = "https";
/// How long to wait after a write that failed.
const RETRY: Duration = Duration::from_secs(5);

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    /// The slices of the proxies' own Service.
    ours: BTreeMap<String, EndpointSlice>,
    /// The slice of the Service `kubernetes`.
    published: Option<EndpointSlice>,
    ours_known: bool,
    published_known: bool,
}

impl Seen {
    fn note(&mut self, event: Event<EndpointSlice>) {
        match event {
            Event::Init => {
                self.ours.clear();
                self.ours_known = false;
            }
            Event::InitDone => self.ours_known = true,
            Event::InitApply(slice) | Event::Apply(slice) => {
                self.ours.insert(slice.name_any(), slice);
            }
            Event::Delete(slice) => {
                self.ours.remove(&slice.name_any());
            }
        }
    }

    /// What is to be written, if anything is. Addresses that nobody answers at are of no use, so none at all is never written.
    fn due(&self, port: u16) -> Option<EndpointSlice> {
        if !(self.ours_known && self.published_known) {
            return None;
        }
        let wanted = wanted(self.ours.values(), port)?;
        let is_there = self.published.as_ref().is_some_and(|there| {
            let label = |slice: &EndpointSlice| slice.labels().get(SERVICE_LABEL).cloned();
            there.address_type == wanted.address_type
                && there.endpoints == wanted.endpoints
                && there.ports == wanted.ports
                && label(there) == label(&wanted)
        });
        (!is_there).then_some(wanted)
    }
}

/// The slice that leads to all proxies that are ready; none if none is.
fn wanted<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice> + Clone,
    port: u16,
) -> Option<EndpointSlice> {
    let ready = |endpoint: &&Endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.is_none_or(|conditions| conditions.ready.unwrap_or(true))
    };
    // A slice is of one family, and so is the Service.
    let mut with_addresses = slices
        .clone()
        .filter(|slice| slice.endpoints.iter().any(|endpoint| ready(&endpoint)));
    let family = with_addresses.next()?.address_type.clone();
    let addresses: BTreeSet<String> = slices
        .filter(|slice| slice.address_type == family)
        .flat_map(|slice| &slice.endpoints)
        .filter(ready)
        .flat_map(|endpoint| endpoint.addresses.iter().cloned())
        .collect();
    let endpoints = addresses.into_iter().map(|address| Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            ..EndpointConditions::default()
        }),
        ..Endpoint::default()
    });
    Some(EndpointSlice {
        metadata: ObjectMeta {
            name: Some(KUBERNETES.to_owned()),
            namespace: Some(KUBERNETES_NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([
                (SERVICE_LABEL.to_owned(), KUBERNETES.to_owned()),
                (KEEPER_LABEL.to_owned(), names::TCP_PROXY.to_owned()),
            ])),
            ..ObjectMeta::default()
        },
        address_type: family,
        endpoints: endpoints.collect(),
        ports: Some(vec![EndpointPort {
            name: Some(PORT_NAME.to_owned()),
            port: Some(port.into()),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    })
}

/// Keeps the Service `kubernetes` leading to the proxies of this Service, at this port. Goes on until it is dropped.
pub(super) async fn keep(client: Client, service: ServiceName, port: u16) {
    let ours = Api::namespaced(client.clone(), &service.namespace);
    let selected = Config::default().labels(&format!("{SERVICE_LABEL}={}", service.name));
    let mut ours = pin!(watcher(ours, selected).default_backoff());
    let published = Api::<EndpointSlice>::namespaced(client, KUBERNETES_NAMESPACE);
    let mut changes = pin!(watch_object(published.clone(), KUBERNETES).default_backoff());
    let mut seen = Seen::default();
    let mut failed = false;
    loop {
        let retry = async {
            if failed {
                tokio::time::sleep(RETRY).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let noted = tokio::select! {
            event = ours.next() => event.map(|event| event.map(|event| seen.note(event))),
            change = changes.next() => change.map(|change| change.map(|found| {
                seen.published = found;
                seen.published_known = true;
            })),
            () = retry => Some(Ok(())),
        };
        match noted {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot see which proxies are ready");
                continue;
            }
            // A watch has no end.
            None => return,
        }
        let Some(wanted) = seen.due(port) else {
            failed = false;
            continue;
        };
        match publish(&published, seen.published.as_ref(), &wanted).await {
            Ok(written) => {
                failed = false;
                let proxies = wanted.endpoints.len();
                tracing::info!(proxies, "the Service kubernetes leads to the proxies");
                seen.published = Some(written);
            }
            Err(error) => {
                failed = true;
                tracing::warn!(%error, "the Service kubernetes cannot be made to lead to the proxies");
            }
        }
    }
}

async fn publish(
    api: &Api<EndpointSlice>,
    there: Option<&EndpointSlice>,
    wanted: &EndpointSlice,
) -> Result<EndpointSlice, kube::Error> {
    // The family of a slice cannot be changed.
    if there.is_some_and(|there| there.address_type != wanted.address_type) {
        let deleted = api.delete(KUBERNETES, &DeleteParams::default()).await;
        match deleted {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => {
                other?;
            }
        }
    }
    let parameters = PatchParams::apply(names::TCP_PROXY).force();
    api.patch(KUBERNETES, &parameters, &Patch::Apply(wanted))
        .await
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn slice(name: &str, family: &str, endpoints: &[(&str, Option<bool>)]) -> EndpointSlice {
        let endpoints = endpoints.iter().map(|(address, ready)| Endpoint {
            addresses: vec![(*address).to_owned()],
            conditions: Some(EndpointConditions {
                ready: *ready,
                ..EndpointConditions::default()
            }),
            node_name: Some("worker".to_owned()),
            ..Endpoint::default()
        });
        EndpointSlice {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            address_type: family.to_owned(),
            endpoints: endpoints.collect(),
            ports: None,
        }
    }

    /// All is known, and this is it.
    fn seen(ours: Vec<EndpointSlice>, published: Option<EndpointSlice>) -> Seen {
        let mut seen = Seen {
            published,
            published_known: true,
            ..Seen::default()
        };
        seen.note(Event::Init);
        for slice in ours {
            seen.note(Event::InitApply(slice));
        }
        seen.note(Event::InitDone);
        seen
    }

    #[test]
    fn pods_are_led_to_the_proxies_that_are_ready() {
        let ours = vec![
            slice(
                "a",
                "IPv4",
                &[("192.0.2.2", Some(true)), ("192.0.2.3", Some(false))],
            ),
            // Two proxies on one node have one address; what is not said is true.
            slice("b", "IPv4", &[("192.0.2.2", None), ("192.0.2.1", None)]),
        ];
        insta::assert_yaml_snapshot!(seen(ours, None).due(6443), @r#"
        apiVersion: discovery.k8s.io/v1
        kind: EndpointSlice
        addressType: IPv4
        endpoints:
          - addresses:
              - 192.0.2.1
            conditions:
              ready: true
          - addresses:
              - 192.0.2.2
            conditions:
              ready: true
        metadata:
          labels:
            endpointslice.kubernetes.io/managed-by: steward-tcp-proxy
            kubernetes.io/service-name: kubernetes
          name: kubernetes
          namespace: default
        ports:
          - name: https
            port: 6443
            protocol: TCP
        "#);
    }

    #[test]
    fn at_rest_nothing_is_written_and_what_somebody_changed_is_written_again() {
        let ours = || vec![slice("a", "IPv4", &[("192.0.2.2", Some(true))])];
        let written = seen(ours(), None).due(6443).unwrap();
        assert_eq!(seen(ours(), Some(written.clone())).due(6443), None);
        let changed = EndpointSlice {
            endpoints: Vec::new(),
            ..written.clone()
        };
        assert_eq!(seen(ours(), Some(changed)).due(6443), Some(written));
    }

    #[test]
    fn the_last_addresses_stay_when_no_proxy_is_ready_or_nothing_is_known() {
        let unready = vec![slice("a", "IPv4", &[("192.0.2.2", Some(false))])];
        assert_eq!(seen(unready, None).due(6443), None);
        assert_eq!(seen(Vec::new(), None).due(6443), None);
        let mut partly = seen(vec![slice("a", "IPv4", &[("192.0.2.2", None)])], None);
        partly.note(Event::Init);
        assert_eq!(partly.due(6443), None, "a list that is not complete");
    }
}

//! Which calls of `ip` give a machine its routes to pods and its addresses of services. Nothing is called here.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use ipnet::Ipv4Net;

use super::{
    MACHINE_INTERFACE as INSIDE,
    observe::{NamespaceView, SERVICE_LABEL},
    plan::{ROUTE_PROTOCOL, Step},
};

/// One route for the pods of each other machine; those of ours that lead elsewhere, or to nobody, go.
pub(super) fn pod_routes(
    namespace: &str,
    peers: &BTreeMap<Ipv4Net, Ipv4Addr>,
    view: &NamespaceView,
) -> Vec<Step> {
    let ours: BTreeMap<Ipv4Net, Option<&str>> = view
        .routes
        .iter()
        .filter(|route| route.is_ours())
        .filter_map(|route| Some((route.destination?, route.gateway.as_deref())))
        .collect();
    let gone = ours
        .keys()
        .filter(|range| !peers.contains_key(range))
        .map(|range| {
            let range = range.to_string();
            Step::new([
                "-n",
                namespace,
                "route",
                "delete",
                &range,
                "proto",
                ROUTE_PROTOCOL,
            ])
        });
    let missing = peers
        .iter()
        .map(|(range, gateway)| (range, gateway.to_string()))
        .filter(|(range, gateway)| ours.get(range) != Some(&Some(gateway.as_str())))
        .map(|(range, gateway)| {
            let range = range.to_string();
            Step::new([
                "-n",
                namespace,
                "route",
                "replace",
                &range,
                "via",
                &gateway,
                "dev",
                INSIDE,
                "proto",
                ROUTE_PROTOCOL,
            ])
        });
    gone.chain(missing).collect()
}

/// How addresses of services change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServiceSteps {
    /// Before the filter forgets what is removed.
    pub(super) remove: Vec<Step>,
    /// After the filter knows what is placed.
    pub(super) place: Vec<Step>,
    /// Addresses that are new on this machine.
    pub(super) placed: BTreeSet<Ipv4Addr>,
}

/// Places and removes addresses of services. Others on the interface stay.
pub(super) fn service_addresses(
    namespace: &str,
    wished: &BTreeSet<Ipv4Addr>,
    view: &NamespaceView,
) -> ServiceSteps {
    let there: BTreeSet<Ipv4Addr> = view
        .link(INSIDE)
        .into_iter()
        .flat_map(|link| link.services.iter().copied())
        .collect();
    let step = |verb: &str, address: &Ipv4Addr| {
        let address = format!("{address}/32");
        let label: &[&str] = if verb == "add" {
            &["label", SERVICE_LABEL]
        } else {
            &[]
        };
        Step::from_words(
            &[
                &["-n", namespace, "address", verb, &address, "dev", INSIDE],
                label,
            ]
            .concat(),
        )
    };
    let placed: BTreeSet<Ipv4Addr> = wished.difference(&there).copied().collect();
    ServiceSteps {
        remove: there
            .difference(wished)
            .map(|address| step("delete", address))
            .collect(),
        place: placed.iter().map(|address| step("add", address)).collect(),
        placed,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::network::observe::{Link, Route};

    fn lines(steps: &[Step]) -> Vec<String> {
        steps
            .iter()
            .map(|step| step.arguments().join(" "))
            .collect()
    }

    fn route(destination: &str, gateway: &str, protocol: &str) -> Route {
        Route {
            destination: Some(destination.parse().unwrap()),
            gateway: Some(gateway.to_owned()),
            protocol: Some(protocol.to_owned()),
            ..Route::default()
        }
    }

    #[test]
    fn routes_follow_machines_as_they_come_move_and_go() {
        let view = NamespaceView {
            routes: vec![
                route("10.244.1.0/24", "10.213.7.11", "98"),
                route("10.244.2.0/24", "10.213.7.12", "98"),
                route("10.244.3.0/24", "10.213.7.13", "98"),
                route("10.244.9.0/24", "10.213.7.19", "static"),
            ],
            ..NamespaceView::default()
        };
        let peers = [
            ("10.244.1.0/24", "10.213.7.11"),
            ("10.244.2.0/24", "10.213.7.22"),
            ("10.244.4.0/24", "10.213.7.14"),
        ]
        .map(|(range, gateway)| (range.parse().unwrap(), gateway.parse().unwrap()));
        assert_eq!(
            lines(&pod_routes("ns", &BTreeMap::from(peers), &view)),
            [
                "-n ns route delete 10.244.3.0/24 proto 98",
                "-n ns route replace 10.244.2.0/24 via 10.213.7.22 dev eth0 proto 98",
                "-n ns route replace 10.244.4.0/24 via 10.213.7.14 dev eth0 proto 98",
            ]
        );
        assert_eq!(
            pod_routes("ns", &BTreeMap::new(), &NamespaceView::default()),
            []
        );
    }

    #[test]
    fn only_addresses_of_services_come_and_go() {
        let address = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        let view = NamespaceView {
            links: vec![Link {
                name: INSIDE.to_owned(),
                addresses: vec!["10.213.7.10/24".parse().unwrap()],
                services: vec![address("10.213.7.200"), address("10.213.7.201")],
                ..Link::default()
            }],
            ..NamespaceView::default()
        };
        let wished = BTreeSet::from([address("10.213.7.201"), address("10.213.7.202")]);
        let steps = service_addresses("ns", &wished, &view);
        assert_eq!(
            lines(&steps.remove),
            ["-n ns address delete 10.213.7.200/32 dev eth0"]
        );
        assert_eq!(
            lines(&steps.place),
            ["-n ns address add 10.213.7.202/32 dev eth0 label eth0:service"]
        );
        assert_eq!(steps.placed, BTreeSet::from([address("10.213.7.202")]));
    }
}

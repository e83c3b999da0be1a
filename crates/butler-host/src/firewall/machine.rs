//! Tables in a machine's namespace: what its pods send away, and which ports of a service's address are the machine's own.

use std::{collections::BTreeMap, collections::BTreeSet, net::Ipv4Addr};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::{Table, TableName, host::chain};
use crate::network::MACHINE_INTERFACE;

/// Ports of a service's address that the machine itself serves. All others are closed there; ports of a Service are not
/// meant, for kube-proxy sends those on to pods before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServedPorts {
    /// Of TCP.
    pub tcp: BTreeSet<u16>,
    /// Of UDP.
    pub udp: BTreeSet<u16>,
}

/// Name of the table for what pods send.
pub(crate) fn pod_table_name() -> TableName {
    TableName::new("pods")
}

/// Pods are themselves within the cluster and their machine outside of it.
pub(crate) fn pod_table(own: Ipv4Net, peers: impl IntoIterator<Item = Ipv4Net>) -> Table {
    // A set knows each address once; ranges within others would be refused.
    let cluster = Ipv4Net::aggregate(&peers.into_iter().chain([own]).collect());
    let cluster: Vec<String> = cluster.iter().map(Ipv4Net::to_string).collect();
    let cluster = cluster.join(", ");
    Table {
        name: pod_table_name(),
        chains: chain(
            "postrouting",
            Some("type nat hook postrouting priority srcnat; policy accept;"),
            &[format!(
                "oifname \"{MACHINE_INTERFACE}\" ip saddr {own} ip daddr != {{ {cluster} }} masquerade"
            )],
        ),
    }
}

/// Name of the table for addresses of services.
pub(crate) fn service_table_name() -> TableName {
    TableName::new("services")
}

/// What is still addressed to a service when it arrives at the machine is not for a Service: kube-proxy would have sent it
/// on to a pod. Without this table the kubelet and the API server of the machine would answer there.
pub(crate) fn service_table(addresses: &BTreeMap<Ipv4Addr, ServedPorts>) -> Table {
    // The machine may use what it serves itself: then the answers come to the address, too, at a port that chance has chosen.
    let mut rules = vec!["iifname \"lo\" accept".to_owned()];
    for (address, ports) in addresses {
        // Errors about connections that are served.
        rules.push(format!(
            "ip daddr {address} meta l4proto icmp ct state related accept"
        ));
        for (protocol, ports) in [("tcp", &ports.tcp), ("udp", &ports.udp)] {
            if !ports.is_empty() {
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                let ports = ports.join(", ");
                rules.push(format!(
                    "ip daddr {address} {protocol} dport {{ {ports} }} accept"
                ));
            }
        }
        rules.push(format!(
            "ip daddr {address} meta l4proto tcp reject with tcp reset"
        ));
        rules.push(format!(
            "ip daddr {address} meta l4proto udp reject with icmpx port-unreachable"
        ));
        rules.push(format!("ip daddr {address} drop"));
    }
    Table {
        name: service_table_name(),
        chains: chain(
            "input",
            Some("type filter hook input priority filter; policy accept;"),
            &rules,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_masqueraded_outside_of_the_cluster_alone() {
        let net = |text: &str| text.parse::<Ipv4Net>().unwrap();
        let peers = [
            net("10.244.2.0/24"),
            net("10.244.2.0/25"),
            net("10.244.9.0/24"),
        ];
        insta::assert_snapshot!(pod_table(net("10.244.1.0/24"), peers).replacement());
    }

    #[test]
    fn an_address_of_a_service_is_open_where_it_is_served() {
        let addresses = BTreeMap::from([
            ("10.213.7.200".parse().unwrap(), ServedPorts::default()),
            (
                "10.213.7.201".parse().unwrap(),
                ServedPorts {
                    tcp: BTreeSet::from([6443, 8132]),
                    udp: BTreeSet::from([53]),
                },
            ),
        ]);
        insta::assert_snapshot!(service_table(&addresses).replacement());
    }
}

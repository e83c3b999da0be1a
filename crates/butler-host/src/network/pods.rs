//! The pod network of a machine: which addresses its pods have, and where those of others are.

use std::{collections::BTreeMap, net::Ipv4Addr};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

/// Where containerd looks for the network of pods, in the machine.
pub(crate) const CNI_DIRECTORY: [&str; 3] = ["etc", "cni", "net.d"];
/// Ours; a smaller name would come before it.
pub(crate) const CNI_CONFIG: &str = "10-butler.conflist";

/// The pod network of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodNetwork {
    /// The range of its own pods, once the cluster has given it one. Without it, pods are not started.
    pub own: Option<Ipv4Net>,
    /// The ranges of all other machines of the cluster, and their addresses.
    pub peers: BTreeMap<Ipv4Net, Ipv4Addr>,
}

/// Why a machine cannot have such a pod network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PodNetworkError {
    /// Pods are to have addresses of machines.
    #[error(
        "the range {pods} of pods and the range {machines} of the machines have addresses in common"
    )]
    Machines {
        /// The range of pods.
        pods: Ipv4Net,
        /// The range of the machines.
        machines: Ipv4Net,
    },
    /// Two machines are to have the same pods.
    #[error("the ranges {one} and {other} of pods have addresses in common")]
    Overlap {
        /// One range.
        one: Ipv4Net,
        /// The other.
        other: Ipv4Net,
    },
    /// A machine of the cluster is not on this bridge.
    #[error("{gateway}, where the pods {pods} are, is not in the range {machines} of the machines")]
    Elsewhere {
        /// The address.
        gateway: Ipv4Addr,
        /// Its pods.
        pods: Ipv4Net,
        /// The range of the machines.
        machines: Ipv4Net,
    },
}

impl PodNetwork {
    /// Whether it can be set, where the machines have this range.
    pub fn validate(&self, machines: Ipv4Net) -> Result<(), PodNetworkError> {
        let mut seen: Vec<Ipv4Net> = Vec::new();
        for pods in self.own.iter().chain(self.peers.keys()) {
            if overlap(*pods, machines) {
                return Err(PodNetworkError::Machines {
                    pods: *pods,
                    machines,
                });
            }
            if let Some(other) = seen.iter().find(|other| overlap(**other, *pods)) {
                return Err(PodNetworkError::Overlap {
                    one: *other,
                    other: *pods,
                });
            }
            seen.push(*pods);
        }
        let elsewhere = self
            .peers
            .iter()
            .find(|(_, gateway)| !machines.contains(*gateway));
        elsewhere.map_or(Ok(()), |(pods, gateway)| {
            Err(PodNetworkError::Elsewhere {
                gateway: *gateway,
                pods: *pods,
                machines,
            })
        })
    }
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// What containerd is told: pods are on a bridge of the machine. The plugin masquerades nothing, for it would also do so
/// between pods of two machines.
pub(crate) fn cni_config(own: Ipv4Net) -> String {
    let config = json!({
        "cniVersion": "1.0.0",
        "name": "butler",
        "plugins": [
            {
                "bridge": "cni0",
                "hairpinMode": true,
                "ipMasq": false,
                "ipam": {
                    "ranges": [[{ "subnet": own }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                    "type": "host-local",
                },
                "isGateway": true,
                "type": "bridge",
            },
            { "capabilities": { "portMappings": true }, "type": "portmap" },
        ],
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn net(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    fn network(own: &str, peer: &str, gateway: &str) -> PodNetwork {
        PodNetwork {
            own: Some(net(own)),
            peers: BTreeMap::from([(net(peer), gateway.parse().unwrap())]),
        }
    }

    #[test]
    fn ranges_that_cannot_be_routed_are_refused() {
        let machines = net("10.213.7.0/24");
        let good = network("10.244.1.0/24", "10.244.2.0/24", "10.213.7.11");
        assert_eq!(good.validate(machines), Ok(()));
        assert_eq!(PodNetwork::default().validate(machines), Ok(()));
        assert!(matches!(
            network("10.213.0.0/16", "10.244.2.0/24", "10.213.7.11").validate(machines),
            Err(PodNetworkError::Machines { .. })
        ));
        assert!(matches!(
            network("10.244.1.0/24", "10.244.0.0/16", "10.213.7.11").validate(machines),
            Err(PodNetworkError::Overlap { .. })
        ));
        assert!(matches!(
            network("10.244.1.0/24", "10.244.2.0/24", "192.0.2.1").validate(machines),
            Err(PodNetworkError::Elsewhere { .. })
        ));
    }

    #[test]
    fn a_pod_network_is_found_again() {
        let network = network("10.244.1.0/24", "10.244.2.0/24", "10.213.7.11");
        let text = serde_json::to_string(&network).unwrap();
        assert_eq!(
            text,
            r#"{"own":"10.244.1.0/24","peers":{"10.244.2.0/24":"10.213.7.11"}}"#
        );
        assert_eq!(serde_json::from_str::<PodNetwork>(&text).unwrap(), network);
    }

    #[test]
    fn what_containerd_is_told() {
        insta::assert_snapshot!(cni_config(net("10.244.1.0/24")));
    }
}

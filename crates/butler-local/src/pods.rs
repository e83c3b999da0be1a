//! What each machine needs to know about the pods of its cluster.

use std::collections::BTreeMap;

use butler_api::name::MachineName;
use butler_host::network::PodNetwork;

use crate::{facts::NodeFacts, hands::LocalMachine};

/// For every machine that is a node: the range of its own pods, and the ways to all others. A node that is no machine of this
/// host has no way, for only machines share the bridge.
pub(crate) fn pod_networks(
    machines: &[LocalMachine],
    members: &BTreeMap<&MachineName, &NodeFacts>,
) -> BTreeMap<MachineName, PodNetwork> {
    let behind = |machine: &LocalMachine| {
        let node = members.get(&machine.name)?;
        node.pods.map(|pods| (pods, machine.address))
    };
    let ways: BTreeMap<_, _> = machines.iter().filter_map(behind).collect();
    let network = |machine: &LocalMachine| {
        let node = members.get(&machine.name)?;
        let others = ways
            .iter()
            .filter(|(range, via)| Some(**range) != node.pods && **via != machine.address);
        let network = PodNetwork {
            own: node.pods,
            peers: others.map(|(range, via)| (*range, *via)).collect(),
        };
        Some((machine.name.clone(), network))
    };
    machines.iter().filter_map(network).collect()
}

/// The same where somebody else gives pods their network: every machine that is a node forgets what it was told.
pub(crate) fn without_pods(
    members: &BTreeMap<&MachineName, &NodeFacts>,
) -> BTreeMap<MachineName, PodNetwork> {
    let names = members.keys();
    names
        .map(|name| ((*name).clone(), PodNetwork::default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{
        members::members,
        testing::{address, machine, machine_name, node, pods},
    };

    fn networks(
        machines: &[LocalMachine],
        nodes: &[NodeFacts],
    ) -> BTreeMap<MachineName, PodNetwork> {
        pod_networks(machines, &members(machines, nodes))
    }

    #[test]
    fn each_machine_has_its_own_range_and_ways_to_the_others() {
        let machines = [machine("m1", 1), machine("m2", 2), machine("m3", 3)];
        let found = networks(&machines, &[node("n1", 1), node("n2", 2)]);
        let expected = |own, peer| PodNetwork {
            own: Some(pods(own)),
            peers: BTreeMap::from([(pods(peer), address(peer))]),
        };
        assert_eq!(
            found,
            BTreeMap::from([
                (machine_name("m1"), expected(1, 2)),
                (machine_name("m2"), expected(2, 1)),
            ])
        );
    }

    #[test]
    fn a_node_without_a_range_knows_the_ways_already() {
        let waiting = NodeFacts {
            pods: None,
            ..node("n1", 1)
        };
        let found = networks(
            &[machine("m1", 1), machine("m2", 2)],
            &[waiting, node("n2", 2)],
        );
        let first = &found[&machine_name("m1")];
        assert_eq!(first.own, None);
        assert_eq!(first.peers, BTreeMap::from([(pods(2), address(2))]));
        assert_eq!(found[&machine_name("m2")].peers, BTreeMap::new());
    }

    #[test]
    fn where_the_tenant_brings_a_network_machines_know_neither_ways_nor_ranges() {
        let machines = [machine("m1", 1), machine("m2", 2), machine("m3", 3)];
        let nodes = [node("n1", 1), node("n2", 2)];
        let found = without_pods(&members(&machines, &nodes));
        let nothing = |name| (machine_name(name), PodNetwork::default());
        assert_eq!(found, BTreeMap::from([nothing("m1"), nothing("m2")]));
    }

    #[test]
    fn a_node_that_is_no_machine_of_this_host_has_no_way() {
        let found = networks(&[machine("m1", 1)], &[node("n1", 1), node("far", 200)]);
        assert_eq!(found[&machine_name("m1")].peers, BTreeMap::new());
    }
}

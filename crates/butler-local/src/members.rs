//! Which machines of the host are which nodes of a cluster.

use std::collections::BTreeMap;

use butler_api::{butler::provider_config::Provider, name::MachineName};

use crate::{facts::NodeFacts, hands::LocalMachine};

/// The node that each machine is, for those that are one.
pub(crate) fn members<'a>(
    machines: &'a [LocalMachine],
    nodes: &'a [NodeFacts],
) -> BTreeMap<&'a MachineName, &'a NodeFacts> {
    let node_of = |machine: &'a LocalMachine| {
        let own = nodes
            .iter()
            .filter(|node| is_node_of(machine, node))
            // The node of a machine that is gone may have had the same address: whoever is ready is meant.
            .min_by_key(|node| (node.provider_id.is_none(), node.deleting, !node.ready));
        own.map(|node| (&machine.name, node))
    };
    machines.iter().filter_map(node_of).collect()
}

/// A node that says which machine it is belongs to that one alone; the others are known by their address.
fn is_node_of(machine: &LocalMachine, node: &NodeFacts) -> bool {
    let scheme = format!("butler-{}://", Provider::Local.as_str());
    let id = node.provider_id.as_deref();
    match id.and_then(|id| id.strip_prefix(&scheme)) {
        Some(id) => id == machine.id,
        None => node.addresses.contains(&machine.address),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::{machine, node};

    fn pairs(machines: &[LocalMachine], nodes: &[NodeFacts]) -> Vec<(String, String)> {
        members(machines, nodes)
            .into_iter()
            .map(|(machine, node)| (machine.to_string(), node.name.clone()))
            .collect()
    }

    fn pair(machine: &str, node: &str) -> (String, String) {
        (machine.to_owned(), node.to_owned())
    }

    #[test]
    fn a_node_is_known_by_its_address() {
        let machines = [machine("m1", 1), machine("m2", 2)];
        let nodes = [node("n2", 2), node("elsewhere", 99)];
        assert_eq!(pairs(&machines, &nodes), [pair("m2", "n2")]);
    }

    #[test]
    fn a_node_that_names_another_machine_is_not_taken_for_this_one() {
        let machines = [machine("m1", 1)];
        let gone = NodeFacts {
            provider_id: Some("butler-local://somebody-else".to_owned()),
            ..node("old", 1)
        };
        assert_eq!(pairs(&machines, std::slice::from_ref(&gone)), []);
        let own = NodeFacts {
            provider_id: Some("butler-local://id-m1".to_owned()),
            ..node("new", 7)
        };
        assert_eq!(pairs(&machines, &[gone, own]), [pair("m1", "new")]);
    }

    #[test]
    fn of_two_nodes_with_one_address_the_one_that_is_ready_is_meant() {
        let dead = NodeFacts {
            ready: false,
            ..node("a-dead", 1)
        };
        assert_eq!(
            pairs(&[machine("m1", 1)], &[dead, node("b-alive", 1)]),
            [pair("m1", "b-alive")]
        );
    }
}

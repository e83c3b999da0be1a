//! Nodes whose machines are gone leave their cluster, as a cloud's controller has it: nobody else knows that they will never
//! come back.
//!
//! Owns: which nodes those are. A node that does not say which machine of this host it is, is nobody's business here.

use std::{collections::BTreeMap, sync::Arc};

use butler_api::{butler::provider_config::Provider, provider_id};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DeleteParams, Preconditions},
};

use crate::{
    hands::{Hands, LocalMachine},
    run::{Memories, Pass},
};

/// Compares nodes with machines.
pub(crate) struct Registry<H> {
    pub(crate) hands: Arc<H>,
    pub(crate) memories: Memories,
    pub(crate) cluster: Client,
}

/// A node that says which machine it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Registered {
    name: String,
    uid: String,
    provider_id: String,
}

/// What is to be done about the nodes of a cluster.
#[derive(Debug, Default, PartialEq, Eq)]
struct Judgement {
    /// Their machines are gone.
    gone: Vec<Registered>,
    /// Whether some machine does not run: it may be about to go.
    unsure: bool,
}

/// The nodes must have been read before the machines: a node that was seen then has had its machine before.
fn judge(nodes: Vec<Registered>, machines: &[LocalMachine]) -> Judgement {
    let of_this_host = provider_id::of_instance(Provider::Local, "");
    let machines: BTreeMap<String, bool> = machines
        .iter()
        .map(|machine| {
            let id = provider_id::of_instance(Provider::Local, &machine.id);
            (id, machine.is_running())
        })
        .collect();
    let mut judgement = Judgement::default();
    for node in nodes {
        match machines.get(&node.provider_id) {
            Some(running) => judgement.unsure |= !running,
            None if node.provider_id.starts_with(&of_this_host) => judgement.gone.push(node),
            None => {}
        }
    }
    judgement
}

impl<H: Hands> Pass for Registry<H> {
    async fn pass(&mut self) -> bool {
        if !self.memories.are_synced() {
            return true;
        }
        let nodes = self.memories.nodes.list();
        let nodes = nodes.iter().filter(|node| !node.facts.deleting);
        let nodes = nodes.filter_map(|node| {
            Some(Registered {
                name: node.value.name.clone(),
                uid: node.facts.uid.clone(),
                provider_id: node.value.provider_id.clone()?,
            })
        });
        let nodes = nodes.collect();
        let machines = match self.hands.machines().await {
            Ok(machines) => machines,
            Err(error) => {
                tracing::warn!(%error, "could not look at the machines; it is tried again");
                return false;
            }
        };
        let judgement = judge(nodes, &machines);
        let mut well = !judgement.unsure;
        for node in judgement.gone {
            well &= self.remove(&node).await;
        }
        well
    }
}

impl<H: Hands> Registry<H> {
    /// Removes one node, and none that took its name meanwhile.
    async fn remove(&self, node: &Registered) -> bool {
        let parameters = DeleteParams::default().preconditions(Preconditions {
            uid: Some(node.uid.clone()),
            resource_version: None,
        });
        let nodes = Api::<Node>::all(self.cluster.clone());
        match nodes.delete(&node.name, &parameters).await {
            Ok(_) => {
                tracing::info!(node = node.name, "a node is removed: its machine is gone");
                true
            }
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => true,
            Err(error) => {
                tracing::warn!(node = node.name, %error, "a node could not be removed; it is tried again");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::machine;

    fn node(name: &str, provider_id: &str) -> Registered {
        Registered {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            provider_id: provider_id.to_owned(),
        }
    }

    #[test]
    fn a_node_leaves_with_its_machine_and_others_stay() {
        let there = machine("m1", 1);
        let of_it = node(
            "there",
            &provider_id::of_instance(Provider::Local, &there.id),
        );
        let gone = node("gone", "butler-local://another");
        let foreign = node("foreign", "aws:///eu-central-1a/i-0abc");
        let judgement = judge(vec![of_it, gone.clone(), foreign], &[there]);
        assert_eq!(judgement.gone, [gone]);
    }
}

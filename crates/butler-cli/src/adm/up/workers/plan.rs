//! What has to be done for the workers that are wished. Nothing is asked or done here.

use butler_host::init::UserDataStage;

/// A worker that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    /// Whether the cluster has its node.
    pub(super) has_node: bool,
    /// How far its machine is with what it was told; nothing if it was told nothing yet.
    pub(super) stage: Option<UserDataStage>,
}

/// What to do, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Machines to delete: too many, or such that never became a node and never will.
    pub(super) remove: Vec<String>,
    /// Machines that have not been told yet: what they will be told is written anew, for a token may have expired.
    pub(super) tell: Vec<String>,
    /// Machines to make.
    pub(super) make: Vec<String>,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is missing between the workers that are there and those that are wished.
pub(super) fn plan(wished: &[String], found: &[Found]) -> Plan {
    let mut plan = Plan::default();
    for worker in found {
        let failed = !worker.has_node && worker.stage == Some(UserDataStage::Failed);
        let untold = !worker.has_node && worker.stage.is_none();
        if failed || !wished.contains(&worker.name) {
            plan.remove.push(worker.name.clone());
        } else if untold {
            plan.tell.push(worker.name.clone());
        }
    }
    let stays = |name: &String| {
        found.iter().any(|worker| worker.name == *name) && !plan.remove.contains(name)
    };
    plan.make = wished.iter().filter(|name| !stays(name)).cloned().collect();
    plan
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn worker(name: &str, has_node: bool, stage: Option<UserDataStage>) -> Found {
        Found {
            name: name.to_owned(),
            has_node,
            stage,
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn workers_that_are_as_wished_are_left_alone() {
        let found = [
            worker("a", true, Some(UserDataStage::Succeeded)),
            worker("b", true, None),
        ];
        assert!(plan(&names(&["a", "b"]), &found).is_empty());
        assert!(plan(&[], &[]).is_empty());
    }

    #[test]
    fn missing_ones_are_made_and_surplus_ones_go() {
        let found = [worker("b", true, Some(UserDataStage::Succeeded))];
        let wished = plan(&names(&["a"]), &found);
        assert_eq!(wished.make, ["a"]);
        assert_eq!(wished.remove, ["b"]);
    }

    #[test]
    fn a_worker_that_could_not_join_is_made_anew() {
        let found = [worker("a", false, Some(UserDataStage::Failed))];
        let wished = plan(&names(&["a"]), &found);
        assert_eq!((wished.remove, wished.make), (names(&["a"]), names(&["a"])));
        // What failed once and is a node by now is a node.
        let found = [worker("a", true, Some(UserDataStage::Failed))];
        assert!(plan(&names(&["a"]), &found).is_empty());
    }

    #[test]
    fn a_worker_that_was_not_told_yet_is_told_with_a_token_that_is_valid() {
        let wished = plan(&names(&["a"]), &[worker("a", false, None)]);
        assert_eq!(wished.tell, ["a"]);
        assert!(wished.make.is_empty() && wished.remove.is_empty());
    }
}

//! When machines began, and whether what the API server says of their pods is from before that.
//!
//! After a host was started anew, every pod is shown as it was until its kubelet says otherwise. Containers end with their
//! machine, so one that is said to run since an earlier time than its machine does not run.

use std::{collections::BTreeMap, fs};

use butler_host::host::{Machine, MachineState};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

/// The kernel counts in hundredths of a second, on every architecture that Butler is built for.
const TICKS: i64 = 100;
/// Kubelet tells whole seconds.
const ROUNDING: SignedDuration = SignedDuration::from_secs(2);

/// When each running machine began, by its name, which is also its node's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Boots(BTreeMap<String, Timestamp>);

impl Boots {
    /// Looks at machines that were just listed.
    pub(crate) fn of(machines: &[Machine]) -> Self {
        let boots = machines.iter().filter_map(|machine| match machine.state {
            MachineState::Running { pid } => Some((machine.name.to_string(), began(pid)?)),
            MachineState::Stopped | MachineState::Broken { .. } => None,
        });
        Self(boots.collect())
    }

    /// Whether all that is said of a pod can be true.
    pub(crate) fn believes(&self, pod: &Pod) -> bool {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        let Some(boot) = node.and_then(|node| self.0.get(node)) else {
            return true;
        };
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        containers.into_iter().flatten().all(|container| {
            let running = container
                .state
                .as_ref()
                .and_then(|state| state.running.as_ref());
            let began = running.and_then(|running| running.started_at.as_ref());
            began.is_none_or(|began| began.0 + ROUNDING >= *boot)
        })
    }
}

/// When a process began.
fn began(pid: u32) -> Option<Timestamp> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    let ticks: i64 = stat
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()?;
    let host = fs::read_to_string("/proc/stat").ok()?;
    let boot: i64 = host
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    Timestamp::from_second(boot.checked_add(ticks / TICKS)?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(started: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "coredns" },
            "spec": { "nodeName": "cp-0", "containers": [] },
            "status": { "containerStatuses": [{
                "name": "coredns", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": started } },
            }] },
        }))
        .unwrap()
    }

    #[test]
    fn a_container_that_is_older_than_its_machine_does_not_run() {
        let boots = Boots(BTreeMap::from([(
            "cp-0".to_owned(),
            "2026-01-02T03:04:05Z".parse().unwrap(),
        )]));
        assert!(!boots.believes(&pod("2026-01-02T03:00:00Z")));
        assert!(
            boots.believes(&pod("2026-01-02T03:04:04Z")),
            "kubelet rounds"
        );
        assert!(boots.believes(&pod("2026-01-02T03:05:00Z")));
        assert!(
            Boots::default().believes(&pod("2026-01-02T03:00:00Z")),
            "nothing is known of the node"
        );
    }

    #[test]
    fn a_process_began_before_now() {
        let now = Timestamp::now() + ROUNDING;
        assert!(began(std::process::id()).unwrap() <= now);
    }
}

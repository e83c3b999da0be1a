//! `butleradm` as an operator uses it: a cluster, a worker more, nothing of it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use butler_api::{butler::machine_request::MachineRequest, keys::names};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::wait::await_condition,
};
use tokio::process::Command;

use super::{
    place::{INSTALLATION as NAME, Place},
    shell::{self, PATIENCE},
};
use crate::progress;

const RANGE: &str = "10.213.117.0/25";
const WORKER: &str = "bench-worker-0";
/// Where Butler's own objects live.
pub(crate) const NAMESPACE: &str = names::SYSTEM_NAMESPACE;
/// How the report of `butleradm doctor` marks what keeps a host from running machines.
const FAILED: &str = "FAIL";

/// How much memory each machine gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// So little that two machines fit into most hosts.
    Little,
    /// What `butleradm` gives unless it is told otherwise; that may be most of the host's.
    Usual,
}

impl Memory {
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Little => &["--memory", "4Gi"],
            Self::Usual => &[],
        }
    }
}

/// How long a worker took.
pub(crate) struct WorkerDurations {
    /// From its request in the API server to its node.
    pub(crate) request_to_ready: Duration,
    /// Of the whole command.
    pub(crate) command: Duration,
}

/// Why this host cannot run machines, if it cannot.
pub(crate) async fn unfit(butleradm: &Path) -> anyhow::Result<Option<String>> {
    let output = shell::program(butleradm, ["--name", NAME, "doctor", "--range", RANGE])
        .output()
        .await
        .with_context(|| format!("could not run {}", butleradm.display()))?;
    let report = String::from_utf8_lossy(&output.stdout);
    Ok((!output.status.success()).then(|| reasons(&report)))
}

fn reasons(report: &str) -> String {
    let failed: Vec<String> = report
        .lines()
        .filter_map(|line| line.strip_prefix(FAILED))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    format!(
        "this host cannot run machines, says butleradm doctor: {}",
        failed.join("; ")
    )
}

/// An installation of our own; gone when dropped.
pub(crate) struct Installation {
    butleradm: PathBuf,
    home: PathBuf,
    state: PathBuf,
    cache: PathBuf,
    memory: Memory,
}

impl Installation {
    /// Nothing is made yet. Assets come from the cache.
    pub(crate) fn new(place: &Place, butleradm: &Path, cache: &Path, memory: Memory) -> Self {
        Self {
            butleradm: butleradm.to_owned(),
            home: place.home(),
            state: place.installations(),
            cache: cache.to_owned(),
            memory,
        }
    }

    /// Makes the cluster, or what is missing of it, and tells how long it took.
    pub(crate) async fn up(&self, further: &[&str]) -> anyhow::Result<Duration> {
        let mut arguments = vec!["up", "--range", RANGE];
        arguments.extend(self.memory.arguments());
        arguments.extend(further);
        let began = Instant::now();
        let mut command = self.butleradm(&arguments);
        let status = tokio::time::timeout(PATIENCE, command.stdout(Stdio::null()).status())
            .await
            .context("butleradm up does not end")?
            .context("could not run butleradm up")?;
        let took = began.elapsed();
        ensure!(
            status.success(),
            "butleradm up ended with {status}; its words are above"
        );
        Ok(took)
    }

    /// Adds a worker to the cluster.
    pub(crate) async fn add_worker(&self) -> anyhow::Result<WorkerDurations> {
        let client = self.client().await?;
        let requests = Api::<MachineRequest>::namespaced(client.clone(), NAMESPACE);
        let watching = async {
            await_condition(requests, WORKER, |found: Option<&MachineRequest>| {
                found.is_some()
            })
            .await
            .context("could not watch the request of the worker")?;
            let requested = Instant::now();
            await_condition(Api::<Node>::all(client), WORKER, is_ready)
                .await
                .context("could not watch the node of the worker")?;
            anyhow::Ok(requested.elapsed())
        };
        let watching = tokio::time::timeout(PATIENCE, watching);
        let watched = async { watching.await.context("the worker does not come")? };
        let (request_to_ready, command) = tokio::try_join!(watched, self.up(&["--workers", "1"]))?;
        Ok(WorkerDurations {
            request_to_ready,
            command,
        })
    }

    /// Removes the installation.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        shell::run(self.butleradm(&["down"])).await.map(drop)
    }

    /// An administrator of the cluster.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let path = self.home.join(format!(".butler/{NAME}-kubeconfig"));
        let kubeconfig = Kubeconfig::read_from(&path)?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    fn butleradm(&self, arguments: &[&str]) -> Command {
        let mut command = shell::program(&self.butleradm, ["--name", NAME, "--state-directory"]);
        command
            .arg(&self.state)
            .args(arguments)
            .env("HOME", &self.home)
            .env("BUTLER_CACHE", &self.cache);
        command
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if !self.state.join(NAME).exists() {
            return;
        }
        progress("removing the installation");
        let mut command = self.butleradm(&["down"]).into_std();
        match command.stdout(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            _ => progress("butleradm down failed; its words are above"),
        }
    }
}

/// Removes what an earlier run has left.
pub(crate) async fn remove_leftovers(place: &Place, butleradm: &Path) -> anyhow::Result<()> {
    let left = Installation::new(place, butleradm, &place.home(), Memory::Usual);
    left.remove().await
}

/// Whether a node is there and can be used.
pub(crate) fn is_ready(node: Option<&Node>) -> bool {
    let status = node.and_then(|node| node.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_host_from_running_machines_is_told_in_one_line() {
        let report = "RESULT  ASPECT    FOUND          FIX\n\
                      FAIL    user      not root       run it as root\n\
                      PASS    kernel    6.1.0\n\
                      WARN    memory    4.0 GiB        more is better\n\
                      FAIL    programs  missing: runc  install them: apt-get install runc\n";
        assert_eq!(
            reasons(report),
            "this host cannot run machines, says butleradm doctor: user not root run it as root; \
             programs missing: runc install them: apt-get install runc"
        );
    }
}

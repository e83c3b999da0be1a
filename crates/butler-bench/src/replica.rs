//! One process of `butler controller` or `butler steward`, and who leads.

use std::{fs::File, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, ensure};
use butler_api::keys::names;
use butler_testkit::{ApiServer, try_eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::process::{Child, Command};

use crate::process::Process;

/// How long anything may take before the measurement is given up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
/// How much of a log is shown when something went wrong.
const LAST_LINES: usize = 10;

/// What a replica is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `butler controller`.
    Controller,
    /// `butler steward`.
    Steward,
}

impl Role {
    /// The subcommand, and where its lease is: in the one namespace that every API server has.
    const fn arguments(self) -> [&'static str; 2] {
        match self {
            Self::Controller => ["controller", "--leader-election-namespace=default"],
            Self::Steward => ["steward", "--pod-namespace=default"],
        }
    }

    const fn lease(self) -> &'static str {
        match self {
            Self::Controller => names::CONTROLLER_LEASE,
            Self::Steward => names::STEWARD_LEASE,
        }
    }
}

/// A running replica; it ends when it is dropped.
pub(crate) struct Replica {
    name: String,
    role: Role,
    child: Child,
    log: PathBuf,
}

impl Replica {
    /// Starts a replica that is known by this name in the lease.
    pub(crate) fn start(
        butler: &std::path::Path,
        server: &ApiServer,
        role: Role,
        name: &str,
    ) -> anyhow::Result<Self> {
        let log = server.directory().join(format!("{name}.log"));
        let stderr =
            File::create(&log).with_context(|| format!("could not write {}", log.display()))?;
        let child = Command::new(butler)
            .args(role.arguments())
            .args([
                "--metrics-bind-address=0",
                "--health-probe-bind-address=0",
                "--kubeconfig",
            ])
            .arg(server.kubeconfig())
            .env("POD_NAME", name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("could not start {}", butler.display()))?;
        Ok(Self {
            name: name.to_owned(),
            role,
            child,
            log,
        })
    }

    /// Waits until it leads.
    pub(crate) async fn leads(&self, leases: &Api<Lease>) -> anyhow::Result<()> {
        let wait = try_eventually(
            leases,
            self.role.lease(),
            "the replica leads",
            PATIENCE,
            |lease| lease.is_some_and(|lease| self.holds(lease)),
        );
        wait.await
            .map(drop)
            .with_context(|| format!("the log of {} ends with:\n{}", self.name, self.log_end()))
    }

    /// Whether a lease names it as its holder.
    pub(crate) fn holds(&self, lease: &Lease) -> bool {
        holder(lease).is_some_and(|holder| holder.starts_with(&self.name))
    }

    /// Asks it to stop, as Kubernetes does.
    pub(crate) async fn ask_to_stop(&self) -> anyhow::Result<()> {
        let asked = Command::new("kill")
            .args(["-TERM", &self.process_id()?.to_string()])
            .status();
        ensure!(
            asked.await.context("could not run kill")?.success(),
            "could not ask {} to stop",
            self.name
        );
        Ok(())
    }

    /// Waits for its end after it was asked to stop.
    pub(crate) async fn ended(mut self) -> anyhow::Result<()> {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = status.with_context(|| format!("{} does not stop", self.name))??;
        ensure!(
            status.success(),
            "{} ended with {status}; its log ends with:\n{}",
            self.name,
            self.log_end()
        );
        Ok(())
    }

    /// What the kernel knows of it.
    pub(crate) fn process(&self) -> anyhow::Result<Process> {
        self.process_id().map(Process)
    }

    fn process_id(&self) -> anyhow::Result<u32> {
        self.child.id().with_context(|| {
            format!(
                "{} has ended; its log ends with:\n{}",
                self.name,
                self.log_end()
            )
        })
    }

    /// The last lines of its log.
    pub(crate) fn log_end(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines
            .get(lines.len().saturating_sub(LAST_LINES)..)
            .unwrap_or_default()
            .join("\n")
    }
}

/// Who holds a lease; a lease that was given back has no holder.
pub(crate) fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

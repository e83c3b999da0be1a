//! Helm as the rest of Butler uses it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use butler_api::name::NamespaceName;

use crate::arguments::{self, Run};
use crate::error::{self, HelmError, Refusal};
use crate::release::{Release, ReleaseName};
use crate::report::{self, ReleaseReport, ReleaseSummary, last_good};
use crate::run::{self, Ended};
use crate::values::Values;

/// Asking a cluster, or rendering, takes no longer.
const QUICK: Duration = Duration::from_mins(2);
/// Helm's own timeout is for one step of several, and it tidies up when it is over.
const BEYOND_TIMEOUT: Duration = Duration::from_mins(2);
/// Objects are removed, and what was left is rolled back, within this.
const RECOVERY: Duration = Duration::from_mins(5);

/// Helm for one cluster.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    home: PathBuf,
    kubeconfig: PathBuf,
}

/// How a release is upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Whether to wait until the objects are ready.
    pub wait: bool,
    /// How long each step may take.
    pub timeout: Duration,
    /// What to do about a release that somebody left half done.
    pub interrupted: Interrupted,
}

impl Upgrade {
    /// Without waiting for the objects to become ready.
    pub const fn without_waiting(timeout: Duration) -> Self {
        Self {
            wait: false,
            timeout,
            interrupted: Interrupted::Refuse,
        }
    }

    /// Until the objects are ready.
    pub const fn waiting(timeout: Duration) -> Self {
        Self {
            wait: true,
            ..Self::without_waiting(timeout)
        }
    }

    /// The same, and a release that was left half done is taken over.
    #[must_use]
    pub const fn taking_over(self) -> Self {
        Self {
            interrupted: Interrupted::TakeOver,
            ..self
        }
    }
}

/// What to do about a release on which an operation has begun and not ended. Helm cannot tell one that runs from one whose
/// process is gone: only who knows that nobody else is at work may take over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interrupted {
    /// Leave it, and fail with [`Refusal::InProgress`].
    #[default]
    Refuse,
    /// Remove a first install that was not finished, go back from an upgrade that was not, and begin anew.
    TakeOver,
}

impl Helm {
    /// The helm at `program` for the cluster of `kubeconfig`. All that helm keeps for itself goes to the directory `home`, which
    /// is made when it is needed.
    pub fn new(
        program: impl Into<PathBuf>,
        home: impl Into<PathBuf>,
        kubeconfig: impl Into<PathBuf>,
    ) -> Self {
        Self {
            program: program.into(),
            home: home.into(),
            kubeconfig: kubeconfig.into(),
        }
    }

    /// Installs a release, or brings it to what is wanted. The namespace is made if there is none.
    pub async fn upgrade(
        &self,
        release: &Release,
        upgrade: &Upgrade,
    ) -> Result<ReleaseReport, HelmError> {
        let first = self.upgrade_once(release, upgrade, Run::Real).await;
        let (report, _) = match first {
            Err(error)
                if error.refusal() == Some(Refusal::InProgress)
                    && upgrade.interrupted == Interrupted::TakeOver =>
            {
                self.take_over(&release.name).await?;
                self.upgrade_once(release, upgrade, Run::Real).await?
            }
            first => first?,
        };
        tracing::debug!(release = %release.name, revision = report.revision, "the release is deployed");
        Ok(report)
    }

    /// The objects that [`Helm::upgrade`] would apply, as YAML, after the API server was asked. Changes nothing; Secrets are
    /// left out.
    pub async fn dry_run(&self, release: &Release) -> Result<String, HelmError> {
        let upgrade = Upgrade::without_waiting(QUICK);
        let (_, manifest) = self.upgrade_once(release, &upgrade, Run::Dry).await?;
        Ok(manifest)
    }

    /// The objects of a release as YAML. No cluster is asked.
    pub async fn template(&self, release: &Release) -> Result<String, HelmError> {
        let call = Call {
            doing: format!("rendering the chart {}", release.chart),
            arguments: arguments::template(&release.name, &release.chart),
            values: Some(&release.values),
            limit: QUICK,
        };
        let output = self.call(call).await?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// What helm knows of a release; `None` if there is none.
    pub async fn status(&self, name: &ReleaseName) -> Result<Option<ReleaseReport>, HelmError> {
        let doing = format!("asking for the release {name}");
        let call = Call::asking(&doing, arguments::status(name));
        match self.call(call).await {
            Err(error) if error.refusal() == Some(Refusal::ReleaseNotFound) => Ok(None),
            Err(error) => Err(error),
            Ok(output) => read(&doing, report::release(&output)).map(|(report, _)| Some(report)),
        }
    }

    /// All releases of a namespace, or of all.
    pub async fn list(
        &self,
        namespace: Option<&NamespaceName>,
    ) -> Result<Vec<ReleaseSummary>, HelmError> {
        let doing = "listing the releases";
        let arguments = arguments::list(namespace.map(NamespaceName::as_str));
        let output = self.call(Call::asking(doing, arguments)).await?;
        read(doing, report::releases(&output))
    }

    /// Removes a release, and waits until its objects are gone. It is fine if there is none.
    pub async fn uninstall(&self, name: &ReleaseName, timeout: Duration) -> Result<(), HelmError> {
        let call = Call {
            doing: format!("uninstalling the release {name}"),
            arguments: arguments::uninstall(name, true, timeout),
            values: None,
            limit: timeout.saturating_add(BEYOND_TIMEOUT),
        };
        self.call(call).await.map(drop)
    }

    async fn upgrade_once(
        &self,
        release: &Release,
        upgrade: &Upgrade,
        run: Run,
    ) -> Result<(ReleaseReport, String), HelmError> {
        let Release {
            name,
            chart,
            values,
        } = release;
        let doing = match run {
            Run::Real => format!("installing {chart} as release {name}"),
            Run::Dry => format!("trying whether {chart} can be installed as release {name}"),
        };
        let call = Call {
            arguments: arguments::upgrade(name, chart, upgrade.wait, upgrade.timeout, run),
            values: Some(values),
            limit: upgrade.timeout.saturating_add(BEYOND_TIMEOUT),
            doing: doing.clone(),
        };
        let output = self.call(call).await?;
        read(&doing, report::release(&output))
    }

    /// Brings a release that was left half done to where an upgrade can begin. It waits for nothing to become ready: what was
    /// left may never.
    async fn take_over(&self, name: &ReleaseName) -> Result<(), HelmError> {
        let doing = format!("reading the history of the release {name}");
        let output = self
            .call(Call::asking(&doing, arguments::history(name)))
            .await?;
        let history = read(&doing, report::history(&output))?;
        let last = history.iter().max_by_key(|revision| revision.revision);
        let removed = last.is_some_and(|last| last.phase == report::ReleasePhase::Uninstalling);
        let good = last_good(&history).filter(|_| !removed);
        tracing::warn!(release = %name, ?good, "the release was left half done; it is taken over");
        let (doing, arguments) = match good {
            Some(revision) => (
                format!("rolling the release {name} back to revision {revision}"),
                arguments::rollback(name, revision, RECOVERY),
            ),
            None => (
                format!("removing what was left of the release {name}"),
                arguments::uninstall(name, true, RECOVERY),
            ),
        };
        let call = Call {
            doing,
            arguments,
            values: None,
            limit: RECOVERY.saturating_add(BEYOND_TIMEOUT),
        };
        self.call(call).await.map(drop)
    }

    async fn call(&self, call: Call<'_>) -> Result<Vec<u8>, HelmError> {
        let Call {
            doing,
            mut arguments,
            values,
            limit,
        } = call;
        // Behind the verb, before the names.
        arguments.insert(1, arguments::kubeconfig(&self.kubeconfig));
        let input = values.map(Values::document);
        let input = input.as_deref();
        let run = run::run(&self.program, &self.home, &arguments, input, &doing, limit);
        let Ended {
            status,
            stdout,
            stderr,
        } = run.await?;
        if status.success() {
            return Ok(stdout);
        }
        let mut words = error::words(&stderr);
        if words.is_empty() {
            words = format!("helm ended with {status} and said nothing");
        }
        let kind = Refusal::of(&words);
        let words = values.map_or_else(|| words.clone(), |values| values.scrub(&words));
        Err(HelmError::Refused { doing, kind, words })
    }
}

/// One call of helm.
struct Call<'a> {
    doing: String,
    arguments: Vec<OsString>,
    values: Option<&'a Values>,
    limit: Duration,
}

impl Call<'_> {
    /// A call that only asks.
    fn asking(doing: &str, arguments: Vec<OsString>) -> Self {
        Self {
            doing: doing.to_owned(),
            arguments,
            values: None,
            limit: QUICK,
        }
    }
}

fn read<T>(doing: &str, parsed: Result<T, serde_json::Error>) -> Result<T, HelmError> {
    parsed.map_err(|source| HelmError::Answer {
        doing: doing.to_owned(),
        source,
    })
}

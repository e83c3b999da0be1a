//! The command lines of helm. Pure; names and charts come last, behind `--`, so that none is taken for a flag.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::release::{ChartSource, ReleaseName};

/// How many revisions of a release helm keeps.
const HISTORY: &str = "5";

/// What an upgrade may do to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// Everything.
    Real,
    /// Nothing: the API server is asked what it would say.
    Dry,
}

/// `helm upgrade --install`.
pub(crate) fn upgrade(
    name: &ReleaseName,
    chart: &ChartSource,
    wait: bool,
    timeout: Duration,
    run: Run,
) -> Vec<OsString> {
    let mut line = Line::new("upgrade").namespace(name);
    line.flags(&["--install", "--create-namespace", "--values=-"]);
    line.flags(&[&format!("--history-max={HISTORY}"), "--output=json"]);
    line.flags(&[&timeout_flag(timeout)]);
    if wait {
        line.flags(&["--wait"]);
    }
    if run == Run::Dry {
        line.flags(&["--dry-run=server", "--hide-secret"]);
    }
    line.chart(name, chart)
}

/// `helm template`, which asks no cluster.
pub(crate) fn template(name: &ReleaseName, chart: &ChartSource) -> Vec<OsString> {
    let mut line = Line::new("template").namespace(name);
    line.flags(&["--values=-"]);
    line.chart(name, chart)
}

/// `helm status`.
pub(crate) fn status(name: &ReleaseName) -> Vec<OsString> {
    let mut line = Line::new("status").namespace(name);
    line.flags(&["--output=json"]);
    line.names(&[name.name.as_str()])
}

/// `helm history`.
pub(crate) fn history(name: &ReleaseName) -> Vec<OsString> {
    let mut line = Line::new("history").namespace(name);
    line.flags(&["--output=json"]);
    line.names(&[name.name.as_str()])
}

/// `helm list`, of all namespaces or one. Every release is in it that is not gone.
pub(crate) fn list(namespace: Option<&str>) -> Vec<OsString> {
    let mut line = Line::new("list");
    match namespace {
        Some(namespace) => line.flags(&[&format!("--namespace={namespace}")]),
        None => line.flags(&["--all-namespaces"]),
    }
    line.flags(&["--deployed", "--failed", "--pending", "--uninstalling"]);
    line.flags(&["--max=0", "--output=json"]);
    line.0
}

/// `helm rollback`.
pub(crate) fn rollback(name: &ReleaseName, revision: u32, timeout: Duration) -> Vec<OsString> {
    let mut line = Line::new("rollback").namespace(name);
    line.flags(&[&timeout_flag(timeout)]);
    line.names(&[name.name.as_str(), &revision.to_string()])
}

/// `helm uninstall`; it succeeds when there is nothing to uninstall.
pub(crate) fn uninstall(name: &ReleaseName, wait: bool, timeout: Duration) -> Vec<OsString> {
    let mut line = Line::new("uninstall").namespace(name);
    line.flags(&["--ignore-not-found", &timeout_flag(timeout)]);
    if wait {
        line.flags(&["--wait"]);
    }
    line.names(&[name.name.as_str()])
}

/// The flag that names the cluster, which every call gets.
pub(crate) fn kubeconfig(path: &Path) -> OsString {
    let mut flag = OsString::from("--kubeconfig=");
    flag.push(path);
    flag
}

/// Helm takes no fractions smaller than it can wait for; less than a second is a second.
fn timeout_flag(timeout: Duration) -> String {
    format!("--timeout={}s", timeout.as_secs().max(1))
}

struct Line(Vec<OsString>);

impl Line {
    fn new(verb: &str) -> Self {
        Self(vec![verb.into()])
    }

    fn namespace(mut self, name: &ReleaseName) -> Self {
        self.flags(&[&format!("--namespace={}", name.namespace)]);
        self
    }

    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(OsString::from));
    }

    fn names(mut self, names: &[&str]) -> Vec<OsString> {
        self.flags(&["--"]);
        self.flags(names);
        self.0
    }

    fn chart(mut self, name: &ReleaseName, chart: &ChartSource) -> Vec<OsString> {
        let chart: OsString = match chart {
            ChartSource::Path(path) => path.into(),
            ChartSource::Repository { url, name, version } => {
                self.flags(&[&format!("--repo={url}"), &format!("--version={version}")]);
                name.into()
            }
            ChartSource::Registry { reference, version } => {
                self.flags(&[&format!("--version={version}")]);
                reference.into()
            }
        };
        let mut line = self.names(&[name.name.as_str()]);
        line.push(chart);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE_MINUTES: Duration = Duration::from_mins(5);

    fn name() -> ReleaseName {
        ReleaseName::new("butler-system".parse().unwrap(), "butler".parse().unwrap())
    }

    fn text(line: &[OsString]) -> String {
        let words: Vec<_> = line.iter().map(|word| word.to_string_lossy()).collect();
        words.join("\n")
    }

    #[test]
    fn an_upgrade_of_a_chart_on_this_host_waits() {
        let chart = ChartSource::Path("charts/butler".into());
        let line = upgrade(&name(), &chart, true, FIVE_MINUTES, Run::Real);
        insta::assert_snapshot!(text(&line));
    }

    #[test]
    fn a_dry_run_of_a_chart_in_a_repository_hides_secrets() {
        let chart = ChartSource::Repository {
            url: "https://charts.example.com".to_owned(),
            name: "cilium".to_owned(),
            version: "1.18.0".to_owned(),
        };
        let line = upgrade(&name(), &chart, false, Duration::from_millis(10), Run::Dry);
        insta::assert_snapshot!(text(&line));
    }

    #[test]
    fn a_chart_of_a_registry_is_rendered() {
        let chart = ChartSource::Registry {
            reference: "oci://registry.example.com/charts/cilium".to_owned(),
            version: "~1.18".to_owned(),
        };
        insta::assert_snapshot!(text(&template(&name(), &chart)));
    }

    #[test]
    fn releases_are_read_and_removed() {
        let lines = [
            status(&name()),
            history(&name()),
            list(None),
            list(Some("butler-system")),
            rollback(&name(), 3, FIVE_MINUTES),
            uninstall(&name(), true, FIVE_MINUTES),
            uninstall(&name(), false, FIVE_MINUTES),
        ];
        insta::assert_snapshot!(lines.map(|line| text(&line).replace('\n', " ")).join("\n"));
    }
}

//! Failures, classed by what a person does about them. Helm's own words are part of every one that helm caused.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why helm did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// Helm cannot be started.
    #[error("could not start helm at {program}; give the path of a helm that runs on this host", program = program.display())]
    Start {
        /// Its path.
        program: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The directory for helm's own files cannot be made.
    #[error("could not make the directory {path} for helm's cache; give one that can be written to", path = path.display())]
    Home {
        /// The directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// What helm wrote cannot be read.
    #[error("{doing}, helm answered what cannot be read; is it helm 3 or 4?")]
    Answer {
        /// What was being done.
        doing: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// Helm did not end in time and was stopped.
    #[error(
        "{doing}, helm did not end within {limit:?} and was stopped; is the API server overloaded?"
    )]
    Stuck {
        /// What was being done.
        doing: String,
        /// How long was waited.
        limit: Duration,
    },
    /// Helm said no.
    #[error("{doing}: {words}; {advice}", advice = kind.advice())]
    Refused {
        /// What was being done.
        doing: String,
        /// What kind of failure it is.
        kind: Refusal,
        /// What helm said, without secret values.
        words: String,
    },
}

impl HelmError {
    /// The kind of failure, if helm said no.
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { kind, .. } => Some(*kind),
            _ => None,
        }
    }
}

/// The kinds of failures that people do different things about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// There is no such chart.
    ChartNotFound,
    /// The chart does not take these values.
    InvalidValues,
    /// The chart makes what cannot be read.
    InvalidChart,
    /// Somebody else is at work on the release, or was when they ended.
    InProgress,
    /// What was installed did not become ready in time.
    NotReady,
    /// An object exists that the release did not make.
    Ownership,
    /// We may not do that.
    Forbidden,
    /// The API server does not take an object.
    InvalidObject,
    /// The API server cannot be reached, or does not know us.
    Unreachable,
    /// There is no such release.
    ReleaseNotFound,
    /// Anything else.
    Other,
}

/// What helm says, what it means; the first that fits.
const MEANINGS: [(&str, Refusal); 25] = [
    ("release: not found", Refusal::ReleaseNotFound),
    (
        "another operation (install/upgrade/rollback) is in progress",
        Refusal::InProgress,
    ),
    ("has no deployed releases", Refusal::InProgress),
    (
        "values don't meet the specifications of the schema",
        Refusal::InvalidValues,
    ),
    ("failed to parse -", Refusal::InvalidValues),
    ("execution error at (", Refusal::InvalidValues),
    (
        "cannot be imported into the current release",
        Refusal::Ownership,
    ),
    ("cluster unreachable", Refusal::Unreachable),
    (
        "connection refused - error from a previous attempt",
        Refusal::Unreachable,
    ),
    ("is forbidden", Refusal::Forbidden),
    ("Unauthorized", Refusal::Unreachable),
    ("context deadline exceeded", Refusal::NotReady),
    ("timed out waiting", Refusal::NotReady),
    ("unable to detect chart at", Refusal::ChartNotFound),
    ("is not a valid chart repository", Refusal::ChartNotFound),
    (
        "non-absolute URLs should be in form",
        Refusal::ChartNotFound,
    ),
    (
        "failed to perform \"FetchReference\"",
        Refusal::ChartNotFound,
    ),
    ("Chart.yaml file is missing", Refusal::ChartNotFound),
    ("parse error at (", Refusal::InvalidChart),
    ("YAML parse error on", Refusal::InvalidChart),
    ("unable to build kubernetes objects", Refusal::InvalidChart),
    ("is invalid: ", Refusal::InvalidObject),
    (
        "failed to create typed patch object",
        Refusal::InvalidObject,
    ),
    ("strict decoding error", Refusal::InvalidObject),
    ("not found in https://", Refusal::ChartNotFound),
];

impl Refusal {
    /// What words of helm's mean.
    pub(crate) fn of(words: &str) -> Self {
        // `path "charts/none" not found` is a chart, not an object.
        if words.starts_with("path \"") && words.ends_with("not found") {
            return Self::ChartNotFound;
        }
        let known = MEANINGS.iter().find(|(part, _)| words.contains(part));
        known.map_or(Self::Other, |(_, kind)| *kind)
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::ChartNotFound => {
                "check the path, or the repository, name and version of the chart"
            }
            Self::InvalidValues => "correct the values",
            Self::InvalidChart => "the chart is broken, or made for another version of Kubernetes",
            Self::InProgress => {
                "wait until it has ended, or take the release over if whoever began is gone"
            }
            Self::NotReady => "look at its pods and their events, or allow more time",
            Self::Ownership => "remove the object, or install under the name it belongs to",
            Self::Forbidden => "use a kubeconfig of somebody who may",
            Self::InvalidObject => {
                "correct the values, or use a chart for this version of Kubernetes"
            }
            Self::Unreachable => "check the kubeconfig and whether the API server runs",
            Self::ReleaseNotFound => "check its name and namespace",
            Self::Other => "run it again with a log of more detail if that says too little",
        }
    }
}

/// What helm puts around its words.
const PREFIXES: [&str; 3] = ["Error: ", "UPGRADE FAILED: ", "INSTALLATION FAILED: "];
const HINT: &str = "Use --debug flag to render out invalid YAML";

/// What helm means to say: its last error, without the log lines that say the same before it.
pub(crate) fn words(stderr: &str) -> String {
    let said = stderr.trim();
    let last = said.rfind("\nError: ").map(|line_end| line_end + 1);
    let said = last.and_then(|start| said.get(start..)).unwrap_or(said);
    let said = PREFIXES.iter().fold(said, |said, prefix| {
        said.strip_prefix(prefix).unwrap_or(said)
    });
    said.strip_suffix(HINT).unwrap_or(said).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_last_error_counts_and_not_the_log_before_it() {
        let stderr = "level=WARN msg=\"upgrade failed\" error=\"no\"\nError: UPGRADE FAILED: resource Deployment/a/b not \
                      ready. status: InProgress\ncontext deadline exceeded\n";
        let words = words(stderr);
        let expected =
            "resource Deployment/a/b not ready. status: InProgress\ncontext deadline exceeded";
        assert_eq!(words, expected);
        assert_eq!(Refusal::of(&words), Refusal::NotReady);
    }

    #[test]
    fn words_that_are_no_error_are_kept() {
        assert_eq!(words("signal: killed\n"), "signal: killed");
        assert_eq!(Refusal::of("signal: killed"), Refusal::Other);
        assert_eq!(words(""), "");
    }

    #[test]
    fn a_chart_that_refuses_values_by_itself_is_heard() {
        let stderr = "Error: execution error at (butler/templates/providers.yaml:2:4): providers.local: no\n\n\
                      Use --debug flag to render out invalid YAML\n";
        let words = words(stderr);
        assert_eq!(
            words,
            "execution error at (butler/templates/providers.yaml:2:4): providers.local: no"
        );
        assert_eq!(Refusal::of(&words), Refusal::InvalidValues);
    }

    #[test]
    fn people_read_what_was_done_what_went_wrong_and_what_to_do() {
        let error = HelmError::Refused {
            doing: "upgrading the release a/b".to_owned(),
            kind: Refusal::of("path \"charts/none\" not found"),
            words: "path \"charts/none\" not found".to_owned(),
        };
        assert_eq!(
            error.to_string(),
            "upgrading the release a/b: path \"charts/none\" not found; \
             check the path, or the repository, name and version of the chart"
        );
    }
}

//! Tests that this machine cannot run say so, instead of passing in silence.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;

/// The environment variable that names the file to which skipped tests are written, one per line.
pub const LOG_VARIABLE: &str = "BUTLER_SKIP_LOG";

/// Something a test needs of the machine: whether it is there, and what to say if not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    missing: Option<String>,
}

impl Requirement {
    /// A requirement that is met, or not met for a reason.
    pub fn new(met: bool, reason: impl Into<String>) -> Self {
        Self {
            missing: (!met).then(|| reason.into()),
        }
    }

    /// What is to be said about a test that has this requirement; says it to nobody.
    pub fn check(self, test: &str) -> Result<(), Skipped> {
        self.missing.map_or(Ok(()), |reason| {
            Err(Skipped {
                test: test.to_owned(),
                reason,
            })
        })
    }
}

/// The test runs as root.
pub fn root() -> Requirement {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // "Uid: real effective saved file-system"
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|identifiers| identifiers.split_whitespace().nth(1));
    Requirement::new(effective == Some("0"), "needs root")
}

/// A program of this name is on the search path.
pub fn command(name: &str) -> Requirement {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    Requirement::new(found, format!("needs the command {name}"))
}

/// A file or directory exists.
pub fn path(path: &str) -> Requirement {
    Requirement::new(std::path::Path::new(path).exists(), format!("needs {path}"))
}

/// The reason why a test does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Which test.
    pub test: String,
    /// What the machine lacks.
    pub reason: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SKIPPED {}: {}", self.test, self.reason)
    }
}

impl std::error::Error for Skipped {}

/// Says, on standard error and in the file of [`LOG_VARIABLE`], that a test is skipped, unless the requirement is met.
/// Tests write [`requires!`](crate::requires), which knows their name.
pub fn unless(test: &str, requirement: Requirement) -> Result<(), Skipped> {
    let Err(skipped) = requirement.check(test) else {
        return Ok(());
    };
    // Past the capture of the test harness, which hides the output of tests that end well.
    let mut everywhere: Vec<Box<dyn std::io::Write>> = vec![Box::new(std::io::stderr())];
    if let Some(path) = std::env::var_os(LOG_VARIABLE)
        && let Ok(file) = OpenOptions::new().create(true).append(true).open(path)
    {
        everywhere.push(Box::new(file));
    }
    for place in &mut everywhere {
        // One write per line, so that tests which skip at the same time do not mix their words. A place that cannot be
        // written to must not turn a skipped test into a failed one.
        let _ = place.write_all(format!("{skipped}\n").as_bytes());
    }
    Err(skipped)
}

/// Returns from the test, reporting it as skipped, unless the machine has all that is named.
///
/// ```no_run
/// use butler_testkit::{requires, skip};
///
/// fn machine_boots() {
///     requires!(skip::root(), skip::command("runc"));
///     // Here the machine can boot.
/// }
/// # machine_boots();
/// ```
#[macro_export]
macro_rules! requires {
    ($($requirement:expr),+ $(,)?) => {
        {
            fn here() {}
            let test = $crate::skip::name_of(&here);
            $(
                if $crate::skip::unless(&test, $requirement).is_err() {
                    return;
                }
            )+
        }
    };
}

/// The name of the test in which the marker function was declared.
#[doc(hidden)]
pub fn name_of<T>(marker: &T) -> String {
    let path = std::any::type_name_of_val(marker);
    let path = path.strip_suffix("::here").unwrap_or(path);
    // An asynchronous test is a closure inside of its function.
    path.strip_suffix("::{{closure}}")
        .unwrap_or(path)
        .to_owned()
}

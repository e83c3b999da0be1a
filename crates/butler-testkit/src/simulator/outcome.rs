//! How a run of a simulation ended.

use std::{fmt, sync::Arc};

use butler_runtime::object::Kind;
use serde_json::Value;

use super::{log::Log, operation::WriteRequest, store::ObjectStore};

/// A world at rest.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The objects.
    pub store: ObjectStore,
    /// How many steps this run took.
    pub steps: u64,
    /// The write requests of this run.
    pub writes: Vec<WriteRequest>,
}

impl Outcome {
    /// The objects of a kind, in the order of their keys.
    pub fn objects(&self, kind: &Kind) -> Vec<Arc<Value>> {
        self.store.objects(kind)
    }

    /// The write requests of this run by a client or a field manager.
    pub fn writes_by(&self, name: &str) -> Vec<&WriteRequest> {
        let by =
            |write: &&WriteRequest| write.client == name || write.manager.as_deref() == Some(name);
        self.writes.iter().filter(by).collect()
    }
}

/// What is wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// An invariant does not hold.
    Broken {
        /// Its name.
        invariant: String,
        /// Why it does not hold.
        message: String,
    },
    /// It did not come to rest within its steps.
    Restless,
}

/// A run that went wrong, with all that is needed to see it again.
#[derive(Clone, PartialEq, Eq)]
pub struct Failed {
    /// The seed that shows it.
    pub seed: u64,
    /// The step at which it showed.
    pub step: u64,
    /// What is wrong.
    pub problem: Problem,
    /// What happened until then.
    pub log: Log,
}

/// How much of the log an error shows.
const SHOWN_LINES: usize = 40;

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed, step, log, ..
        } = self;
        match &self.problem {
            Problem::Broken { invariant, message } => {
                writeln!(
                    formatter,
                    "seed {seed}, step {step}: {invariant} does not hold: {message}"
                )?;
            }
            Problem::Restless => writeln!(formatter, "seed {seed}: no rest after {step} steps")?,
        }
        write!(formatter, "the last steps were\n{}", log.tail(SHOWN_LINES))
    }
}

// Tests end with `?` or `unwrap`, which print by Debug; the log is what the reader needs.
impl fmt::Debug for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for Failed {}

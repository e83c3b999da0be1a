//! The log of a simulation: one line for each step that can be seen.

use std::fmt;

use jiff::Timestamp;

use super::store::EPOCH;

/// What happened, step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log(Vec<String>);

impl Log {
    pub(super) fn say(&mut self, step: u64, now: Timestamp, who: &str, what: &str) {
        let since = now.duration_since(EPOCH).as_secs_f64();
        self.0.push(format!("#{step} t=+{since:.1}s {who} {what}"));
    }

    /// All lines.
    pub fn lines(&self) -> &[String] {
        &self.0
    }

    /// The last lines.
    #[must_use]
    pub fn tail(&self, lines: usize) -> Self {
        let start = self.0.len().saturating_sub(lines);
        Self(self.0.iter().skip(start).cloned().collect())
    }
}

impl fmt::Display for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|line| writeln!(formatter, "{line}"))
    }
}

//! What an examination found.

use std::fmt;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider does what it should.
    Passed,
    /// The provider does not have what the case is about.
    Skipped(String),
    /// The provider breaks the contract.
    Failed(String),
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseReport {
    /// Its name: what should be so.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
}

/// All cases, in the order in which they were run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The cases.
    pub cases: Vec<CaseReport>,
}

impl Report {
    /// Whether no case failed.
    pub fn passed(&self) -> bool {
        self.failures().is_empty()
    }

    /// Names of the cases that failed.
    pub fn failures(&self) -> Vec<&'static str> {
        let failed = self.cases.iter();
        failed
            .filter(|case| matches!(case.outcome, Outcome::Failed(_)))
            .map(|case| case.name)
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CaseReport { name, outcome } in &self.cases {
            match outcome {
                Outcome::Passed => writeln!(formatter, "PASS {name}")?,
                Outcome::Skipped(why) => writeln!(formatter, "SKIP {name}: {why}")?,
                Outcome::Failed(why) => writeln!(formatter, "FAIL {name}: {why}")?,
            }
        }
        Ok(())
    }
}

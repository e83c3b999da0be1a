//! What was measured, what we hold ourselves to, and how it is shown.

use std::{fmt, time::Duration};

use serde::Serialize;
use serde_json::json;

use crate::Measurement;

/// What a number counts.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Unit {
    #[serde(rename = "MB")]
    Megabytes,
    #[serde(rename = "MiB")]
    Mebibytes,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "% of a core")]
    PercentOfCore,
    /// So many times as much as something measured beside it.
    #[serde(rename = "×")]
    Ratio,
    #[serde(rename = "")]
    Count,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Megabytes => format!("{value:.1} MB"),
            Self::Mebibytes => format!("{value:.3} MiB"),
            Self::Seconds => format!("{value:.2} s"),
            Self::Milliseconds => format!("{value:.2} ms"),
            Self::Nanoseconds => format!("{value:.0} ns"),
            Self::PercentOfCore => format!("{value:.2} % of a core"),
            Self::Ratio => format!("{value:.3} ×"),
            Self::Count => {
                let text = format!("{value:.2}");
                text.strip_suffix(".00").unwrap_or(&text).to_owned()
            }
        }
    }
}

/// What we hold ourselves to.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Bar {
    AtMost(f64),
    Below(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Met,
    Missed,
    /// There is no bar.
    Information,
}

/// What came of a measurement that went well.
#[derive(Debug)]
pub(crate) enum Outcome {
    Measured(Vec<Row>),
    /// This machine cannot do the rest, and why.
    Partly(Vec<Row>, String),
    /// This machine cannot do it, and why.
    Skipped(String),
}

/// One number.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    what: String,
    value: f64,
    unit: Unit,
    bar: Option<Bar>,
    verdict: Verdict,
}

impl Row {
    /// A number for information.
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self {
            what: what.into(),
            value,
            unit,
            bar: None,
            verdict: Verdict::Information,
        }
    }

    /// A duration in milliseconds.
    pub(crate) fn milliseconds(what: impl Into<String>, duration: Duration) -> Self {
        Self::new(what, duration.as_secs_f64() * 1e3, Unit::Milliseconds)
    }

    /// How many times as long as something else.
    pub(crate) fn ratio(what: impl Into<String>, duration: Duration, other: Duration) -> Self {
        Self::new(
            what,
            duration.as_secs_f64() / other.as_secs_f64(),
            Unit::Ratio,
        )
    }

    /// A duration in seconds.
    pub(crate) fn seconds(what: impl Into<String>, duration: Duration) -> Self {
        Self::new(what, duration.as_secs_f64(), Unit::Seconds)
    }

    /// A count.
    pub(crate) fn count(what: impl Into<String>, count: usize) -> Self {
        Self::new(what, number(count), Unit::Count)
    }

    /// The same, held to a bar.
    pub(crate) fn held_to(mut self, bar: Bar) -> Self {
        let met = match bar {
            Bar::AtMost(bar) => self.value <= bar,
            Bar::Below(bar) => self.value < bar,
        };
        self.bar = Some(bar);
        self.verdict = if met { Verdict::Met } else { Verdict::Missed };
        self
    }

    fn cells(&self) -> [String; 4] {
        let bar = self.bar.map_or_else(String::new, |bar| match bar {
            Bar::AtMost(bar) => format!("≤ {bar}"),
            Bar::Below(bar) => format!("< {bar}"),
        });
        let verdict = match self.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::Information => "",
        };
        [
            self.what.clone(),
            self.unit.show(self.value),
            bar,
            verdict.to_owned(),
        ]
    }
}

/// A count as a number to calculate with.
pub(crate) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// The middle of some durations.
pub(crate) fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations
        .get(durations.len() / 2)
        .copied()
        .unwrap_or_default()
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Section {
    name: Measurement,
    rows: Vec<Row>,
    /// Why this machine is not one to measure it on.
    skipped: Option<String>,
    /// Why it could not be measured.
    error: Option<String>,
}

/// Everything that was measured in one run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    cores: usize,
    memory_gibibytes: f64,
    /// Whether this is a release build.
    pub(crate) optimised: bool,
    measurements: Vec<Section>,
}

impl Report {
    /// An empty report that describes the machine.
    pub(crate) fn of_this_machine() -> Self {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gibibytes: kibibytes(&memory, "MemTotal:").unwrap_or_default() / 1024.0 / 1024.0,
            optimised: !cfg!(debug_assertions),
            measurements: Vec::new(),
        }
    }

    /// Adds what came of a measurement.
    pub(crate) fn add(&mut self, name: Measurement, outcome: anyhow::Result<Outcome>) {
        let (rows, skipped, error) = match outcome {
            Ok(Outcome::Measured(rows)) => (rows, None, None),
            Ok(Outcome::Partly(rows, reason)) => (rows, Some(reason), None),
            Ok(Outcome::Skipped(reason)) => (Vec::new(), Some(reason), None),
            Err(error) => (Vec::new(), None, Some(format!("{error:#}"))),
        };
        self.measurements.push(Section {
            name,
            rows,
            skipped,
            error,
        });
    }

    /// Whether everything could be measured that this machine can do.
    pub(crate) fn is_complete(&self) -> bool {
        self.measurements
            .iter()
            .all(|section| section.error.is_none())
    }

    /// For machines.
    pub(crate) fn as_json(&self) -> String {
        format!("{:#}", json!(self))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["what", "measured", "bar", "verdict"].map(str::to_owned);
        let rows = self
            .measurements
            .iter()
            .flat_map(|section| &section.rows)
            .map(Row::cells);
        let mut widths = [0; 4];
        for cells in rows.chain([header.clone()]) {
            for (width, cell) in widths.iter_mut().zip(&cells) {
                *width = cell.chars().count().max(*width);
            }
        }
        let [what, measured, bar, _] = widths;
        let mut line = |cells: &[String; 4]| {
            let [first, second, third, fourth] = cells;
            let line = format!("{first:what$}  {second:>measured$}  {third:bar$}  {fourth}");
            writeln!(formatter, "{}", line.trim_end())
        };
        line(&header)?;
        for section in &self.measurements {
            line(&[
                format!("-- {}", section.name.name()),
                String::new(),
                String::new(),
                String::new(),
            ])?;
            for row in &section.rows {
                line(&row.cells())?;
            }
            let skipped = section.skipped.iter();
            let skipped = skipped.map(|reason| format!("SKIPPED: {reason}"));
            let error = section.error.iter();
            let error = error.map(|error| format!("NOT MEASURED: {error}"));
            for words in skipped.chain(error) {
                line(&[words, String::new(), String::new(), String::new()])?;
            }
        }
        let build = if self.optimised {
            "release"
        } else {
            "unoptimised"
        };
        write!(
            formatter,
            "{} cores, {:.0} GiB, {build} build",
            self.cores, self.memory_gibibytes
        )
    }
}

/// A size from a file of `/proc` whose lines read `Name:   123 kB`.
pub(crate) fn kibibytes(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_that_is_missed_is_shouted_and_the_report_is_still_complete() {
        let mut report = Report::of_this_machine();
        let row = Row::new("size", 25.1, Unit::Megabytes).held_to(Bar::AtMost(25.0));
        report.add(Measurement::Binary, Ok(Outcome::Measured(vec![row])));
        assert!(report.to_string().contains("MISSED"), "{report}");
        assert!(report.is_complete());
    }

    #[test]
    fn a_measurement_that_could_not_be_made_is_told_with_its_reason() {
        let mut report = Report::of_this_machine();
        report.add(Measurement::Fleet, Err(anyhow::anyhow!("no API server")));
        assert!(
            report.to_string().contains("NOT MEASURED: no API server"),
            "{report}"
        );
        assert!(!report.is_complete());
    }

    #[test]
    fn what_a_machine_cannot_do_is_told_and_is_no_failure() {
        let mut report = Report::of_this_machine();
        report.add(
            Measurement::Local,
            Ok(Outcome::Skipped("no runc".to_owned())),
        );
        assert!(report.to_string().contains("SKIPPED: no runc"), "{report}");
        assert!(report.is_complete());
    }

    #[test]
    fn what_could_be_measured_stands_beside_what_could_not() {
        let mut report = Report::of_this_machine();
        let rows = vec![Row::count("writes", 7)];
        let outcome = Outcome::Partly(rows, "no runc".to_owned());
        report.add(Measurement::Steward, Ok(outcome));
        let text = report.to_string();
        assert!(
            text.contains("writes") && text.contains("SKIPPED: no runc"),
            "{text}"
        );
        assert!(report.is_complete());
    }

    #[test]
    fn nothing_is_allowed_where_the_bar_is_zero() {
        assert_eq!(
            Row::count("writes", 0).held_to(Bar::AtMost(0.0)).verdict,
            Verdict::Met
        );
        assert_eq!(
            Row::count("writes", 1).held_to(Bar::AtMost(0.0)).verdict,
            Verdict::Missed
        );
    }

    #[test]
    fn a_count_is_whole_and_a_share_of_one_is_short() {
        assert_eq!(Unit::Count.show(7.0), "7");
        assert_eq!(Unit::Count.show(9817.0 / 190.0), "51.67");
    }

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(
            kibibytes("VmPeak:\t 9 kB\nVmRSS:\t   2048 kB\n", "VmRSS:"),
            Some(2048.0)
        );
        assert_eq!(kibibytes("VmPeak:\t 9 kB\n", "VmRSS:"), None);
    }
}

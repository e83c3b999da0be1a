//! How long work tells where it is: one line for each step with the time it took.
//!
//! Owns: what a terminal shows (a line that moves while a step runs, one for each of several at once) and what a log gets
//! (plain lines).

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use console::style;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often the line of a running step moves.
const TICK: Duration = Duration::from_millis(120);

/// Shows steps.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The lines of a terminal; a log has none.
    lines: Option<MultiProgress>,
    verbose: bool,
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It changed something.
    Done,
    /// All was as it should be.
    Unchanged,
}

/// A step under way. Dropped before its end, it shows that it did not come to one.
#[derive(Debug)]
pub struct Running {
    progress: Progress,
    title: String,
    began: Instant,
    line: Option<ProgressBar>,
    ended: bool,
}

impl Progress {
    /// On standard error: a terminal gets moving lines, everything else plain ones.
    pub fn on_stderr(verbose: bool) -> Self {
        Self {
            lines: io::stderr().is_terminal().then(MultiProgress::new),
            verbose,
        }
    }

    /// Begins a step.
    pub fn begin(&self, title: impl Into<String>) -> Running {
        let title = title.into();
        let line = self.lines.as_ref().map(|lines| {
            let line = lines.add(ProgressBar::new_spinner().with_message(title.clone()));
            let template = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
            line.set_style(template.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            line.enable_steady_tick(TICK);
            line
        });
        Running {
            progress: self.clone(),
            title,
            began: Instant::now(),
            line,
            ended: false,
        }
    }
}

impl Running {
    /// What the step waits for or works on right now.
    pub fn detail(&self, detail: &str) {
        match &self.line {
            Some(line) => line.set_message(format!("{}: {detail}", self.title)),
            None if self.progress.verbose => self.print(&format!("    {}: {detail}", self.title)),
            None => {}
        }
        if self.progress.verbose && self.line.is_some() {
            self.print(&format!("    {detail}"));
        }
    }

    /// Ends the step well.
    pub fn end(mut self, outcome: Outcome) {
        self.ended = true;
        let elapsed = seconds(self.began.elapsed());
        let mark = match outcome {
            Outcome::Done => style("✓").green(),
            Outcome::Unchanged => style("=").dim(),
        };
        let note = match outcome {
            Outcome::Done => elapsed,
            Outcome::Unchanged => "already so".to_owned(),
        };
        self.clear();
        let text = format!("{mark} {:<44} {}", self.title, style(note).dim());
        self.print(text.trim_end());
    }

    fn clear(&mut self) {
        if let Some(line) = self.line.take() {
            line.finish_and_clear();
        }
    }

    fn print(&self, text: &str) {
        // Nobody is left to be told that standard error is gone.
        drop(match &self.progress.lines {
            Some(lines) => lines.println(text),
            None => writeln!(io::stderr(), "{}", console::strip_ansi_codes(text)),
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.clear();
            let elapsed = seconds(self.began.elapsed());
            self.print(&format!(
                "{} {:<44} {elapsed}",
                style("✗").red(),
                self.title
            ));
        }
    }
}

/// A time as people read it: `0.4s`, `3m07s`.
pub fn seconds(elapsed: Duration) -> String {
    let whole = elapsed.as_secs();
    if whole < 60 {
        format!("{:.1}s", elapsed.as_secs_f32())
    } else {
        format!("{}m{:02}s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!(seconds(Duration::from_millis(412)), "0.4s");
        assert_eq!(seconds(Duration::from_secs(187)), "3m07s");
    }
}

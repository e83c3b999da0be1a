//! Tells at the end of a long run of tests what failed and why, so that nobody has to look for it in what was printed.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};

/// What the test harness prints between a panic and what it said.
const PANICKED: &str = " panicked at ";
/// What follows a panic's message.
const ENDS: [&str; 2] = ["stack backtrace:", "note: "];
/// A test whose last words are longer has said enough.
const LONGEST: usize = 60;

/// Fails with every panic that the output in a file shows; says so if there is none.
pub(crate) fn tell(output: &Path) -> Result<String> {
    let read = fs::read(output).with_context(|| format!("cannot read {}", output.display()))?;
    let text = String::from_utf8_lossy(&read);
    let failures = failures(&text);
    if failures.is_empty() {
        let compiler = text.lines().filter(|line| line.starts_with("error"));
        let lines: Vec<_> = compiler.collect();
        bail!("no test failed, but the run did:\n{}", lines.join("\n"));
    }
    bail!("what failed:\n\n{}", failures.join("\n\n"));
}

/// The panics of the tests that are said to have failed, each with its message. Threads of tests that passed panic too.
fn failures(text: &str) -> Vec<String> {
    let failed: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let rest = line.strip_suffix(" ... FAILED")?;
            rest.strip_prefix("test ")
        })
        .collect();
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for name in failed {
        let opens = format!("thread '{name}' ");
        let panic = lines
            .iter()
            .position(|line| line.starts_with(&opens) && line.contains(PANICKED));
        let Some(first) = panic else {
            found.push(format!("{name} (its words are not in the output)"));
            continue;
        };
        let message = lines[first..]
            .iter()
            .take_while(|line| !ENDS.iter().any(|end| line.starts_with(end)))
            .take(LONGEST);
        let message: Vec<_> = message.copied().collect();
        found.push(message.join("\n").trim_end().to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test pools::a ... ok
test pools::storm ... FAILED
test pools::silent ... FAILED

---- pools::a stdout ----
thread 'pools::a' (3) panicked at src/a.rs:1:1:
expected
---- pools::storm stdout ----

thread 'pools::storm' (7) panicked at tests/storm.rs:12:5:
the write of revision 7
broke a rule
stack backtrace:
   0: rust_begin_unwind
";

    #[test]
    fn what_a_failed_test_said_is_told_without_the_way_it_came_there() {
        let told = failures(OUTPUT);
        assert_eq!(
            told,
            [
                "thread 'pools::storm' (7) panicked at tests/storm.rs:12:5:\nthe write of revision 7\nbroke a rule",
                "pools::silent (its words are not in the output)",
            ]
        );
    }
}

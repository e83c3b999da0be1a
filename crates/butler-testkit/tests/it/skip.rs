use std::process::Command;

use butler_testkit::requires;
use butler_testkit::skip::{self, Requirement, Skipped};
use pretty_assertions::assert_eq;

/// A command no machine has.
const ABSENT: &str = "butler-no-such-command";

#[test]
fn missing_command_is_named_in_the_reason() {
    let skipped = skip::command(ABSENT).check("a-story").unwrap_err();
    let expected = Skipped {
        test: "a-story".to_owned(),
        reason: format!("needs the command {ABSENT}"),
    };
    assert_eq!(skipped, expected);
    assert_eq!(
        skipped.to_string(),
        format!("SKIPPED a-story: needs the command {ABSENT}")
    );
}

#[test]
fn machine_that_has_all_runs_the_test() {
    assert_eq!(skip::command("sh").check("a-story"), Ok(()));
    assert_eq!(
        Requirement::new(true, "never said").check("a-story"),
        Ok(())
    );
    let user = Command::new("id").arg("-u").output().unwrap().stdout;
    assert_eq!(skip::root().check("a-story").is_ok(), user == b"0\n");
}

#[test]
fn skipped_test_is_written_to_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("skipped");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "skip::needs_what_no_machine_has", "--ignored"])
        .env(skip::LOG_VARIABLE, &log)
        .output()
        .unwrap();
    let expected =
        format!("SKIPPED it::skip::needs_what_no_machine_has: needs the command {ABSENT}\n");
    assert!(output.status.success());
    assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

#[tokio::test]
#[ignore = "run by the test above, with a log of its own"]
async fn needs_what_no_machine_has() {
    requires!(skip::command("sh"), skip::command(ABSENT));
    panic!("the machine has {ABSENT}");
}

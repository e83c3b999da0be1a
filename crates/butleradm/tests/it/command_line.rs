//! What an operator meets before anything is made: help, refusals, exit codes.

use std::process::Command;

use insta::assert_snapshot;

fn butleradm(arguments: &[&str]) -> (i32, String, String) {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_butleradm"))
        .args(arguments)
        .env("HOME", home.path())
        .env("BUTLER_STATE", home.path().join("state"))
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn help_names_the_commands() {
    let (code, help, _) = butleradm(&["--help"]);
    assert_eq!(code, 0);
    assert_snapshot!(help);
}

#[test]
fn help_of_up_shows_flags_and_examples() {
    let (code, help, _) = butleradm(&["up", "--help"]);
    assert_eq!(code, 0);
    assert_snapshot!(help);
}

#[test]
fn bootstrap_local_is_up_by_another_name() {
    let strip = |help: String| {
        let start = help.find("Options:").unwrap();
        help[start..help.find("Examples:").unwrap_or(help.len())]
            .trim()
            .to_owned()
    };
    let (_, one, _) = butleradm(&["up", "--help"]);
    let (_, other, _) = butleradm(&["bootstrap", "local", "--help"]);
    assert_eq!(strip(one), strip(other));
}

#[test]
fn who_asks_for_what_is_not_there_is_told_what_to_do() {
    for command in [&["status"][..], &["machine", "list"]] {
        let (code, _, words) = butleradm(command);
        assert_eq!(code, 1);
        assert_eq!(
            words,
            "butleradm: there is no installation butler-local; make one with \"butleradm up\"\n"
        );
    }
    let (code, words, _) = butleradm(&["down"]);
    assert_eq!(
        (code, words.as_str()),
        (
            0,
            "there is no installation butler-local; nothing was changed.\n"
        )
    );
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_made() {
    for (arguments, word) in [
        (&["up", "--dry-run", "--memory", "1Gi"][..], "2Gi"),
        (
            &["up", "--dry-run", "--range", "10.0.0.0/30"],
            "16 addresses",
        ),
        (&["up", "--dry-run", "--name", "Mine"], "Mine"),
        (&["up", "--dry-run", "--timeout", "soon"], "20m"),
        (&["up", "--dry-run", "--cpus", "0"], "0"),
    ] {
        let (code, _, words) = butleradm(arguments);
        assert_ne!(code, 0, "{arguments:?}");
        assert!(words.contains(word), "{arguments:?}: {words}");
    }
}

#[test]
fn a_dry_run_says_what_would_be_made() {
    let arguments = [
        "up",
        "--dry-run",
        "--cpus",
        "1",
        "--memory",
        "4Gi",
        "--workers",
        "2",
        "--egress",
        "nat",
    ];
    let (code, words, _) = butleradm(&arguments);
    assert_eq!(code, 0);
    for line in [
        "machines       3 (1 processors, 4096 MiB of memory each)",
        "egress         nat",
        "172.30.0.0/20",
    ] {
        assert!(words.contains(line), "{words}");
    }
}

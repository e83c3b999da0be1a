use std::process::Command;

use insta::assert_snapshot;

fn butlerctl(arguments: &[&str]) -> (i32, String, String) {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_butlerctl"))
        .args(arguments)
        .env("HOME", home.path())
        .env("COLUMNS", "100")
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("BUTLER_NAMESPACE")
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
fn help_names_the_commands_and_how_they_end() {
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help_of_cluster", &["cluster", "--help"]),
    ] {
        let (code, help, _) = butlerctl(arguments);
        assert_eq!(code, 0);
        assert_snapshot!(name, help);
    }
}

#[test]
fn help_of_each_command_shows_flags_and_examples() {
    let verbs = [
        "create",
        "list",
        "get",
        "kubeconfig",
        "scale",
        "upgrade",
        "destroy",
        "why",
    ];
    for verb in verbs {
        let (code, help, _) = butlerctl(&["cluster", verb, "--help"]);
        assert_eq!(code, 0);
        assert_snapshot!(format!("help_of_{verb}"), help);
    }
}

#[test]
fn who_has_no_platform_is_told_where_was_looked() {
    let (code, _, words) = butlerctl(&["cluster", "list"]);
    assert_eq!(code, 1);
    assert!(
        words.starts_with("butlerctl: no Kubernetes configuration found"),
        "{words}"
    );
    assert!(words.contains("--kubeconfig"), "{words}");
}

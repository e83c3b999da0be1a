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
fn help_names_the_commands() {
    let (code, help, _) = butlerctl(&["cluster", "--help"]);
    assert_eq!(code, 0);
    assert_snapshot!(help);
}

#[test]
fn help_of_create_shows_flags_and_examples() {
    let (code, help, _) = butlerctl(&["cluster", "create", "--help"]);
    assert_eq!(code, 0);
    assert_snapshot!(help);
}

#[test]
fn help_of_kubeconfig_shows_flags_and_examples() {
    let (code, help, _) = butlerctl(&["cluster", "kubeconfig", "--help"]);
    assert_eq!(code, 0);
    assert_snapshot!(help);
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

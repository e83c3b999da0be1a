//! What the program says when asked, and when it cannot do what it was asked.

use assert_cmd::Command;

fn butler(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_butler"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn help_shows_the_flags_and_an_example() {
    let (success, stdout, _) = butler(&["controller", "--help"]);
    assert!(success);
    insta::assert_snapshot!(stdout);
}

#[test]
fn help_of_the_local_provider_shows_the_flags_and_examples() {
    let (success, stdout, _) = butler(&["provider", "local", "--help"]);
    assert!(success);
    insta::assert_snapshot!(stdout);
}

#[test]
fn help_of_the_tunnel_shows_the_flags_of_both_ends() {
    for end in ["server", "agent"] {
        let (success, stdout, _) = butler(&["tunnel", end, "--help"]);
        assert!(success);
        insta::assert_snapshot!(format!("tunnel_{end}"), stdout);
    }
}

#[test]
fn help_of_the_proxy_in_a_tenant_shows_the_flags_and_both_ways() {
    let (success, stdout, _) = butler(&["tcp-proxy", "--help"]);
    assert!(success);
    insta::assert_snapshot!("tcp_proxy", stdout);
}

#[test]
fn the_first_process_of_a_machine_is_not_offered_to_people_and_refuses_them() {
    let (_, stdout, _) = butler(&["--help"]);
    assert!(stdout.contains("provider"), "{stdout}");
    assert!(!stdout.contains("init"), "{stdout}");
    let (success, _, stderr) = butler(&["init"]);
    assert!(!success);
    assert!(stderr.contains("not the first process"), "{stderr}");
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let missing = "/nowhere/provider.json";
    let (success, _, stderr) = butler(&["provider", "local", "--configuration", missing]);
    assert!(!success);
    assert!(stderr.contains(missing), "{stderr}");
}

#[test]
fn a_missing_kubeconfig_is_named_and_the_exit_code_is_honest() {
    let (success, _, stderr) = butler(&["controller", "--kubeconfig", "/nowhere/kubeconfig"]);
    assert!(!success);
    assert!(stderr.contains("/nowhere/kubeconfig"), "{stderr}");
}

#[test]
fn a_bad_address_says_what_is_wanted() {
    let (success, _, stderr) = butler(&["controller", "--metrics-bind-address", "everywhere"]);
    assert!(!success);
    assert!(stderr.contains("such as 127.0.0.1:8080"), "{stderr}");
}

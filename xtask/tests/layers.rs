//! The layers are checked on real workspaces, made for the test.

use std::{fs, path::Path};

use assert_cmd::Command;

/// A workspace of crates, each with the lines of its dependency sections.
fn workspace(directory: &Path, crates: &[(&str, &str)]) {
    let write = |path: String, text: String| {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    write(
        "Cargo.toml".into(),
        "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n".into(),
    );
    for (name, dependencies) in crates {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{dependencies}"
        );
        write(format!("crates/{name}/Cargo.toml"), manifest);
        write(format!("crates/{name}/src/lib.rs"), String::new());
    }
}

fn check(crates: &[(&str, &str)]) -> assert_cmd::assert::Assert {
    let directory = tempfile::tempdir().expect("a folder");
    workspace(directory.path(), crates);
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["check-layers", "--manifest-path"])
        .arg(directory.path().join("Cargo.toml"))
        .assert()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
}

#[test]
fn edges_downwards_and_sideways_are_fine() {
    check(&[
        ("butler-api", ""),
        ("butler-assets", ""),
        ("butler-runtime", "[dependencies]\nbutler-api = { path = \"../butler-api\" }\nbutler-assets = { path = \"../butler-assets\" }\n"),
    ])
    .success();
}

#[test]
fn an_upward_edge_fails_and_is_named() {
    let outcome = check(&[
        (
            "butler-api",
            "[dependencies]\nbutler-runtime = { path = \"../butler-runtime\" }\n",
        ),
        ("butler-runtime", ""),
    ])
    .failure();
    let words = stderr(&outcome);
    assert!(
        words.contains("butler-api (Vocabulary) must not depend on butler-runtime (Adapter)"),
        "{words}"
    );
}

#[test]
fn an_upward_edge_for_tests_alone_is_fine() {
    check(&[
        (
            "butler-api",
            "[dev-dependencies]\nbutler-testkit = { path = \"../butler-testkit\" }\n",
        ),
        ("butler-testkit", ""),
    ])
    .success();
}

#[test]
fn the_testkit_is_not_for_products() {
    let outcome = check(&[
        (
            "butler-controller",
            "[dependencies]\nbutler-testkit = { path = \"../butler-testkit\" }\n",
        ),
        ("butler-testkit", ""),
    ])
    .failure();
    let words = stderr(&outcome);
    assert!(
        words.contains("butler-controller (Application) must not depend on butler-testkit"),
        "{words}"
    );
}

#[test]
fn benchmarks_may_stand_on_the_testkit() {
    check(&[
        (
            "butler-bench",
            "[dependencies]\nbutler-testkit = { path = \"../butler-testkit\" }\n",
        ),
        ("butler-testkit", ""),
    ])
    .success();
}

#[test]
fn a_crate_without_a_layer_is_asked_for_one() {
    let outcome = check(&[("butler-surprise", "")]).failure();
    let words = stderr(&outcome);
    assert!(words.contains("butler-surprise has no layer"), "{words}");
}

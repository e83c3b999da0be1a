//! What helm gets of us: no value on its command line, no variable that could change what it does, no home but its own.

use std::os::unix::fs::PermissionsExt as _;

use butler_helm::{Helm, Release, Values};
use serde_json::json;

use crate::support::{Workshop, story};

/// A program in helm's place that tells how it was called.
const TELLTALE: &str =
    "#!/bin/sh\n{ echo \"arguments: $*\"; env | sort; echo \"input: $(cat)\"; } >&2\nexit 1\n";

#[tokio::test]
async fn helm_is_told_values_by_its_standard_input_and_where_to_keep_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("telltale");
    std::fs::write(&program, TELLTALE).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let home = directory.path().join("home");
    let helm = Helm::new(&program, &home, "/nonexistent/kubeconfig");
    let release = Release {
        values: Values::from(json!({ "color": "red" }))
            .with_secret(json!({ "password": "hunter2" })),
        ..story("default", json!({}))
    };
    let told = helm.template(&release).await.unwrap_err().to_string();
    let arguments = told
        .lines()
        .find(|line| line.contains("arguments: "))
        .unwrap();
    assert!(
        !arguments.contains("red") && !arguments.contains("(hidden)"),
        "{told}"
    );
    assert!(
        arguments.contains("template --kubeconfig=/nonexistent/kubeconfig --namespace=default"),
        "{told}"
    );
    assert!(
        told.contains(r#"input: {"color":"red","password":"(hidden)"}"#),
        "{told}"
    );

    let variable = |name: &str| {
        let line = told
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.map(str::to_owned)
    };
    let home = home.display().to_string();
    assert_eq!(variable("HOME"), Some(home.clone()));
    assert_eq!(variable("HELM_CACHE_HOME"), Some(format!("{home}/cache")));
    assert_eq!(variable("KUBECACHEDIR"), Some(format!("{home}/discovery")));
    for strange in [
        "KUBECONFIG",
        "HELM_NAMESPACE",
        "HELM_DRIVER",
        "CARGO_MANIFEST_DIR",
    ] {
        assert_eq!(variable(strange), None);
    }
}

#[tokio::test]
async fn rendering_needs_no_cluster() {
    let workshop = Workshop::offline().await;
    let rendered = workshop
        .helm
        .template(&story("default", json!({ "color": "blue" })))
        .await;
    assert!(rendered.unwrap().contains("color: \"blue\""));
}

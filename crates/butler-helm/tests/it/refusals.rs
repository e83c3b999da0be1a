//! Failures as people read them: what was done, what went wrong, what to do.

use std::path::PathBuf;
use std::time::Duration;

use butler_helm::{ChartSource, Helm, Refusal, Release, Upgrade, Values};
use butler_testkit::{ApiServer, Identity};
use serde_json::json;

use crate::support::{Workshop, name, story};

const UPGRADE: Upgrade = Upgrade::without_waiting(Duration::from_mins(1));

#[tokio::test]
async fn a_chart_that_is_not_there_is_named() {
    let workshop = Workshop::offline().await;
    let chart = ChartSource::Path(PathBuf::from("/nonexistent/chart"));
    let release = Release {
        chart,
        ..story("default", json!({}))
    };
    let error = workshop.helm.template(&release).await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::ChartNotFound));
    assert_eq!(
        error.to_string(),
        "rendering the chart /nonexistent/chart: path \"/nonexistent/chart\" not found; \
         check the path, or the repository, name and version of the chart"
    );
}

#[tokio::test]
async fn values_that_the_chart_refuses_are_told_in_helms_words_and_secrets_are_not() {
    let workshop = Workshop::offline().await;
    let error = workshop
        .helm
        .template(&story("default", json!({ "colour": "red" })))
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::InvalidValues));
    assert!(
        error
            .to_string()
            .contains("additional properties 'colour' not allowed"),
        "{error}"
    );

    let secret = json!({ "password": "Correct-Horse" });
    let release = Release {
        values: Values::from(json!({})).with_secret(secret),
        ..story("default", json!({}))
    };
    let error = workshop.helm.template(&release).await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::InvalidValues));
    let shown = format!("{error} {error:?} {release:?}");
    assert!(
        shown.contains("/password") && !shown.contains("Horse"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_not_a_missing_release() {
    let workshop = Workshop::offline().await;
    let error = workshop
        .helm
        .status(&name("default", "story"))
        .await
        .unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::Unreachable), "{error}");
    let error = workshop
        .helm
        .upgrade(&story("default", json!({})), &UPGRADE)
        .await
        .unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::Unreachable), "{error}");
}

#[tokio::test]
async fn a_helm_that_is_not_there_is_named() {
    let helm = Helm::new(
        "/nonexistent/helm",
        std::env::temp_dir(),
        "/nonexistent/kubeconfig",
    );
    let error = helm.list(None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not start helm at /nonexistent/helm; give the path of a helm that runs on this host"
    );
}

#[tokio::test]
async fn what_does_not_become_ready_is_named() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("patience").await;
    let workshop = Workshop::on(server).await;
    let release = story(namespace.name(), json!({ "deployment": true }));
    let upgrade = Upgrade::waiting(Duration::from_secs(2));
    let error = workshop.helm.upgrade(&release, &upgrade).await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::NotReady), "{error}");
    assert!(error.to_string().contains("story"), "{error}");
}

#[tokio::test]
async fn an_object_of_somebody_else_is_left_alone() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("owner").await;
    let workshop = Workshop::on(server).await;
    let release = story(namespace.name(), json!({}));
    workshop.helm.upgrade(&release, &UPGRADE).await.unwrap();
    let chart = tempfile::tempdir().unwrap();
    std::fs::create_dir(chart.path().join("templates")).unwrap();
    std::fs::write(
        chart.path().join("Chart.yaml"),
        "apiVersion: v2\nname: thief\nversion: 1.0.0\n",
    )
    .unwrap();
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: story\n";
    std::fs::write(chart.path().join("templates/object.yaml"), object).unwrap();
    let thief = Release {
        name: name(namespace.name(), "thief"),
        chart: ChartSource::Path(chart.path().to_owned()),
        values: Values::none(),
    };
    let error = workshop.helm.upgrade(&thief, &UPGRADE).await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::Ownership), "{error}");
}

#[tokio::test]
async fn whoever_may_not_is_told_so() {
    let server = ApiServer::shared().await;
    let nobody = server.kubeconfig_for(&Identity::user("nobody"));
    let workshop = Workshop::with(nobody).await;
    let error = workshop
        .helm
        .status(&name("default", "story"))
        .await
        .unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::Forbidden), "{error}");
}

//! Helm killed at work leaves a release half done. Who knows that nobody else is at work takes it over.

use std::time::Duration;

use butler_helm::{Refusal, Release, ReleasePhase, Upgrade};
use butler_testkit::{ApiServer, eventually_all};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;

use crate::support::{PATIENCE, Workshop, story};

const UPGRADE: Upgrade = Upgrade::without_waiting(Duration::from_mins(1));

/// Starts an upgrade that waits for pods which never come, and kills helm when its record says `phase`.
async fn killed_when(workshop: &Workshop, server: &ApiServer, release: &Release, phase: &str) {
    let records = Api::<Secret>::namespaced(server.client(), release.name.namespace.as_str());
    let labels = format!("owner=helm,status={phase}");
    let upgrade = Upgrade::waiting(Duration::from_mins(5));
    tokio::select! {
        ended = workshop.helm.upgrade(release, &upgrade) => panic!("helm waits: {ended:?}"),
        _ = eventually_all(&records, &labels, "is under way", PATIENCE, |found| !found.is_empty()) => {}
    }
}

async fn is_refused_and_then_taken_over(workshop: &Workshop, release: &Release) {
    let refused = workshop.helm.upgrade(release, &UPGRADE).await.unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::InProgress), "{refused}");
    let report = workshop
        .helm
        .upgrade(release, &UPGRADE.taking_over())
        .await
        .unwrap();
    assert_eq!(report.phase, ReleasePhase::Deployed);
    // From here on it is a release like any other.
    workshop.helm.upgrade(release, &UPGRADE).await.unwrap();
}

#[tokio::test]
async fn a_first_install_that_was_killed_is_taken_over() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("install").await;
    let workshop = Workshop::on(server).await;
    let release = story(namespace.name(), json!({ "deployment": true }));
    killed_when(&workshop, server, &release, "pending-install").await;
    let status = workshop.helm.status(&release.name).await.unwrap().unwrap();
    assert!(status.phase.is_pending(), "{status:?}");
    is_refused_and_then_taken_over(&workshop, &release).await;
}

#[tokio::test]
async fn an_upgrade_that_was_killed_is_taken_over() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("upgrade").await;
    let workshop = Workshop::on(server).await;
    let first = story(namespace.name(), json!({ "color": "blue" }));
    workshop.helm.upgrade(&first, &UPGRADE).await.unwrap();
    let second = story(namespace.name(), json!({ "deployment": true }));
    killed_when(&workshop, server, &second, "pending-upgrade").await;
    is_refused_and_then_taken_over(&workshop, &second).await;
}

#[tokio::test]
async fn a_first_install_that_failed_is_corrected_by_the_next() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("correct").await;
    let workshop = Workshop::on(server).await;
    let wrong = story(namespace.name(), json!({ "color": "not a label!" }));
    let error = workshop.helm.upgrade(&wrong, &UPGRADE).await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::InvalidObject), "{error}");
    let right = story(namespace.name(), json!({ "color": "red" }));
    let report = workshop.helm.upgrade(&right, &UPGRADE).await.unwrap();
    assert_eq!(report.phase, ReleasePhase::Deployed);
}

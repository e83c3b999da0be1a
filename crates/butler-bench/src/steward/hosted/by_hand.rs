//! The same pods without Steward's part in their start: everything they need is there, and somebody creates the Deployment.
//!
//! What they need is made by Steward for a control plane that sleeps: the Service with its address, all certificates, the user
//! and the part of the store, in which no API server has ever written anything. Steward then leaves it alone, and the
//! Deployment is taken away. So the pod, its certificates, its way to the store and the store's emptiness are the same on both
//! sides, and what is timed is the pod.

use std::time::{Duration, Instant};

use anyhow::Context;
use butler_api::conditions::types;
use butler_testkit::{try_eventually, try_eventually_gone};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, ObjectMeta, PostParams};

use super::management::Management;
use crate::{
    local::shell::PATIENCE,
    steward::{manifests::Wanted, readiness::Door},
};

/// All that one control plane needs, and the Deployment that is missing.
pub(super) struct Prepared {
    deployment: Deployment,
    door: Door,
}

/// Has everything made but the pod.
pub(super) async fn prepare(management: &Management, name: &str) -> anyhow::Result<Prepared> {
    management.create(name, Wanted::Asleep).await?;
    let deployments = management.api::<Deployment>();
    try_eventually(&deployments, name, "exists", PATIENCE, |found| {
        found.is_some()
    })
    .await?;
    let door = management.door(name).await?;
    management.pause(name, true).await?;
    management.until(name, types::PAUSED).await?;

    let found = deployments.get(name).await?;
    // With all that was made for it: who comes next must not meet a set of pods of the same name that is going.
    deployments
        .delete(name, &DeleteParams::foreground())
        .await?;
    try_eventually_gone(&deployments, name, PATIENCE).await?;
    Ok(Prepared {
        deployment: with_a_pod(found),
        door,
    })
}

/// The same Deployment as somebody would write it down, with one pod.
fn with_a_pod(found: Deployment) -> Deployment {
    let mut spec = found.spec.unwrap_or_default();
    spec.replicas = Some(1);
    let ObjectMeta {
        name,
        labels,
        owner_references,
        ..
    } = found.metadata;
    Deployment {
        metadata: ObjectMeta {
            name,
            labels,
            // It goes with its control plane.
            owner_references,
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// Creates the Deployments at once, and tells how long it took until the last API server was ready.
pub(super) async fn start(
    management: &Management,
    prepared: &[Prepared],
) -> anyhow::Result<Duration> {
    let deployments = &management.api::<Deployment>();
    let began = Instant::now();
    let starting = prepared.iter().map(|prepared| async move {
        let parameters = PostParams::default();
        deployments
            .create(&parameters, &prepared.deployment)
            .await
            .context("could not create a Deployment by hand")?;
        prepared.door.opens().await
    });
    let opened = try_join_all(starting).await?;
    let last = opened.into_iter().max().unwrap_or(began);
    Ok(last.duration_since(began))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_created_by_hand_is_the_same_pod_without_traces_of_the_one_before() {
        let found = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "one", "namespace": "bench", "uid": "1", "resourceVersion": "7",
                "labels": { "a": "b" }, "annotations": { "deployment.kubernetes.io/revision": "1" },
            },
            "spec": {
                "replicas": 0, "selector": { "matchLabels": { "a": "b" } },
                "template": { "metadata": { "labels": { "a": "b" } } },
            },
            "status": { "observedGeneration": 1 },
        });
        let found: Deployment = serde_json::from_value(found).unwrap();
        let template = found.spec.clone().unwrap().template;
        let made = with_a_pod(found);
        let spec = made.spec.unwrap();
        assert_eq!(spec.template, template);
        assert_eq!(spec.replicas, Some(1));
        assert_eq!(made.metadata.resource_version, None);
        assert_eq!(made.metadata.uid, None);
        assert_eq!(made.status, None);
    }
}

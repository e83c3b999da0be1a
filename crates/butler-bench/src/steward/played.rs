//! Plays what is not there when control planes are objects only: a load balancer that gives every Service an address, and
//! kubelets that run every pod at once.

use futures::StreamExt;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, watcher},
    },
};
use serde_json::json;

use super::LOOPBACK;

/// Plays on until it is dropped, or something goes wrong.
pub(super) async fn play(client: Client) -> anyhow::Error {
    let balancer = balance(Api::default_namespaced(client.clone()));
    let kubelets = run(Api::default_namespaced(client));
    let played: anyhow::Result<((), ())> = tokio::try_join!(balancer, kubelets);
    match played {
        Err(error) => error.context("what is played has failed"),
        Ok(_) => anyhow::anyhow!("a watch of what is played has ended"),
    }
}

async fn balance(services: Api<Service>) -> anyhow::Result<()> {
    let seen = watcher(services.clone(), watcher::Config::default()).default_backoff();
    let mut seen = std::pin::pin!(seen.applied_objects());
    while let Some(service) = seen.next().await {
        // A watch that fails is begun anew by itself.
        let Ok(service) = service else { continue };
        if wants_address(&service) {
            let ingress = json!([{ "ip": LOOPBACK }]);
            let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
            services
                .patch_status(
                    &service.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(status),
                )
                .await?;
        }
    }
    Ok(())
}

fn wants_address(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let kind = spec.and_then(|spec| spec.type_.as_deref());
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let has = balancer
        .and_then(|balancer| balancer.ingress.as_ref())
        .is_some_and(|ingress| !ingress.is_empty());
    kind == Some("LoadBalancer") && !has
}

async fn run(deployments: Api<Deployment>) -> anyhow::Result<()> {
    let seen = watcher(deployments.clone(), watcher::Config::default()).default_backoff();
    let mut seen = std::pin::pin!(seen.applied_objects());
    while let Some(deployment) = seen.next().await {
        let Ok(deployment) = deployment else { continue };
        if wants_pods(&deployment) {
            let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
            let status = json!({ "status": {
                "observedGeneration": deployment.metadata.generation,
                "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
                "availableReplicas": replicas,
            } });
            deployments
                .patch_status(
                    &deployment.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(status),
                )
                .await?;
        }
    }
    Ok(())
}

fn wants_pods(deployment: &Deployment) -> bool {
    let observed = deployment
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    observed != deployment.metadata.generation
}

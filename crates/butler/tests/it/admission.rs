//! Manifests that only Butler can tell to be wrong are refused by the API server, in Butler's words.

use butler_api::butler::{
    network_pool::NetworkPool, provider_config::ProviderConfig, tenant_cluster::TenantCluster,
};
use butler_testkit::{ApiServer, Options, eventually_gone};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    fleet::{self, PATIENCE, USER_AGENT},
    replica::Replica,
};

fn pool(start: &str, end: &str) -> NetworkPool {
    object(json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "NetworkPool",
        "metadata": { "name": "edge" },
        "spec": { "cidr": "fd00:1::/64", "tenantAllocation": { "start": start, "end": end } },
    }))
}

fn object<K: serde::de::DeserializeOwned>(body: Value) -> K {
    serde_json::from_value(body).unwrap()
}

#[tokio::test]
async fn reversed_addresses_and_the_deletion_of_a_provider_in_use_are_refused() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as(USER_AGENT);
    let _replica = Replica::start_with_webhooks(&server, "only");
    let pools = Api::<NetworkPool>::default_namespaced(client.clone());

    // The API server calls a webhook a moment after it is registered.
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let refusal = timeout(PATIENCE, async {
        loop {
            match pools
                .create(&dry_run, &pool("fd00:1::20", "fd00:1::10"))
                .await
            {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => return error.to_string(),
            }
        }
    });
    let refusal = refusal.await.expect("the webhook is called");
    assert!(refusal.contains("spec.tenantAllocation"), "{refusal}");
    assert!(refusal.contains("fd00:1::20"), "{refusal}");
    pools
        .create(&dry_run, &pool("fd00:1::10", "fd00:1::20"))
        .await
        .expect("in order");

    let providers = Api::<ProviderConfig>::default_namespaced(client.clone());
    let clusters = Api::<TenantCluster>::default_namespaced(client);
    fleet::create(&providers, 1).await;
    fleet::settled(&providers, 1).await;
    let cluster: TenantCluster = object(json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": { "name": "production" },
        "spec": {
            "kubernetesVersion": "v1.36.3",
            "providerConfigRef": { "name": "provider-000", "namespace": "default" },
            "workers": { "replicas": 4 },
            // Nobody ends namespaces here: what is only looked at has none, and goes at once.
            "managementPolicy": { "mode": "Observe" },
        },
    }));
    clusters
        .create(&PostParams::default(), &cluster)
        .await
        .unwrap();
    // The reviewer's cache sees the cluster a moment later.
    let refusal = timeout(PATIENCE, async {
        let dry_run = DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        };
        loop {
            match providers.delete("provider-000", &dry_run).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => return error.to_string(),
            }
        }
    });
    let refusal = refusal.await.expect("the webhook knows the cluster");
    assert!(
        refusal.contains("still used by default/production"),
        "{refusal}"
    );

    clusters
        .delete("production", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&clusters, "production", PATIENCE).await;
    let deleted = timeout(PATIENCE, async {
        while providers
            .delete("provider-000", &DeleteParams::default())
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
    });
    deleted.await.expect("nothing uses the provider any more");
    eventually_gone(&providers, "provider-000", PATIENCE).await;
}

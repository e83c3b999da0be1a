//! Pools and wishes for addresses that make no sense are refused at once, with the field and the rule.

use std::fmt::Debug;

use butler_api::{
    butler::{
        ip_allocation::{AllocationPhase, IPAllocation},
        network_pool::NetworkPool,
        provider_config::ProviderConfig,
        tenant_cluster::TenantCluster,
    },
    keys::annotations,
};
use butler_testkit::{ApiServer, Options, eventually, eventually_gone};
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    fleet::{self, PATIENCE, USER_AGENT},
    replica::Replica,
};

fn object<K: Resource<DynamicType = ()> + DeserializeOwned>(name: &str, spec: Value) -> K {
    let mut body = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "name": name },
    });
    body["spec"] = spec;
    serde_json::from_value(body).unwrap()
}

fn wish(pool: &str, wish: Value) -> Value {
    let mut spec = json!({
        "poolRef": { "name": pool },
        "tenantClusterRef": { "name": "shop", "namespace": "default" },
        "type": "loadbalancer",
    });
    let Value::Object(wish) = wish else {
        return spec;
    };
    spec.as_object_mut().unwrap().extend(wish);
    spec
}

/// What the API server says to a manifest that it refuses; it is asked until the reviewer's cache knows enough to refuse it.
async fn refused<K>(api: &Api<K>, name: &str, spec: Value) -> String
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let refusal = timeout(PATIENCE, async {
        loop {
            match api.create(&dry_run, &object::<K>(name, spec.clone())).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => return error.to_string(),
            }
        }
    });
    refusal
        .await
        .unwrap_or_else(|_| panic!("{name} is not refused"))
}

#[tokio::test]
async fn pools_and_wishes_that_make_no_sense_are_refused_with_the_field_and_the_rule() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as(USER_AGENT);
    let _replica = Replica::start_with_webhooks(&server, "only");
    let pools = Api::<NetworkPool>::default_namespaced(client.clone());
    let allocations = Api::<IPAllocation>::default_namespaced(client.clone());
    let providers = Api::<ProviderConfig>::default_namespaced(client.clone());
    let clusters = Api::<TenantCluster>::default_namespaced(client);
    let create = PostParams::default();

    // Windows that only a program can tell to be out of order or to overlap.
    let window =
        |ranges: Value| json!({ "cidr": "fd00:1::/64", "tenantAllocation": { "ranges": ranges } });
    let reversed = window(json!([{ "start": "fd00:1::20", "end": "fd00:1::10" }]));
    let refusal = refused(&pools, "reversed", reversed).await;
    assert!(
        refusal.contains("spec.tenantAllocation.ranges[0]"),
        "{refusal}"
    );
    let overlapping = window(json!([
        { "start": "fd00:1::10", "end": "fd00:1::20" },
        { "start": "fd00:1::1f", "end": "fd00:1::30" },
    ]));
    let refusal = refused(&pools, "overlapping", overlapping).await;
    assert!(
        refusal.contains("spec.tenantAllocation.ranges[1]"),
        "{refusal}"
    );

    let rack = json!({ "cidr": "10.40.0.0/24", "reserved": [{ "cidr": "10.40.0.0/28" }] });
    pools.create(&create, &object("rack", rack)).await.unwrap();
    eventually(&pools, "rack", "it counts itself", PATIENCE, |pool| {
        let status = pool.and_then(|pool| pool.status.as_ref());
        status.and_then(|status| status.total_ips) == Some(239)
    })
    .await;

    // Two pools with the same addresses, unless they are different networks.
    let refusal = refused(&pools, "twin", json!({ "cidr": "10.40.0.128/25" })).await;
    assert!(
        refusal.contains("spec.cidr") && refusal.contains("NetworkPool default/rack"),
        "{refusal}"
    );
    let mut elsewhere: NetworkPool = object("elsewhere", json!({ "cidr": "10.40.0.0/24" }));
    elsewhere.metadata.annotations =
        Some([(annotations::NETWORK.to_owned(), "site-2".to_owned())].into());
    pools
        .create(&create, &elsewhere)
        .await
        .expect("another network");

    // Wishes.
    let pinned = |start: &str, end: &str| {
        let range = json!({ "startAddress": start, "endAddress": end });
        wish("rack", json!({ "pinnedRange": range }))
    };
    let refusal = refused(&allocations, "large", wish("rack", json!({ "count": 300 }))).await;
    assert!(
        refusal.contains("spec.count") && refusal.contains("239"),
        "{refusal}"
    );
    let refusal = refused(&allocations, "outside", pinned("10.41.0.1", "10.41.0.2")).await;
    assert!(
        refusal.contains("spec.pinnedRange") && refusal.contains("10.40.0.0/24"),
        "{refusal}"
    );
    let refusal = refused(&allocations, "reserved", pinned("10.40.0.5", "10.40.0.5")).await;
    assert!(
        refusal.contains("spec.pinnedRange") && refusal.contains("reserved"),
        "{refusal}"
    );

    fleet::create(&providers, 1).await;
    fleet::settled(&providers, 1).await;
    let shop = json!({
        "kubernetesVersion": "v1.36.3",
        "providerConfigRef": { "name": "provider-000", "namespace": "default" },
        "workers": { "replicas": 1 },
        // Nobody ends namespaces here: what is only looked at has none, and goes at once.
        "managementPolicy": { "mode": "Observe" },
    });
    clusters
        .create(&create, &object("shop", shop))
        .await
        .unwrap();
    let first = object("first", pinned("10.40.0.20", "10.40.0.23"));
    allocations.create(&create, &first).await.unwrap();
    eventually(&allocations, "first", "it is granted", PATIENCE, |found| {
        let status = found.and_then(|found| found.status.as_ref());
        status.and_then(|status| status.phase) == Some(AllocationPhase::Allocated)
    })
    .await;
    let refusal = refused(&allocations, "taken", pinned("10.40.0.22", "10.40.0.30")).await;
    assert!(
        refusal.contains("spec.pinnedRange") && refusal.contains("TenantCluster default/shop"),
        "{refusal}"
    );

    // What is in use stays in the pool, and the pool stays.
    let narrow = json!({ "spec": { "tenantAllocation": { "ranges": [
        { "start": "10.40.0.100", "end": "10.40.0.120" },
    ] } } });
    let refusal = pools
        .patch("rack", &PatchParams::default(), &Patch::Merge(&narrow))
        .await
        .expect_err("it leaves out what is in use")
        .to_string();
    assert!(
        refusal.contains("10.40.0.20/30 of IPAllocation first"),
        "{refusal}"
    );
    let refusal = pools
        .delete("rack", &DeleteParams::default())
        .await
        .expect_err("it is in use")
        .to_string();
    assert!(
        refusal.contains("in use by the IPAllocations first"),
        "{refusal}"
    );

    allocations
        .delete("first", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&allocations, "first", PATIENCE).await;
    let deleted = timeout(PATIENCE, async {
        while pools
            .delete("rack", &DeleteParams::default())
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
    });
    deleted.await.expect("nothing uses the pool any more");
    eventually_gone(&pools, "rack", PATIENCE).await;
}

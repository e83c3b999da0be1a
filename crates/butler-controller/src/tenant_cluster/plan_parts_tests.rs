//! What a tenant cluster needs beside its own objects: addresses, credentials, room within limits, a load balancer.

use butler_api::butler::{ip_allocation::IPAllocation, tenant_cluster::TenantClusterPhase};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{
    tests::{applied, plain, was_ready},
    *,
};
use crate::{
    cluster_api::MachineFacts,
    tenant_cluster::{
        growth::Demand,
        related::Related,
        scene::{begun, condition, lines, node, provider, ready, shop, world},
    },
    testing::at,
};

fn nutanix() -> serde_json::Value {
    json!({
        "provider": "nutanix",
        "clusterAPIProvider": "CAPX",
        "credentialsRef": { "name": "prism" },
        "nutanix": {
            "endpoint": "https://prism.example.com:9440/",
            "clusterUUID": "00061663-9fa0-28ca-185b-ac1f6b6f97e2",
            "subnetUUID": "c7938dc6-7659-453e-a688-e26020c68e43",
            "imageUUID": "9f7e1c2b-3d4e-4f5a-8b6c-7d8e9f0a1b2c",
        },
    })
}

/// The same, where CAPX has made the infrastructure.
fn by_capx(mut related: Related) -> Related {
    let infrastructure = related.infrastructure.as_mut().unwrap();
    infrastructure.kind = "NutanixCluster".to_owned();
    related
}

fn on_nutanix() -> World {
    let mut world = world(Related::default());
    let mut provider = provider(&nutanix());
    provider.status.get_or_insert_default().validated = Some(true);
    world.provider = Some(provider);
    world.credentials.source = Some(ObjectKey::namespaced("butler-system", "prism"));
    world
}

#[test]
fn credentials_are_copied_for_capx_and_anew_when_they_change() {
    let mut world = on_nutanix();
    let missing = plan(&plain(), &world, at(1));
    assert_eq!(
        condition(&missing, "InfrastructureReady"),
        "False CredentialsInvalid: the Secret butler-system/prism with the credentials of the provider does not exist; create it, or correct spec.credentialsRef of the ProviderConfig"
    );
    assert_eq!((missing.apply, missing.effects), (vec![], vec![]));
    world.credentials.version = Some("7".to_owned());
    let first = plan(&plain(), &world, at(1));
    let copies = |plan: &Plan<TenantClusterStatus, Effect>| {
        let lines = lines(plan);
        let copies = lines.lines().filter(|line| line.starts_with("copy "));
        copies.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(copies(&first), "copy butler-system/prism@7 first");
    world.credentials.copy = Some(credentials::CopySight {
        guard: ("copy".to_owned(), "9".to_owned()),
        copy: credentials::CopiedCredentials {
            copy_of: Some("butler-system/prism@7".to_owned()),
            is_intact: true,
        },
    });
    assert_eq!(copies(&plan(&plain(), &world, at(1))), "");
    world.credentials.version = Some("8".to_owned());
    assert_eq!(
        copies(&plan(&plain(), &world, at(1))),
        "copy butler-system/prism@8 anew"
    );
    assert_eq!(
        condition(&first, "NutanixCredentialsTrustBundle")
            .split(':')
            .next(),
        Some("False MissingTrustBundle")
    );
}

#[test]
fn nothing_is_made_where_nobody_can_log_in_and_what_is_made_works_on() {
    let mut world = on_nutanix();
    world.credentials.version = Some("7".to_owned());
    let status = json!({ "validated": false, "conditions": [{
        "type": "CredentialsValid", "status": "False", "reason": "CredentialsInvalid",
        "message": "the Secret butler-system/prism: the key password is missing; correct it",
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }] });
    let provider = world.provider.as_mut().unwrap();
    provider.status = serde_json::from_value(status).unwrap();
    let refused = plan(&plain(), &world, at(1));
    assert_eq!((refused.apply.len(), refused.effects.len()), (0, 0));
    assert_eq!(refused.status.phase, Some(TenantClusterPhase::Failed));
    assert_eq!(
        condition(&refused, "InfrastructureReady"),
        "False CredentialsInvalid: the ProviderConfig butler-system/default is not ready: the Secret butler-system/prism: the key password is missing; correct it"
    );
    let provider = world.provider.as_mut().unwrap();
    provider.status = None;
    let early = plan(&plain(), &world, at(1));
    assert_eq!(early.apply, []);
    assert_eq!(early.status.phase, Some(TenantClusterPhase::Pending));
    assert_eq!(
        condition(&early, "InfrastructureReady"),
        "False WaitingForDependencies: the credentials of the ProviderConfig butler-system/default are being checked"
    );
    world.related = by_capx(begun());
    assert!(!plan(&plain(), &world, at(1)).apply.is_empty());
}

#[test]
fn a_cluster_that_nobody_names_a_provider_for_takes_the_first_and_says_so() {
    let mut world = world(ready());
    world.candidates[0].name = "rack".to_owned();
    let provider = world.provider.as_mut().unwrap();
    provider.metadata.name = Some("rack".to_owned());
    let plan = plan(&plain(), &world, at(1));
    insta::assert_snapshot!(condition(&plan, "ProviderAccessGranted"), @"True Ready: machines come from the ProviderConfig butler-system/rack, because nobody names one, none is called default, and it is the first by name that the cluster may use");
    let taken = plan.status.provider_config_ref.unwrap();
    assert_eq!(taken.name, "rack");
}

#[test]
fn addresses_are_asked_for_once_and_hold_nothing_up() {
    let ipam = json!({ "provider": "local", "network": {
        "mode": "ipam",
        "poolRefs": [{ "name": "small" }, { "name": "rack", "priority": 1 }],
        "quotaPerTenant": { "maxLoadBalancerIPs": 6 },
    } });
    let mut world = world(ready());
    world.provider = Some(provider(&ipam));
    let pool = |name: &str, available: i32| -> butler_api::butler::network_pool::NetworkPool {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "butler-system" },
            "spec": { "cidr": if name == "rack" { "10.9.0.0/24" } else { "10.8.0.0/24" } },
            "status": { "availableIPs": available },
        }))
        .unwrap()
    };
    world.pools = vec![pool("small", 3), pool("rack", 5)];
    let exhausted = plan(&plain(), &world, at(1));
    assert_eq!(applied(&exhausted, "IPAllocation").len(), 0);
    assert_eq!(applied(&exhausted, "MachineDeployment").len(), 1);
    insta::assert_snapshot!(condition(&exhausted, "NetworkReady"), @"False PoolExhausted: no pool of its provider has 6 addresses left in one run: rack has 5, small has 3; enlarge a pool, add one to the ProviderConfig, or ask for fewer in spec.networking.lbPoolSize");
    world.pools = vec![pool("small", 30), pool("rack", 6)];
    let asked = plan(&plain(), &world, at(2));
    insta::assert_json_snapshot!(applied(&asked, "IPAllocation")[0], @r#"
    {
      "apiVersion": "butler.butlerlabs.dev/v1alpha1",
      "kind": "IPAllocation",
      "metadata": {
        "labels": {
          "butler.butlerlabs.dev/allocation-role": "initial",
          "butler.butlerlabs.dev/allocation-type": "loadbalancer",
          "butler.butlerlabs.dev/network-pool": "rack",
          "butler.butlerlabs.dev/team": "butler-tenants",
          "butler.butlerlabs.dev/tenant": "shop"
        },
        "name": "butler-tenants-shop-lb-fedcbdc4",
        "namespace": "butler-system"
      },
      "spec": {
        "count": 6,
        "poolRef": {
          "name": "rack"
        },
        "tenantClusterRef": {
          "name": "shop",
          "namespace": "butler-tenants"
        },
        "type": "loadbalancer"
      }
    }
    "#);
    let mut granted: butler_api::butler::ip_allocation::IPAllocation =
        serde_json::from_value(applied(&asked, "IPAllocation")[0].clone()).unwrap();
    granted.status = Some(
        serde_json::from_value(json!({
            "phase": "Allocated", "startAddress": "10.9.0.8", "endAddress": "10.9.0.13", "allocatedCount": 6,
        }))
        .unwrap(),
    );
    world.addresses = Some(granted);
    world.pools.clear();
    let settled = plan(&plain(), &world, at(3));
    assert_eq!(
        condition(&settled, "NetworkReady"),
        "True Ready: 10.9.0.8-10.9.0.13"
    );
    assert_eq!(
        applied(&settled, "IPAllocation"),
        applied(&asked, "IPAllocation"),
        "what was asked for stays as it is"
    );
}

/// The cluster `shop` on a provider whose ranges grow by need, with two addresses that are in use.
fn elastic(mut place: serde_json::Value) -> World {
    let mut world = world(ready());
    if place["clusterAPIProvider"] == "CAPX" {
        world.related = by_capx(world.related);
    }
    place["network"] = json!({
        "mode": "ipam",
        "poolRefs": [{ "name": "rack" }],
        "loadBalancer": { "allocationMode": "elastic" },
        "quotaPerTenant": { "maxLoadBalancerIPs": 4 },
    });
    world.provider = Some(provider(&place));
    world.pools = vec![
        serde_json::from_value(json!({
            "metadata": { "name": "rack", "namespace": "butler-system" },
            "spec": { "cidr": "10.9.0.0/24" },
            "status": { "availableIPs": 100, "largestFreeBlock": 100 },
        }))
        .unwrap(),
    ];
    let first = plan(&plain(), &world, at(1));
    let first = &applied(&first, "IPAllocation")[0];
    assert_eq!(first["spec"]["count"], 2, "it begins small");
    world.addresses = Some(granted(first, "10.9.0.1", "10.9.0.2", 1));
    world
}

/// An allocation that was asked for, when it is granted and in use.
fn granted(asked: &serde_json::Value, start: &str, end: &str, second: i64) -> IPAllocation {
    let mut body = asked.clone();
    body["metadata"]["finalizers"] = json!(["butler.butlerlabs.dev/addresses-in-use"]);
    body["metadata"]["uid"] = json!("uid");
    body["metadata"]["resourceVersion"] = json!("7");
    body["status"] = json!({
        "phase": "Allocated", "startAddress": start, "endAddress": end, "allocatedCount": 2,
        "allocatedAt": at(second).to_string(),
    });
    serde_json::from_value(body).unwrap()
}

#[test]
fn a_range_grows_for_services_that_wait_says_why_it_cannot_and_shrinks_again() {
    let mut world = elastic(json!({ "provider": "local" }));
    let cluster = was_ready(&json!({}));
    let calm = plan(&cluster, &world, at(200));
    assert_eq!(
        (condition(&calm, "NetworkReady").as_str(), calm.next),
        ("True Ready: 10.9.0.1-10.9.0.2", Next::AwaitChange)
    );
    world.demand = Some(Demand {
        services: 1,
        since: at(200),
    });
    let early = plan(&cluster, &world, at(210));
    assert_eq!(early.next, Next::After(std::time::Duration::from_secs(20)));
    assert_eq!(applied(&early, "IPAllocation").len(), 1);

    let grown = plan(&cluster, &world, at(230));
    insta::assert_snapshot!(condition(&grown, "NetworkReady"), @"True Ready: 10.9.0.1-10.9.0.2; 2 more are asked for");
    let asked = applied(&grown, "IPAllocation")[1].clone();
    assert_eq!(
        asked["metadata"]["name"],
        "butler-tenants-shop-lb-fedcbdc4-1"
    );
    let role = &asked["metadata"]["labels"]["butler.butlerlabs.dev/allocation-role"];
    assert_eq!(
        (role, &asked["spec"]["count"]),
        (&json!("growth"), &json!(2))
    );
    let mut further = granted(&asked, "10.9.0.7", "10.9.0.8", 231);
    world.added_addresses = vec![further.clone()];

    // All it may have is in use, and another Service waits: the pool is asked, and says why not.
    let full = plan(&cluster, &world, at(300));
    let refused = applied(&full, "IPAllocation")[2];
    assert_eq!(refused["spec"]["count"], 1);
    let mut refused: IPAllocation = serde_json::from_value(refused.clone()).unwrap();
    refused.status = serde_json::from_value(json!({
        "phase": "Failed",
        "conditions": [{
            "type": "Ready", "status": "False", "reason": "QuotaExceeded", "message": "the cluster may have 4 addresses and has 4",
            "lastTransitionTime": at(301).to_string(),
        }],
    }))
    .unwrap();
    world.added_addresses.push(refused.clone());
    let told = plan(&cluster, &world, at(302));
    insta::assert_snapshot!(condition(&told, "NetworkReady"), @"False QuotaExceeded: more addresses cannot be had: the cluster may have 4 addresses and has 4");
    insta::assert_snapshot!(condition(&told, "Ready"), @"True ReconcileDegraded: more addresses cannot be had: the cluster may have 4 addresses and has 4");
    assert_eq!(told.status.phase, Some(TenantClusterPhase::Ready));
    // On the way to be ready for the first time it is told as well, and holds nothing up.
    let young = plan(&plain(), &world, at(302));
    insta::assert_snapshot!(condition(&young, "NetworkReady"), @"True PoolExhausted: 10.9.0.1-10.9.0.2, 10.9.0.7-10.9.0.8; more addresses cannot be had: the cluster may have 4 addresses and has 4");

    // Nobody waits any more, and what was added is let go.
    world.demand = None;
    further.metadata.finalizers = None;
    let annotations = further.metadata.annotations.get_or_insert_default();
    let since = (
        "butler.butlerlabs.dev/addresses-unused-since".to_owned(),
        at(400).to_string(),
    );
    annotations.extend([since]);
    world.added_addresses = vec![further, refused];
    let waits = plan(&cluster, &world, at(999));
    assert_eq!(waits.next, Next::After(std::time::Duration::from_secs(1)));
    let back = |plan: &Plan<TenantClusterStatus, Effect>| {
        let lines = lines(plan);
        let back = lines.lines().filter(|line| line.starts_with("give back "));
        back.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(back(&waits), @"give back butler-system/butler-tenants-shop-lb-fedcbdc4-2");
    let released = plan(&cluster, &world, at(1000));
    insta::assert_snapshot!(back(&released), @r"
    give back butler-system/butler-tenants-shop-lb-fedcbdc4-2
    give back butler-system/butler-tenants-shop-lb-fedcbdc4-1
    ");
    assert_eq!(
        condition(&released, "NetworkReady"),
        "True Ready: 10.9.0.1-10.9.0.2"
    );
}

#[test]
fn where_butler_does_not_serve_services_itself_a_range_that_is_too_small_is_told() {
    let mut world = elastic(nutanix());
    world.demand = Some(Demand {
        services: 1,
        since: at(0),
    });
    let cluster = was_ready(&json!({}));
    let told = plan(&cluster, &world, at(200));
    assert_eq!(applied(&told, "IPAllocation").len(), 1);
    insta::assert_snapshot!(condition(&told, "NetworkReady"), @"True Ready: 10.9.0.1-10.9.0.2; it grows by itself only on local machines, where Butler serves Services: raise spec.networking.lbPoolSize if it is too small");
    let raised = was_ready(&json!({ "networking": { "lbPoolSize": 3 } }));
    let grown = plan(&raised, &world, at(201));
    assert_eq!(applied(&grown, "IPAllocation")[1]["spec"]["count"], 1);
}

#[test]
fn a_range_that_nobody_can_give_is_told_before_anything_is_made_and_holds_up_nothing_that_is() {
    let mut world = elastic(json!({ "provider": "local" }));
    world.addresses = None;
    let strange = json!({ "networking": {
        "loadBalancerPool": { "start": "192.168.7.10", "end": "192.168.7.20" },
    } });
    let standing = std::mem::take(&mut world.related);
    let refused = plan(&shop(&strange), &world, at(1));
    assert_eq!((refused.apply.len(), refused.effects.len()), (0, 0));
    assert_eq!(refused.status.phase, Some(TenantClusterPhase::Failed));
    let told = condition(&refused, "NetworkReady");
    insta::assert_snapshot!(told, @"False PinnedRangeOutside: spec.networking.loadBalancerPool: 192.168.7.10-192.168.7.20 is of no pool of its provider, and only addresses of these are served on local machines: rack (10.9.0.0/24); name addresses of a pool, or leave loadBalancerPool out");

    world.related = standing;
    let kept = plan(&was_ready(&strange), &world, at(200));
    assert_eq!(applied(&kept, "MachineDeployment").len(), 1);
    assert_eq!(kept.status.phase, Some(TenantClusterPhase::Ready));
    assert_eq!(condition(&kept, "NetworkReady"), told);
}

#[test]
fn addresses_stay_with_a_cluster_that_does_not_ask_for_them_any_more() {
    let mut world = world(ready());
    let key = ObjectKey::namespaced("butler-system", "butler-tenants-shop-lb-fedcbdc4");
    world.allocations = vec![(key.clone(), "uid".to_owned(), false)];
    let plan = plan(&plain(), &world, at(1));
    let Prune::UnlistedBut(kept) = &plan.prune else {
        panic!("{:?}", plan.prune);
    };
    assert!(
        kept.iter().any(|(_, kept)| *kept == key),
        "they may be announced"
    );
}

#[test]
fn names_that_run_together_do_not_share_addresses() {
    let provider = provider(&json!({ "provider": "local" }));
    let mut first = plain();
    let mut second = plain();
    (first.metadata.namespace, first.metadata.name) =
        (Some("a-b".to_owned()), Some("c".to_owned()));
    (second.metadata.namespace, second.metadata.name) =
        (Some("a".to_owned()), Some("b-c".to_owned()));
    let first = addresses::key(&first, &provider);
    let second = addresses::key(&second, &provider);
    assert_eq!(
        first.name.rsplit_once('-').unwrap().0,
        second.name.rsplit_once('-').unwrap().0
    );
    assert!(first != second, "{first} {second}");
}

#[test]
fn a_cluster_over_its_limits_works_on_and_does_not_grow() {
    let limited = json!({ "provider": "local", "limits": { "maxNodesPerTeam": 3 } });
    let mut world = world(ready());
    world.provider = Some(provider(&limited));
    let cluster = was_ready(&json!({ "workers": { "replicas": 9 } }));
    let grown = plan(&cluster, &world, at(200));
    assert_eq!(
        applied(&grown, "MachineDeployment")[0]["spec"]["replicas"],
        2
    );
    assert!(condition(&grown, "QuotaSatisfied").starts_with("False QuotaExceeded"));
    world.related = Related::default();
    let new = plan(
        &shop(&json!({ "workers": { "replicas": 9 } })),
        &world,
        at(1),
    );
    assert_eq!(new.apply, []);
    assert_eq!(new.status.phase, Some(TenantClusterPhase::Failed));
}

#[test]
fn a_control_plane_of_its_own_has_a_load_balancer_before_its_machines() {
    let parts = json!({ "controlPlane": { "mode": "Standalone", "replicas": 1 } });
    let first = plan(&shop(&parts), &world(Related::default()), at(1));
    let balancer = applied(&first, "LoadBalancerRequest");
    assert_eq!(balancer.len(), 1);
    let mut related = begun();
    let machine = MachineFacts {
        control_plane: true,
        deployment: None,
        addresses: vec!["172.30.0.9".to_owned()],
        ..node("v1.36.3")
    };
    related.machines.insert("shop-x".to_owned(), machine);
    let second = plan(&shop(&parts), &world(related), at(2));
    let balancer = applied(&second, "LoadBalancerRequest");
    assert_eq!(
        balancer[0]["spec"]["targets"],
        json!([{ "ip": "172.30.0.9" }])
    );
    assert_eq!(applied(&second, "KubeadmControlPlane").len(), 1);
}

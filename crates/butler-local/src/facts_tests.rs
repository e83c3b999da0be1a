use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn wish_of(metadata: &Value, spec: &Value) -> ServiceFacts {
    let mut body = json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": spec });
    body["metadata"]
        .as_object_mut()
        .unwrap()
        .extend(metadata.as_object().unwrap().clone());
    ServiceFacts::project(body).unwrap()
}

#[test]
fn services_of_other_classes_and_types_are_left_alone() {
    for (spec, ours) in [
        (json!({ "type": "LoadBalancer" }), true),
        (
            json!({ "type": "LoadBalancer", "loadBalancerClass": "butler.butlerlabs.dev/local" }),
            true,
        ),
        (
            json!({ "type": "LoadBalancer", "loadBalancerClass": "example.com/other" }),
            false,
        ),
        (json!({ "type": "ClusterIP" }), false),
    ] {
        assert_eq!(wish_of(&json!({}), &spec).balanced, ours, "{spec}");
    }
}

#[test]
fn an_address_is_asked_for_by_annotation_or_by_field() {
    let address = Wish::Address(Ipv4Addr::new(10, 213, 76, 9));
    let annotated = json!({ "annotations": {
        "butler.butlerlabs.dev/load-balancer-address": "10.213.76.9",
    } });
    let field = json!({ "loadBalancerIP": "10.213.76.9" });
    assert_eq!(wish_of(&json!({}), &json!({})).wish, Wish::Any);
    assert_eq!(wish_of(&json!({}), &field).wish, address);
    let other = json!({ "loadBalancerIP": "10.213.76.10" });
    assert_eq!(wish_of(&annotated, &other).wish, address);
}

#[test]
fn what_is_no_address_is_told_by_its_field() {
    for (spec, field) in [
        (
            json!({ "loadBalancerIP": "fd00::1" }),
            "spec.loadBalancerIP",
        ),
        (json!({ "ipFamilies": ["IPv6"] }), "spec.ipFamilies"),
    ] {
        let Wish::Impossible(message) = wish_of(&json!({}), &spec).wish else {
            panic!("{field} is no wish");
        };
        assert!(message.starts_with(field), "{message}");
    }
}

#[test]
fn a_node_is_known_by_its_first_ranges_and_its_inner_address() {
    let facts = NodeFacts::project(json!({
        "metadata": { "name": "worker" },
        "spec": { "podCIDRs": ["fd00::/64", "10.244.1.0/24"], "providerID": "butler-local://7", "unschedulable": true },
        "status": {
            "addresses": [
                { "type": "Hostname", "address": "worker" },
                { "type": "InternalIP", "address": "10.213.76.3" },
            ],
            "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z" },
                { "type": "MemoryPressure", "status": "False" },
            ],
        },
    }))
    .unwrap();
    let expected = NodeFacts {
        name: "worker".to_owned(),
        provider_id: Some("butler-local://7".to_owned()),
        addresses: BTreeSet::from([Ipv4Addr::new(10, 213, 76, 3)]),
        pods: Some("10.244.1.0/24".parse().unwrap()),
        ready: true,
        ready_since: Some(Timestamp::from_second(60).unwrap()),
        cordoned: true,
        excluded: false,
        deleting: false,
    };
    assert_eq!(facts, expected);
}

#[test]
fn endpoints_that_are_not_ready_do_not_count() {
    let facts = EndpointFacts::project(json!({
        "metadata": {
            "name": "web-x7",
            "namespace": "shop",
            "labels": { "kubernetes.io/service-name": "web" },
        },
        "addressType": "IPv4",
        "endpoints": [
            { "addresses": ["10.244.1.2"], "nodeName": "a", "conditions": { "ready": true } },
            { "addresses": ["10.244.2.2"], "nodeName": "b", "conditions": { "ready": false } },
            { "addresses": ["10.244.3.2"], "nodeName": "c" },
        ],
    }))
    .unwrap();
    assert_eq!(facts.service, Some(ObjectKey::namespaced("shop", "web")));
    assert_eq!(facts.nodes, ["a", "c"].map(str::to_owned).into());
}

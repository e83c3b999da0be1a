use butler_api::butler::ip_allocation::IPAllocation;
use serde_json::{Value, json};

use super::*;
use crate::testing::range;

fn allocation(metadata: &Value, status: Value) -> IPAllocation {
    let mut object = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "IPAllocation",
        "metadata": metadata,
        "spec": {
            "poolRef": { "name": "rack-1" },
            "tenantClusterRef": { "name": "b", "namespace": "a" },
            "type": "loadbalancer",
        },
    });
    object["status"] = status;
    serde_json::from_value(object).expect("allocation")
}

fn ready(status: &str, reason: &str, message: &str) -> Value {
    json!([{
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }])
}

fn stands(status: Value) -> Standing {
    standing(Some(&allocation(&json!({ "name": "x" }), status)))
}

#[test]
fn an_allocation_that_is_not_there_is_missing() {
    assert_eq!(standing(None), Standing::Missing);
}

#[test]
fn an_allocation_nobody_looked_at_waits_for_its_pool() {
    let message = "waiting for pool rack-1 to grant addresses".to_owned();
    assert_eq!(stands(Value::Null), Standing::Waiting { message });
}

#[test]
fn a_pending_allocation_says_what_it_waits_for() {
    let conditions = ready("False", "PoolNotFound", "pool rack-1 does not exist");
    let message = "pool rack-1 does not exist".to_owned();
    assert_eq!(
        stands(json!({ "phase": "Pending", "conditions": conditions })),
        Standing::Waiting { message }
    );
}

#[test]
fn a_grant_is_its_range_whatever_else_the_pool_says() {
    let granted = Standing::Granted {
        range: range("10.0.0.4-10.0.0.9"),
    };
    for conditions in [
        json!([]),
        ready("True", "Allocated", ""),
        ready("False", "PoolNotFound", "pool rack-1 does not exist"),
    ] {
        let status = json!({
            "phase": "Allocated",
            "startAddress": "10.0.0.4",
            "endAddress": "10.0.0.9",
            "conditions": conditions,
        });
        assert_eq!(stands(status), granted);
    }
}

#[test]
fn a_grant_without_addresses_is_not_one_yet() {
    assert!(matches!(
        stands(json!({ "phase": "Allocated" })),
        Standing::Waiting { .. }
    ));
    let unreadable = json!({ "phase": "Allocated", "startAddress": "?", "endAddress": "?" });
    assert!(matches!(stands(unreadable), Standing::Waiting { .. }));
}

#[test]
fn a_refusal_gives_reason_and_words() {
    let conditions = ready("False", "PoolExhausted", "no free address");
    assert_eq!(
        stands(json!({ "phase": "Failed", "conditions": conditions })),
        Standing::Refused {
            reason: "PoolExhausted".to_owned(),
            message: "no free address".to_owned(),
        }
    );
    assert!(matches!(
        stands(json!({ "phase": "Failed" })),
        Standing::Refused { reason, .. } if reason == "Failed"
    ));
}

#[test]
fn addresses_under_deletion_must_not_be_put_to_use() {
    let metadata = json!({ "name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z" });
    let status = json!({
        "phase": "Allocated",
        "startAddress": "10.0.0.4",
        "endAddress": "10.0.0.9",
    });
    assert_eq!(
        standing(Some(&allocation(&metadata, status))),
        Standing::Releasing
    );
    assert_eq!(stands(json!({ "phase": "Released" })), Standing::Releasing);
}

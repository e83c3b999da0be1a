//! Mistakes in pools, in what is asked of them and in their ledgers, when they are made and when they are changed.

use butler_testkit::ApiServer;
use kube::Client;

use super::Refusal;
use crate::manifests::Manifest;

pub(super) const REFUSALS: &[Refusal] = &[
    (
        "a pool of a network that is none",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.300/16}",
        &["spec.cidr", "must be a block in CIDR notation"],
    ),
    (
        "a pool with host bits",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.1.7/16}",
        &["spec.cidr", "must not have address bits beyond the prefix"],
    ),
    (
        "a pool of everything",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 0.0.0.0/0}",
        &[
            "spec.cidr",
            "must not be the whole address space: give a network such as 10.40.0.0/16",
        ],
    ),
    (
        "a pool of everything in IPv6",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: '::/0'}",
        &["spec.cidr", "must not be the whole address space"],
    ),
    (
        "a window backwards",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.1.200, end: 10.40.1.30}}",
        &["spec.tenantAllocation", "start must not come after end"],
    ),
    (
        "a window among several backwards",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: \
         {ranges: [{start: 10.40.2.0, end: 10.40.1.255}]}}",
        &[
            "spec.tenantAllocation.ranges[0]",
            "start must not come after end",
        ],
    ),
    (
        "half a window",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.1.200}}",
        &[
            "spec.tenantAllocation",
            "start and end must be given together",
        ],
    ),
    (
        "a window of two families",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.1.200, end: 'fd00::1'}}",
        &["start and end must both be IPv4 or both be IPv6"],
    ),
    (
        "a window outside of the network",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.41.0.1, end: 10.41.0.9}}",
        &["tenantAllocation: start and end must lie within cidr"],
    ),
    (
        "a reserved block outside of the network",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, reserved: [{cidr: 10.41.0.0/24}]}",
        &["reserved: each block must lie within cidr"],
    ),
    (
        "a reserved block of the other family",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, reserved: [{cidr: 'fd00::/64'}]}",
        &["reserved: each block must lie within cidr"],
    ),
    (
        "a window of the other family",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 'fd00::/64', tenantAllocation: {start: 10.40.1.30, end: 10.40.1.200}}",
        &["tenantAllocation: start and end must lie within cidr"],
    ),
    (
        "a window among several of the other family",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: \
         {ranges: [{start: 10.40.1.0, end: 10.40.1.255}, {start: 'fd00::1', end: 'fd00::9'}]}}",
        &["tenantAllocation.ranges: start and end of each range must lie within cidr"],
    ),
    (
        "addresses for nobody",
        "IPAllocation",
        "metadata: {name: lost}\nspec: {poolRef: {name: rack-1}, type: nodes}",
        &["tenantClusterRef or ownerRef is required"],
    ),
    (
        "addresses of no pool",
        "IPAllocation",
        "metadata: {name: lost}\nspec: {tenantClusterRef: {name: a, namespace: b}, type: nodes}",
        &["spec.poolRef", "Required value"],
    ),
    (
        "pinned addresses backwards",
        "IPAllocation",
        "metadata: {name: lost}\nspec: {poolRef: {name: rack-1}, tenantClusterRef: {name: a, namespace: b}, \
         type: loadbalancer, pinnedRange: {startAddress: 10.0.1.0, endAddress: 10.0.0.255}}",
        &[
            "spec.pinnedRange",
            "startAddress must not come after endAddress",
        ],
    ),
    (
        "no addresses at all",
        "IPAllocation",
        "metadata: {name: lost}\nspec: {poolRef: {name: rack-1}, tenantClusterRef: {name: a, namespace: b}, \
         type: nodes, count: 0}",
        &["spec.count", "greater than or equal to 1"],
    ),
    (
        "more addresses than one grant may have",
        "IPAllocation",
        "metadata: {name: lost}\nspec: {poolRef: {name: rack-1}, tenantClusterRef: {name: a, namespace: b}, \
         type: nodes, count: 65537}",
        &["spec.count", "less than or equal to 65536"],
    ),
    (
        "a ledger of no pool",
        "NetworkPoolLedger",
        "metadata: {name: rack-1-0}\nspec: {startAddress: 10.40.0.0, endAddress: 10.40.3.255}",
        &["spec.poolRef", "Required value"],
    ),
    (
        "a slice backwards",
        "NetworkPoolLedger",
        "metadata: {name: rack-1-0}\nspec: {poolRef: {name: rack-1}, startAddress: 10.40.3.255, endAddress: 10.40.0.0}",
        &["spec", "startAddress must not come after endAddress"],
    ),
    (
        "a grant of what is no address",
        "NetworkPoolLedger",
        "metadata: {name: rack-1-0}\nspec: {poolRef: {name: rack-1}, startAddress: 10.40.0.0, endAddress: 10.40.3.255, \
         entries: [{startAddress: 10.40.0.1, endAddress: last, allocation: {name: a, uid: u}}]}",
        &[
            "spec.entries[0].endAddress",
            "must be an IPv4 or IPv6 address",
        ],
    ),
    (
        "a grant to whoever has the name",
        "NetworkPoolLedger",
        "metadata: {name: rack-1-0}\nspec: {poolRef: {name: rack-1}, startAddress: 10.40.0.0, endAddress: 10.40.3.255, \
         entries: [{startAddress: 10.40.0.1, endAddress: 10.40.0.1, allocation: {name: a}}]}",
        &["spec.entries[0].allocation.uid", "Required value"],
    ),
];

/// Fails unless the change is refused with all these words.
async fn assert_refused(client: &Client, change: &Manifest, words: &[&str]) {
    let refusal = change.replace(client).await.expect_err("refused");
    for word in words {
        assert!(
            refusal.to_string().contains(word),
            "no {word:?} in {refusal}"
        );
    }
}

#[tokio::test]
async fn a_pool_can_be_widened_but_not_moved() {
    let server = ApiServer::shared().await;
    let client = server.client();
    let namespace = server.namespace("pool").await;
    let pool = |cidr: &str| {
        let name = namespace.name();
        Manifest::of_kind(
            "NetworkPool",
            &format!("metadata: {{name: rack-1, namespace: {name}}}\nspec: {{cidr: {cidr}}}"),
        )
    };
    pool("10.40.0.0/16")
        .create(&client, false)
        .await
        .expect("created");
    pool("10.0.0.0/8").replace(&client).await.expect("widened");
    let words = ["spec: Invalid value", "cidr can be widened"];
    for elsewhere in ["10.40.0.0/16", "192.168.0.0/16", "'fd00::/8'"] {
        assert_refused(&client, &pool(elsewhere), &words).await;
    }
}

#[tokio::test]
async fn an_allocation_keeps_what_it_asked_for() {
    let server = ApiServer::shared().await;
    let client = server.client();
    let namespace = server.namespace("allocation").await;
    let allocation = |more: &str| {
        let name = namespace.name();
        Manifest::of_kind(
            "IPAllocation",
            &format!(
                "metadata: {{name: nodes, namespace: {name}}}\nspec: {{poolRef: {{name: rack-1}}, type: nodes, \
                 tenantClusterRef: {{name: a, namespace: b}}{more}}}"
            ),
        )
    };
    let made = allocation(", count: 5");
    made.create(&client, false).await.expect("created");
    made.replace(&client).await.expect("the same again");
    for change in [
        ", count: 6",
        "",
        ", count: 5, pinnedRange: {startAddress: 10.40.1.1, endAddress: 10.40.1.5}",
        ", count: 5, ownerRef: {apiVersion: v1, kind: Node, name: node-1}",
    ] {
        let words = [
            "spec: Invalid value",
            "an allocation keeps its addresses: delete it and create another",
        ];
        assert_refused(&client, &allocation(change), &words).await;
    }
}

/// A ledger of rack-1 with the slice and the entries given.
fn ledger(namespace: &str, slice: &str, entries: usize) -> Manifest {
    use std::fmt::Write;

    let mut yaml = format!(
        "metadata: {{name: rack-1-0, namespace: {namespace}}}\nspec:\n  {slice}\n  entries:\n"
    );
    for entry in 0..entries {
        let address = format!("10.40.{}.{}", entry / 256, entry % 256);
        writeln!(
            yaml,
            "  - {{startAddress: {address}, endAddress: {address}, allocation: {{name: node-{entry}, uid: uid-{entry}}}}}"
        )
        .expect("text grows");
    }
    Manifest::of_kind("NetworkPoolLedger", &yaml)
}

#[tokio::test]
async fn a_ledger_stays_with_its_slice() {
    const SLICE: &str =
        "poolRef: {name: rack-1}\n  startAddress: 10.40.0.0\n  endAddress: 10.40.3.255";
    let server = ApiServer::shared().await;
    let client = server.client();
    let namespace = server.namespace("ledger").await;
    let made = ledger(namespace.name(), SLICE, 1);
    made.create(&client, false).await.expect("created");
    for (from, to) in [
        ("rack-1", "rack-2"),
        ("10.40.0.0", "10.40.1.0"),
        ("10.40.3.255", "10.40.7.255"),
    ] {
        let moved = ledger(namespace.name(), &SLICE.replace(from, to), 1);
        let words = [
            "spec: Invalid value",
            "poolRef, startAddress and endAddress cannot be changed: a ledger stays with its slice",
        ];
        assert_refused(&client, &moved, &words).await;
    }

    // Every address of a slice may be held by somebody else, and the rules then still are cheap enough.
    let full = ledger(namespace.name(), SLICE, 1024);
    full.replace(&client).await.expect("filled");
    let words = ["spec.entries", "must have at most 1024 items"];
    assert_refused(&client, &ledger(namespace.name(), SLICE, 1025), &words).await;
}

//! Three clusters of three kinds that come, change and go at the same time: the mission's own example, one with a control plane on
//! machines of its own, and a plain one.

use std::net::IpAddr;

use serde_json::json;

use super::{cluster::Cluster, small, unrest, workload};
use crate::kit::{Installation, eventually, note};

/// The team of the examples, and its namespace.
const TEAM: &str = "platform-engineering";
const MISSION: &str = include_str!("../../../../../examples/mission/tenantcluster.yaml");
const MISSION_TEAM: &str = include_str!("../../../../../examples/mission/team.yaml");
const STANDALONE: &str = include_str!("../../../../../examples/tenant-cluster-standalone.yaml");
/// Addresses of the local pool that nobody else is given soon: pools give out the lowest first.
const RANGE: (&str, &str) = ("10.213.95.200", "10.213.95.215");

/// The mission's own example.
fn production(installation: &Installation) -> Cluster<'_> {
    Cluster::new(installation, "production").of_team(TEAM)
}

/// One whose control plane is a machine.
fn ledger(installation: &Installation) -> Cluster<'_> {
    Cluster::new(installation, "ledger").of_team(TEAM)
}

/// One that says as little as possible.
fn corner(installation: &Installation) -> Cluster<'_> {
    Cluster::new(installation, "corner")
}

fn all(installation: &Installation) -> [Cluster<'_>; 3] {
    [
        production(installation),
        ledger(installation),
        corner(installation),
    ]
}

/// A text with parts of it changed, each of which must be there.
fn edited(text: &str, edits: &[(&str, &str)]) -> String {
    edits.iter().fold(text.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{from:?} in\n{text}");
        text.replace(from, to)
    })
}

/// The mission's example with what must be another on this host: a version that there is, machines of this host and its range,
/// and what serves pods and Services on them.
fn mission() -> String {
    let edits = [
        ("\"v1.30.2\"", "\"v1.36.3\""),
        (
            "spec:\n",
            "spec:\n  providerConfigRef: { name: local, namespace: butler-system }\n",
        ),
        ("10.40.1.100", RANGE.0),
        ("10.40.1.150", RANGE.1),
        ("provider: cilium", "provider: bridge"),
        ("provider: metallb", "provider: local"),
    ];
    edited(MISSION, &edits)
}

/// Teams have no controller of their own yet: the namespace of one is made by hand.
pub(super) fn team_is_there(installation: &Installation) {
    installation.apply(MISSION_TEAM);
    let made = installation.kubectl(&["create", "namespace", TEAM]);
    made.unwrap();
}

pub(super) fn comes(installation: &Installation) {
    unrest::during(installation, || {
        production(installation).wish(&mission());
        let few = [
            ("replicas: 3", "replicas: 1"),
            ("replicas: 2", "replicas: 1"),
        ];
        ledger(installation).wish(&edited(STANDALONE, &few));
        corner(installation).create(&small("1.36.3", 1));
        production(installation).becomes_ready(3);
        // The machine of the control plane is a node, too.
        ledger(installation).becomes_ready(2);
        corner(installation).becomes_ready(1);
    });
}

/// Each has addresses that are its own, and serves at one of them.
pub(super) fn has_addresses(installation: &Installation) {
    let clusters = all(installation);
    for cluster in &clusters {
        // Never without a pod, as the budget wants it: with one alone no worker could be drained.
        workload::serve(cluster, 2);
    }
    for cluster in &clusters {
        workload::answers(cluster);
    }
    let given = workload::ranges(&production(installation));
    let asked: (IpAddr, IpAddr) = (RANGE.0.parse().unwrap(), RANGE.1.parse().unwrap());
    assert_eq!(given, [asked], "exactly what it asks for");
    let owned = clusters.iter().flat_map(|cluster| {
        let ranges = workload::ranges(cluster).into_iter();
        ranges.map(|(first, last)| (first, last, cluster.name))
    });
    let mut owned: Vec<_> = owned.collect();
    owned.sort();
    note(&format!("{owned:?}"));
    assert!(owned.len() >= 3, "{owned:?}");
    for pair in owned.windows(2) {
        assert!(pair[0].1 < pair[1].0, "two have the same address: {pair:?}");
    }
}

pub(super) fn changes_and_goes(installation: &Installation) {
    let ledger = ledger(installation);
    let refused = ledger.try_to_go().expect_err("it is protected");
    assert!(refused.contains("deletion-protection"), "{refused}");
    unrest::during(installation, || {
        let workers = |count: usize| json!({ "workers": { "replicas": count } });
        production(installation).change(&workers(1));
        ledger.change(&workers(2));
        corner(installation).change(&workers(2));
        for (cluster, nodes) in all(installation).iter().zip([1, 3, 2]) {
            let what = format!("{} has {nodes} nodes", cluster.name);
            eventually(&what, || cluster.is_ready(nodes));
        }
        eventually("the protection is taken away", || {
            installation.kubectl(&[
                "annotate",
                "tenantcluster",
                "--namespace",
                ledger.home,
                ledger.name,
                "butler.butlerlabs.dev/deletion-protection-",
            ])
        });
        for cluster in all(installation) {
            cluster.ask_to_go();
        }
        for cluster in all(installation) {
            let what = format!("{} is gone", cluster.name);
            eventually(&what, || cluster.is_gone());
        }
    });
}

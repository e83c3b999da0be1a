//! What happens to a cluster after its first day.

use std::fs;

use serde_json::{Value, json};

use super::{
    NEW, OLD,
    cluster::Cluster,
    visitors::{Record, VISITORS, Visitors},
    workload,
};
use crate::{
    kit::{Installation, eventually, note},
    wounds,
};

/// So many visits are worth their name.
const MANY: u64 = 50;
/// How often an address moves when both workers are replaced, at most: away from each of the old ones.
const MOVES: usize = 2;

pub(super) fn scale(installation: &Installation) {
    let shop = Cluster::shop(installation);
    for workers in [4, 1, 2] {
        ask_for(&shop, workers);
        eventually(&format!("{workers} workers"), || shop.is_ready(workers));
        eventually(&format!("machines of {workers} workers"), || {
            let machines = installation.machines();
            let workers_there = machines.len() - 1;
            if workers_there == workers {
                Ok(())
            } else {
                Err(format!("{machines:?}"))
            }
        });
    }
    shop.rolled_out("default", "deployment/echo");
    workload::answers(&shop);
}

/// As many workers as the cluster begins with: machines that are to be made beside them take their time.
const FIRST: usize = 2;

/// Asks for so many workers, and waits. If there are to be more than ever, it asks what there is to wait for instead.
fn ask_for(shop: &Cluster<'_>, workers: usize) {
    let count = workers.to_string();
    if workers > FIRST {
        let said = shop.does("scale", &["--workers", &count, "--no-wait"]);
        assert_eq!(said, format!("shop gets {count} workers.\n"));
        let why = shop.does("why", &[]);
        let expected = format!(" of {count} workers are ready");
        for expected in [" and waits for:\n", "WorkersReady (", &expected] {
            assert!(why.contains(expected), "{expected:?} is missing in {why}");
        }
        return;
    }
    let said = shop.does_and_waits("scale", &["--workers", &count]);
    let are = if workers == 1 { "worker" } else { "workers" };
    assert_eq!(said, format!("shop has {count} {are}.\n"));
}

fn upgraded(shop: &Cluster<'_>) {
    let back = shop.is_refused("upgrade", &["--version", "v1.34.4"], 1);
    for expected in ["could not upgrade the cluster shop: ", "1.34.4"] {
        assert!(back.contains(expected), "{expected:?} is missing in {back}");
    }

    let nodes = versions(shop);
    assert!(
        nodes.iter().all(|version| *version == format!("v{OLD}")),
        "{nodes:?}"
    );
    let version = format!("v{NEW}");
    let said = shop.does_and_waits("upgrade", &["--version", &version]);
    assert_eq!(said, format!("shop has {version}.\n"));
    eventually("all nodes have the new version", || {
        let nodes = versions(shop);
        if nodes.len() == 2 && nodes.iter().all(|version| *version == format!("v{NEW}")) {
            Ok(())
        } else {
            Err(format!("{nodes:?}\n{}", shop.troubles()))
        }
    });
    eventually("the cluster is Ready", || shop.is_ready(2));
    shop.rolled_out("default", "deployment/echo");
}

pub(super) fn upgrade_among_visitors(installation: &Installation) {
    let shop = Cluster::shop(installation);
    let visitors = Visitors::begin(workload::answers(&shop));
    upgraded(&shop);
    // The last of the old machines may have had the address until now.
    let so_far = visitors.answered();
    eventually("visitors come and go", || {
        let answered = visitors.answered();
        let enough = answered >= so_far + MANY;
        enough.then_some(()).ok_or_else(|| answered.to_string())
    });
    let Record {
        answered,
        longest,
        again,
        in_vain,
    } = visitors.end();
    let longest = longest.as_secs_f32();
    note(&format!(
        "{answered} visits were answered, {again} of them at the second try, the slowest within {longest:.1}s"
    ));
    // Nobody is on more than one visit when the address moves.
    assert!(again <= MOVES * VISITORS, "{again} visits were cut off");
    assert!(
        in_vain.is_empty(),
        "{} visits were in vain, {answered} were answered:\n{}",
        in_vain.len(),
        in_vain.join("\n")
    );
}

pub(super) fn replaces_a_lost_worker(installation: &Installation) {
    let shop = Cluster::shop(installation);
    // As short as it may be: nobody wants to wait.
    shop.change(&json!({ "machineHealth": { "unhealthyTimeout": "30s" } }));
    let before = eventually("the nodes", || names_of_nodes(&shop));
    let lost = before.first().unwrap();
    lose(installation, lost);
    eventually("another worker in the place of the lost one", || {
        let now = names_of_nodes(&shop)?;
        if now.contains(lost) || now.len() != before.len() {
            return Err(format!("{lost} is lost; {now:?}\n{}", shop.troubles()));
        }
        shop.is_ready(before.len())
    });
    eventually("nothing is left of the lost one", || {
        let machines = installation.machines();
        let is_gone = !machines.contains(lost);
        is_gone.then_some(()).ok_or_else(|| format!("{machines:?}"))
    });
    shop.rolled_out("default", "deployment/echo");
    workload::answers(&shop);
}

/// A machine burns: nothing is left of it that could be started again.
fn lose(installation: &Installation, machine: &str) {
    let state = installation.state().join(installation.name);
    let record = state.join("host/machines").join(machine);
    fs::remove_file(record.join("machine.json")).unwrap();
    wounds::end(installation, machine);
    note(&format!("{machine} is lost"));
}

fn names_of_nodes(cluster: &Cluster<'_>) -> Result<Vec<String>, String> {
    let nodes = cluster.get(&["nodes"])?;
    let nodes = nodes["items"].as_array().unwrap().iter();
    let name = |node: &Value| node["metadata"]["name"].as_str().map(ToOwned::to_owned);
    Ok(nodes.filter_map(name).collect())
}

fn versions(cluster: &Cluster<'_>) -> Vec<String> {
    let nodes = eventually("the nodes", || cluster.get(&["nodes"]));
    let nodes = nodes["items"].as_array().unwrap().iter();
    let version = |node: &Value| {
        let version = node["status"]["nodeInfo"]["kubeletVersion"].as_str();
        version.unwrap_or_default().to_owned()
    };
    nodes.map(version).collect()
}

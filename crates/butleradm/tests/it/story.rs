//! A fresh host becomes a management cluster, is used, is hurt, mends itself, and is clean afterwards.
//!
//! One story in chapters: each stands on the one before, for a cluster takes a while to make.

use std::{fs, process::Command, time::Instant};

use butler_testkit::{requires, skip::Requirement};

use crate::{
    guests,
    kit::{Installation, alone, butler, note},
    network,
    traces::Traces,
    wounds,
};

type Chapter = fn(&Installation);

/// Whether this machine can run machines; if not, why.
pub(crate) fn unfit() -> Option<String> {
    let doctor = Command::new(env!("CARGO_BIN_EXE_butleradm"))
        .args(["doctor", "--range", "10.213.90.0/24"])
        .output()
        .unwrap();
    (!doctor.status.success()).then(|| String::from_utf8_lossy(&doctor.stdout).into_owned())
}

#[test]
fn a_fresh_host_becomes_a_management_cluster_and_is_clean_afterwards() {
    let _alone = alone();
    let unfit = unfit();
    requires!(Requirement::new(unfit.is_none(), unfit.unwrap_or_default()));
    let before = Traces::look();
    let installation = Installation::new("story", "10.213.90.0/24");
    let chapters: [(&str, Chapter); 10] = [
        ("up", up),
        ("a second up finds nothing to do", again),
        ("nodes are as large as they were asked to be", sizes),
        (
            "pods reach each other and a Service by its name",
            network::pods,
        ),
        (
            "a Service with an address answers, also after its machine is killed",
            network::load_balancer,
        ),
        (
            "a machine of Cluster API becomes a node, and both go",
            guests::cluster_api,
        ),
        (
            "a machine is made once, whenever the host process is killed",
            wounds::interrupted_machines,
        ),
        ("what is killed comes back", wounds::wounds),
        ("machines are listed, read and entered", machines),
        ("down", down),
    ];
    for (title, chapter) in chapters {
        let began = Instant::now();
        note(&format!("=== {title}"));
        chapter(&installation);
        note(&format!(
            "=== {title}: {:.1}s",
            began.elapsed().as_secs_f32()
        ));
    }
    before.assert_unchanged();
    assert!(!installation.kubeconfig().exists());
}

fn up(installation: &Installation) {
    let said = installation.well(&[
        "up",
        "--range",
        installation.range,
        "--workers",
        "2",
        "--cpus",
        "1",
        "--memory",
        "3Gi",
        "--butler-binary",
        &butler(),
    ]);
    assert!(said.starts_with("story is up after "), "{said}");
    let nodes = installation.kubectl(&["get", "nodes"]).unwrap();
    assert_eq!(nodes.matches(" Ready ").count(), 3, "{nodes}");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(installation.kubeconfig())
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    installation.well(&["status"]);
}

fn again(installation: &Installation) {
    let said = installation.well(&["up", "--butler-binary", &butler()]);
    assert!(said.starts_with("story is already up."), "{said}");
    let words = installation.refused(&[
        "up",
        "--range",
        "10.213.91.0/24",
        "--butler-binary",
        &butler(),
    ]);
    assert!(words.contains("cannot become 10.213.91.0/24"), "{words}");
}

fn sizes(installation: &Installation) {
    for node in installation.get(&["nodes"])["items"].as_array().unwrap() {
        let capacity = &node["status"]["capacity"];
        assert_eq!(capacity["cpu"], "1", "{capacity}");
        assert_eq!(capacity["memory"], "3Gi", "{capacity}");
    }
    let requests = installation.get(&["machinerequests", "--namespace", "butler-system"]);
    assert_eq!(requests["items"].as_array().unwrap().len(), 3);
    assert!(
        requests["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|request| request["status"]["phase"] == "Running")
    );
}

fn machines(installation: &Installation) {
    let list = installation.well(&["machine", "list"]);
    assert_eq!(list.matches("Running").count(), 3, "{list}");
    let logs = installation.well(&["machine", "logs", "story-cp-0", "--tail", "5"]);
    assert_eq!(logs.lines().count(), 5);
    let name = installation.well(&[
        "machine",
        "shell",
        "story-worker-1",
        "--",
        "cat",
        "/etc/hostname",
    ]);
    assert_eq!(name.trim(), "story-worker-1");
}

fn down(installation: &Installation) {
    let said = installation.well(&["down"]);
    assert!(said.contains("nothing of it is left"), "{said}");
    assert!(!installation.state().join("story").exists());
}

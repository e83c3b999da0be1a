//! What is killed comes back, once.

use std::{fs, process::Command};

use crate::kit::{Installation, butler, eventually, words};

/// Kills the first process of a machine, and with it all of the machine.
pub(crate) fn end(installation: &Installation, machine: &str) {
    let list = Command::new("runc")
        .arg("--root")
        .arg(
            installation
                .state()
                .join(installation.name)
                .join("host/runc"),
        )
        .args(["list", "--format", "json"])
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    let found = list
        .as_array()
        .unwrap()
        .iter()
        .find(|container| container["id"] == machine)
        .unwrap();
    kill(&found["pid"].to_string());
}

fn kill(pid: &str) {
    let ended = Command::new("sh")
        .args(["-c", &format!("kill -9 {pid}")])
        .status();
    assert!(ended.unwrap().success());
}

pub(crate) fn wounds(installation: &Installation) {
    // Inside of a machine: containerd and kubelet.
    for program in ["containerd", "kubelet"] {
        let shell = |script: &str| {
            let arguments = [
                "machine",
                "shell",
                "story-worker-0",
                "--",
                "sh",
                "-c",
                script,
            ];
            let output = installation.butleradm(&arguments).output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let look = format!(
            "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = {program} ] && echo ${{p#/proc/}}; done"
        );
        // The machine may be on its way back from the chapter before.
        let before = eventually(&format!("one {program} runs"), || {
            let found = shell(&look);
            if found.lines().count() == 1 {
                Ok(found)
            } else {
                Err(found)
            }
        });
        shell(&format!("kill -9 {before}"));
        eventually(&format!("{program} is started again"), || {
            let now = shell(&look);
            if now.is_empty() || now == before {
                Err(now)
            } else {
                Ok(())
            }
        });
    }
    // On the host: the process with its hands on the machines.
    kill_host_process(installation);
    eventually("everything is healthy", || {
        let output = installation.butleradm(&["status"]).output().unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stdout).into_owned())
        }
    });
    // Everything at once, as when the host is started anew.
    kill(&supervisor(installation));
    for machine in ["story-cp-0", "story-worker-0", "story-worker-1"] {
        end(installation, machine);
    }
    let ill = installation.butleradm(&["status"]).output().unwrap();
    let said = words(&ill);
    assert!(
        !ill.status.success(),
        "a killed installation is not healthy: {said}"
    );
    installation.well(&["up", "--butler-binary", &butler()]);
    eventually("all nodes are Ready again", || installation.ready_nodes(3));
}

/// Who keeps the host process running.
fn supervisor(installation: &Installation) -> String {
    let record = installation
        .state()
        .join(installation.name)
        .join("supervisor.json");
    let record: serde_json::Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    record["pid"].to_string()
}

/// Kills the host process, and waits until another is there.
fn kill_host_process(installation: &Installation) {
    let supervisor = supervisor(installation);
    let children = format!("/proc/{supervisor}/task/{supervisor}/children");
    let before = eventually("the host process runs", || {
        let found = fs::read_to_string(&children).unwrap();
        if found.trim().is_empty() {
            Err(found)
        } else {
            Ok(found)
        }
    });
    kill(before.trim());
    eventually("the host process is started again", || {
        let now = fs::read_to_string(&children).unwrap();
        if now.trim().is_empty() || now == before {
            Err(now)
        } else {
            Ok(())
        }
    });
}

/// How far a request may be when the host process is killed.
const MOMENTS: [&str; 3] = ["Pending", "Creating", "Running"];

/// One request after another, each met by a killed host process at another moment: each has one machine, and none stays.
pub(crate) fn interrupted_machines(installation: &Installation) {
    let before = installation.machines();
    for number in 0..MOMENTS.len() {
        let name = format!("torn-{number}");
        installation.apply(&format!(
            "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: MachineRequest
metadata: {{ name: {name}, namespace: butler-system }}
spec:
  providerRef: {{ name: local }}
  machineName: {name}
  role: worker
  cpu: 1
  memoryMB: 1024
  diskGB: 10
"
        ));
        let request = || {
            installation.get(&["machinerequest", &name, "--namespace", "butler-system"])["status"]
                .clone()
        };
        // It may be further than this moment by now: then that is the moment.
        eventually("a phase", || {
            let status = request();
            let at = |phase: &str| MOMENTS.iter().position(|known| *known == phase);
            match status["phase"].as_str().and_then(at) {
                Some(reached) if reached >= number => Ok(()),
                _ => Err(status.to_string()),
            }
        });
        kill_host_process(installation);
        eventually("the machine runs", || {
            let status = request();
            if status["phase"] == "Running" {
                Ok(())
            } else {
                Err(status.to_string())
            }
        });
        let now = installation.machines();
        assert_eq!(now.len(), before.len() + number + 1, "{now:?}");
    }
    installation
        .kubectl(&[
            "delete",
            "machinerequest",
            "--namespace",
            "butler-system",
            "--timeout=120s",
            "torn-0",
            "torn-1",
            "torn-2",
        ])
        .unwrap();
    assert_eq!(installation.machines(), before);
}

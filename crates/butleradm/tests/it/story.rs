//! A fresh host becomes a management cluster, is used, is hurt, mends itself, and is clean afterwards.
//!
//! One story in chapters: each stands on the one before, for a cluster takes a while to make.

use std::{fs, process::Command, time::Instant};

use butler_assets::{Resolver, Settings, Silent, images::OwnImage};
use butler_testkit::{requires, skip::Requirement};

use crate::kit::{Installation, Traces, eventually, show};

const ECHO_IMAGE: &str = "registry.example/tests/echo:v1";

type Chapter = fn(&Installation);

/// Whether this machine can run machines; if not, why.
fn unfit() -> Option<String> {
    let doctor = Command::new(env!("CARGO_BIN_EXE_butleradm"))
        .args(["doctor", "--range", "10.213.90.0/24"])
        .output()
        .unwrap();
    (!doctor.status.success()).then(|| String::from_utf8_lossy(&doctor.stdout).into_owned())
}

#[test]
fn a_fresh_host_becomes_a_management_cluster_and_is_clean_afterwards() {
    let unfit = unfit();
    requires!(Requirement::new(unfit.is_none(), unfit.unwrap_or_default()));
    let before = Traces::look();
    let installation = Installation::new("story", "10.213.90.0/24");
    let chapters: [(&str, Chapter); 8] = [
        ("up", up),
        ("a second up finds nothing to do", again),
        ("nodes are as large as they were asked to be", sizes),
        ("pods reach each other and a Service by its name", pods),
        (
            "a Service with an address answers, also after its machine is killed",
            load_balancer,
        ),
        ("what is killed comes back", wounds),
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
    assert_eq!(before, Traces::look(), "nothing is left");
    assert!(!installation.kubeconfig().exists());
}

fn note(text: &str) {
    eprintln!("{text}");
}

fn butler() -> String {
    let me = std::path::Path::new(env!("CARGO_BIN_EXE_butleradm"));
    me.with_file_name("butler").display().to_string()
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
    let refused = installation
        .butleradm(&[
            "up",
            "--range",
            "10.213.91.0/24",
            "--butler-binary",
            &butler(),
        ])
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
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

/// An image of the test's own program, as a user would bring one.
fn echo_image() -> std::path::PathBuf {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let own = OwnImage {
        reference: ECHO_IMAGE.to_owned(),
        executable: env!("CARGO_BIN_EXE_butleradm-test-echo").into(),
    };
    let resolver = Resolver::new(Settings::from_env().unwrap());
    runtime
        .block_on(resolver.own_image(own, &Silent))
        .unwrap()
        .path
}

fn pods(installation: &Installation) {
    let archive = echo_image();
    installation.well(&["image", "add", archive.to_str().unwrap()]);
    installation.apply(&format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{ name: echo }}
spec:
  replicas: 2
  selector: {{ matchLabels: {{ app: echo }} }}
  template:
    metadata: {{ labels: {{ app: echo }} }}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {{ matchLabels: {{ app: echo }} }}
      containers:
        - name: echo
          image: {ECHO_IMAGE}
          imagePullPolicy: Always
          args: [serve, "8080"]
          readinessProbe: {{ tcpSocket: {{ port: 8080 }} }}
---
apiVersion: v1
kind: Service
metadata: {{ name: echo }}
spec:
  selector: {{ app: echo }}
  ports: [{{ port: 80, targetPort: 8080 }}]
"#
    ));
    installation
        .kubectl(&["rollout", "status", "deployment/echo", "--timeout=120s"])
        .unwrap();
    let pods = installation.get(&["pods", "--selector", "app=echo"]);
    let pods = pods["items"].as_array().unwrap();
    let name = |pod: &serde_json::Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    let address = |pod: &serde_json::Value| pod["status"]["podIP"].as_str().unwrap().to_owned();
    assert_ne!(pods[0]["spec"]["nodeName"], pods[1]["spec"]["nodeName"]);
    let ask = |from: &serde_json::Value, place: &str| {
        installation.kubectl(&[
            "exec",
            &name(from),
            "--",
            "/usr/local/bin/butleradm-test-echo",
            "fetch",
            place,
        ])
    };
    let answer = eventually("the other pod", || {
        ask(&pods[0], &format!("{}:8080", address(&pods[1])))
    });
    assert_eq!(answer.trim(), name(&pods[1]));
    // Both endpoints answer sooner or later: with one of them missing, half of all connections would fail.
    let mut heard = std::collections::BTreeSet::new();
    for _ in 0..20 {
        heard.insert(
            ask(&pods[0], "echo.default.svc.cluster.local:80")
                .unwrap()
                .trim()
                .to_owned(),
        );
    }
    assert_eq!(heard, pods.iter().map(name).collect());
}

fn fetch(place: &str) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_butleradm-test-echo"))
        .args(["fetch", place])
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn load_balancer(installation: &Installation) {
    installation
        .kubectl(&[
            "expose",
            "deployment",
            "echo",
            "--name",
            "open",
            "--port",
            "80",
            "--target-port",
            "8080",
            "--type",
            "LoadBalancer",
        ])
        .unwrap();
    let address = eventually("an address of the Service", || {
        let service = installation.get(&["service", "open"]);
        let address = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        address
            .map(ToOwned::to_owned)
            .ok_or_else(|| service.to_string())
    });
    eventually("an answer of the Service", || {
        fetch(&format!("{address}:80"))
    });
    for closed in ["10250", "6443", "22"] {
        let reached = Command::new(env!("CARGO_BIN_EXE_butleradm-test-echo"))
            .args(["reach", &format!("{address}:{closed}")])
            .status()
            .unwrap();
        assert!(
            !reached.success(),
            "port {closed} of a Service that does not have it"
        );
    }
    let holder = holder_of(installation, &address);
    note(&format!("{address} is on {holder}"));
    end(installation, &holder);
    eventually("an answer after the machine is killed", || {
        fetch(&format!("{address}:80"))
    });
    eventually("the Service is deleted", || {
        installation.kubectl(&["delete", "service", "open", "--ignore-not-found"])
    });
    eventually("the address is given back", || {
        let allocations = installation
            .get(&["ipallocations", "--namespace", "butler-system"])
            .to_string();
        if allocations.contains(&address) {
            Err(allocations)
        } else {
            Ok(())
        }
    });
    eventually("all nodes are Ready again", || ready_nodes(installation, 3));
}

fn ready_nodes(installation: &Installation, count: usize) -> Result<(), String> {
    let nodes = installation.kubectl(&["get", "nodes"])?;
    if nodes.matches(" Ready ").count() == count {
        Ok(())
    } else {
        Err(nodes)
    }
}

/// The machine that has an address on its interface.
fn holder_of(installation: &Installation, address: &str) -> String {
    let machines = installation.well(&["machine", "list"]);
    let names = machines
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    let mut names = names.filter(|name| {
        let shown = installation.well(&[
            "machine", "shell", name, "--", "ip", "-4", "address", "show", "dev", "eth0",
        ]);
        shown.contains(&format!("inet {address}/32"))
    });
    names.next().expect("somebody has the address").to_owned()
}

/// Kills the first process of a machine, and with it all of the machine.
fn end(installation: &Installation, machine: &str) {
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

fn wounds(installation: &Installation) {
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
    let supervisor: serde_json::Value = serde_json::from_slice(
        &fs::read(installation.state().join("story/supervisor.json")).unwrap(),
    )
    .unwrap();
    let children =
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", supervisor["pid"])).unwrap();
    kill(children.trim());
    eventually("the host process is started again", || {
        let now =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", supervisor["pid"])).unwrap();
        if now.trim().is_empty() || now == children {
            Err(now)
        } else {
            Ok(())
        }
    });
    eventually("everything is healthy", || {
        let output = installation.butleradm(&["status"]).output().unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stdout).into_owned())
        }
    });
    // Everything at once, as when the host is started anew.
    kill(&supervisor["pid"].to_string());
    for machine in ["story-cp-0", "story-worker-0", "story-worker-1"] {
        end(installation, machine);
    }
    let ill = installation.butleradm(&["status"]).output().unwrap();
    show(&ill);
    assert!(
        !ill.status.success(),
        "a killed installation is not healthy"
    );
    installation.well(&["up", "--butler-binary", &butler()]);
    eventually("all nodes are Ready again", || ready_nodes(installation, 3));
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

//! Pods and Services: who reaches whom.

use std::{path::PathBuf, process::Command};

use butler_assets::{Resolver, Settings, Silent, images::OwnImage};

use crate::{
    kit::{Installation, eventually, note},
    wounds,
};

pub(crate) const ECHO_IMAGE: &str = "registry.example/tests/echo:v1";
/// Where its program is in the image.
pub(crate) const ECHO: &str = "/usr/local/bin/butleradm-test-echo";

/// An image of the test's own program, as a user would bring one.
pub(crate) fn echo_image() -> PathBuf {
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

pub(crate) fn pods(installation: &Installation) {
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
        installation.kubectl(&["exec", &name(from), "--", ECHO, "fetch", place])
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

pub(crate) fn load_balancer(installation: &Installation) {
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
    wounds::end(installation, &holder);
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
    eventually("all nodes are Ready again", || installation.ready_nodes(3));
}

/// The machine that has an address on its interface.
fn holder_of(installation: &Installation, address: &str) -> String {
    let mut names = installation.machines().into_iter();
    let holder = names.find(|name| {
        let shown = installation.well(&[
            "machine", "shell", name, "--", "ip", "-4", "address", "show", "dev", "eth0",
        ]);
        shown.contains(&format!("inet {address}/32"))
    });
    holder.expect("somebody has the address")
}

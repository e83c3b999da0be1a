//! A machine of this host that becomes a node of a hosted control plane, by nothing but `kubeadm join`.
//!
//! The process on the host gives a pod network to nodes of the management cluster alone. So this machine brings its own, as a
//! machine of any other infrastructure would: a configuration of CNI in its user data.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use butler_assets::{Asset, Component, Resolver, Settings};
use serde_json::{Value, json};

use super::tenant::Tenant;
use crate::{
    kit::{Installation, eventually, note, words},
    network::{ECHO, ECHO_IMAGE},
};

/// Where machines are asked for.
const MACHINES: &str = "butler-system";

/// The names of all machines that this story may have made.
const NAMES: [&str; 2] = ["shop-worker-0", "shop-worker-1"];

pub(super) fn joins(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    tenant.fetch_kubeconfig();
    // All of it: addons of the version before would have nodes for a moment, too.
    eventually("the tenant has what nodes need", || tenant.is_configured());
    join(&tenant, 0);
    // The overlap is no accident: pods of the tenant have the very addresses that pods of the management cluster have.
    let ranges = |nodes: &Value| -> Vec<String> {
        let nodes = nodes["items"].as_array().unwrap().iter();
        nodes
            .map(|node| node["spec"]["podCIDR"].as_str().unwrap().to_owned())
            .collect()
    };
    let own = ranges(&tenant.get(&["nodes"]).unwrap());
    let others = ranges(&installation.get(&["nodes"]));
    note(&format!(
        "pods of shop have {own:?}, of the management cluster {others:?}"
    ));
    assert_eq!(own, [pods_of(0)]);
    assert!(others.contains(&own[0]), "{others:?}");
}

pub(super) fn addons(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    for workload in [
        "daemonset/kube-proxy",
        "deployment/coredns",
        "daemonset/butler-tunnel-agent",
    ] {
        tenant.rolled_out("kube-system", workload);
    }
    tenant.apply(&format!(
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
      containers:
        - name: echo
          image: {ECHO_IMAGE}
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
    tenant.rolled_out("default", "deployment/echo");
    // By name and through the Service: CoreDNS answers, kube-proxy leads to a pod.
    let place = "echo.default.svc.cluster.local:80";
    let answer = eventually("an answer of the Service by its name", || {
        tenant.kubectl(&["exec", "deployment/echo", "--", ECHO, "fetch", place])
    });
    assert!(answer.starts_with("echo-"), "{answer}");
}

/// Makes a machine, lets it join and waits for its node. Gives the name of both.
pub(super) fn join(tenant: &Tenant<'_>, number: usize) -> &'static str {
    let name = NAMES[number];
    let command = join_command(tenant);
    tenant.installation.apply(&machine(name, number, &command));
    eventually(&format!("the node {name} is Ready"), || {
        is_ready(tenant, name).map_err(|shown| format!("{shown}\n{}", console(tenant, name)))
    });
    name
}

/// Removes all machines of the tenant, and their nodes from it.
pub(super) fn remove(tenant: &Tenant<'_>) {
    for name in NAMES {
        drop(tenant.kubectl(&["delete", "node", "--ignore-not-found", name]));
        let removed = tenant.installation.kubectl(&[
            "delete",
            "machinerequest",
            "--namespace",
            MACHINES,
            "--ignore-not-found",
            "--timeout=120s",
            name,
        ]);
        removed.unwrap();
    }
    let left = tenant.installation.machines();
    assert!(
        !left.iter().any(|name| NAMES.contains(&name.as_str())),
        "{left:?}"
    );
}

/// Whether a node says that it is ready.
pub(super) fn is_ready(tenant: &Tenant<'_>, name: &str) -> Result<(), String> {
    readiness(&tenant.get(&["node", name])?)
}

/// Whether a node that was read says that it is ready; else what it says.
pub(super) fn readiness(node: &Value) -> Result<(), String> {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
    match ready {
        Some(ready) if ready["status"] == "True" => Ok(()),
        _ => Err(node["status"]["conditions"].to_string()),
    }
}

/// The range of a machine's pods. The control plane gives ranges in this order.
fn pods_of(number: usize) -> String {
    format!("10.244.{number}.0/24")
}

/// What `kubeadm` of an administrator says has to be typed on a machine.
fn join_command(tenant: &Tenant<'_>) -> String {
    let output = tenant
        .installation
        .command(kubeadm())
        .args(["token", "create", "--print-join-command", "--ttl", "1h"])
        .arg("--kubeconfig")
        .arg(tenant.kubeconfig())
        .env("HOME", tenant.installation.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find(|line| line.starts_with("kubeadm join "));
    let line = line.map(str::trim).map(ToOwned::to_owned);
    line.unwrap_or_else(|| panic!("kubeadm names no command: {}", words(&output)))
}

/// The same version as the machines have.
fn kubeadm() -> &'static Path {
    static KUBEADM: OnceLock<PathBuf> = OnceLock::new();
    KUBEADM.get_or_init(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let resolver = Resolver::new(Settings::from_env().unwrap());
        let asset = Asset::default_of(Component::Kubeadm);
        runtime.block_on(resolver.resolve(&asset)).unwrap()
    })
}

/// The end of what a machine says.
fn console(tenant: &Tenant<'_>, name: &str) -> String {
    let mut logs = tenant
        .installation
        .butleradm(&["machine", "logs", name, "--tail", "20"]);
    words(&logs.output().unwrap())
}

/// A machine and what it is told. The token is nobody's to read, so it is in a Secret.
fn machine(name: &str, number: usize, join: &str) -> String {
    // kubeadm checks the control groups of the machine, which are those of the host.
    let command = format!("{join} --ignore-preflight-errors SystemVerification");
    let cloud_config = json!({
        "write_files": [{
            "path": "/etc/cni/net.d/10-pods.conflist",
            "permissions": "0644",
            "content": pod_network(number).to_string(),
        }],
        "runcmd": [command],
    });
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": format!("{name}-user-data"), "namespace": MACHINES },
        "stringData": { "value": format!("#cloud-config\n{cloud_config}\n") },
    });
    let request = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "MachineRequest",
        "metadata": { "name": name, "namespace": MACHINES },
        "spec": {
            "providerRef": { "name": "local" },
            "machineName": name,
            "role": "worker",
            "cpu": 2,
            "memoryMB": 3072,
            "diskGB": 10,
            "userDataSecretRef": { "name": format!("{name}-user-data") },
        },
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": [secret, request] }).to_string()
}

/// Pods on a bridge, hidden behind their machine where they leave it: nobody else knows where they are.
fn pod_network(number: usize) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipMasq": true,
                "ipMasqBackend": "nftables",
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": pods_of(number) }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
}

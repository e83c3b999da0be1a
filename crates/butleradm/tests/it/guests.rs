//! Cluster API knows the management cluster as a cluster of its own, and adds machines to it.

use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::kit::{Installation, eventually};

/// A machine that holds the place of a control plane: Cluster API lets no node go where it sees none.
const HOST: &str = "guest-host";
const GUEST: &str = "guest";

pub(crate) fn cluster_api(installation: &Installation) {
    let nodes = node_names(installation);
    installation.apply(&cluster(installation));
    installation.apply(&machine(
        HOST,
        "{ cluster.x-k8s.io/cluster-name: self, cluster.x-k8s.io/control-plane: \"\" }",
    ));
    installation.apply(&machine(GUEST, "{ cluster.x-k8s.io/cluster-name: self }"));
    for name in [HOST, GUEST] {
        eventually("the node of the machine", || {
            is_a_node(installation, name).inspect_err(|_| look_again(installation))
        });
    }
    eventually("all nodes are Ready", || {
        installation.ready_nodes(nodes.len() + 2)
    });
    let request = installation.get(&["machinerequest", GUEST]);
    assert_eq!(request["status"]["phase"], "Running");

    // One machine goes, and its node with it; who stays is not touched.
    delete(installation, &["machines.cluster.x-k8s.io", GUEST]);
    eventually("the node is gone", || is_no_node(installation, GUEST));
    assert!(!installation.machines().iter().any(|name| name == GUEST));
    assert!(is_a_node(installation, HOST).is_ok());

    // The whole cluster goes. Cluster API leaves the node of the last control plane machine; it goes with its machine.
    delete(installation, &["cluster", "self"]);
    eventually("the last node is gone", || is_no_node(installation, HOST));
    assert_eq!(node_names(installation), nodes);
    for kind in ["machinerequest", "butlermachine", "butlercluster"] {
        let left = installation.get(&[kind]);
        assert_eq!(left["items"], serde_json::json!([]), "{kind}");
    }
}

fn node_names(installation: &Installation) -> Vec<String> {
    let nodes = installation.kubectl(&["get", "nodes", "-o", "name"]);
    nodes.unwrap().lines().map(ToOwned::to_owned).collect()
}

fn delete(installation: &Installation, what: &[&str]) {
    let mut arguments = vec!["delete", "--timeout=180s"];
    arguments.extend(what);
    installation.kubectl(&arguments).unwrap();
}

fn is_a_node(installation: &Installation, name: &str) -> Result<(), String> {
    let machine = installation.get(&["machines.cluster.x-k8s.io", name]);
    if machine["status"]["nodeRef"]["name"] == name {
        return Ok(());
    }
    let below = installation.get(&["butlermachine", name]);
    Err(format!("{}\n{}", machine["status"], below["status"]))
}

/// Cluster API watches nodes once it knows of a control plane. Until then it finds the node of the one that stands in for it
/// only when something about its machine changes; a provider of control planes would see to that.
fn look_again(installation: &Installation) {
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    let looks = LOOKS.fetch_add(1, Ordering::Relaxed);
    let changed = installation.kubectl(&[
        "annotate",
        "--overwrite",
        "machines.cluster.x-k8s.io",
        HOST,
        &format!("story.butlerlabs.dev/looks={looks}"),
    ]);
    changed.unwrap();
}

fn is_no_node(installation: &Installation, name: &str) -> Result<(), String> {
    let nodes = node_names(installation);
    if nodes.contains(&format!("node/{name}")) {
        Err(nodes.join(" "))
    } else {
        Ok(())
    }
}

/// The cluster, its kubeconfig, and ready-made bootstrap data: a join by kubeadm.
fn cluster(installation: &Installation) -> String {
    let join = installation.well(&[
        "machine",
        "shell",
        "story-cp-0",
        "--",
        "kubeadm",
        "token",
        "create",
        "--print-join-command",
    ]);
    let words: Vec<&str> = join.split_whitespace().collect();
    let (server, token, authority) = (words[2], words[4], words[6]);
    let (host, port) = server.split_once(':').unwrap();
    let kubeconfig = fs::read_to_string(installation.kubeconfig()).unwrap();
    let kubeconfig: Vec<String> = kubeconfig
        .lines()
        .map(|line| format!("    {line}\n"))
        .collect();
    let kubeconfig = kubeconfig.concat();
    format!(
        r#"
apiVersion: v1
kind: Secret
metadata:
  name: self-kubeconfig
  labels: {{ cluster.x-k8s.io/cluster-name: self }}
type: cluster.x-k8s.io/secret
stringData:
  value: |
{kubeconfig}
---
apiVersion: v1
kind: Secret
metadata: {{ name: guest-bootstrap, labels: {{ cluster.x-k8s.io/cluster-name: self }} }}
type: cluster.x-k8s.io/secret
stringData:
  value: |
    ## template: jinja
    #cloud-config
    write_files:
      - path: /run/kubeadm/join.yaml
        permissions: "0600"
        content: |
          apiVersion: kubeadm.k8s.io/v1beta4
          kind: JoinConfiguration
          discovery:
            bootstrapToken: {{ apiServerEndpoint: "{server}", token: "{token}", caCertHashes: ["{authority}"] }}
          nodeRegistration:
            name: "{{{{ ds.meta_data.local_hostname }}}}"
            ignorePreflightErrors: [SystemVerification]
            kubeletExtraArgs:
              - {{ name: provider-id, value: "butler-local://{{{{ ds.meta_data.instance_id }}}}" }}
    runcmd:
      - kubeadm join --config /run/kubeadm/join.yaml
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: ButlerCluster
metadata: {{ name: self }}
spec:
  providerRef: {{ name: local, namespace: butler-system }}
  controlPlaneEndpoint: {{ host: "{host}", port: {port} }}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{ name: self }}
spec:
  controlPlaneEndpoint: {{ host: "{host}", port: {port} }}
  infrastructureRef: {{ apiGroup: infrastructure.cluster.x-k8s.io, kind: ButlerCluster, name: self }}
"#
    )
}

fn machine(name: &str, labels: &str) -> String {
    format!(
        "
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: ButlerMachine
metadata: {{ name: {name}, labels: {{ cluster.x-k8s.io/cluster-name: self }} }}
spec: {{ cpu: 1, memory: 2Gi, disk: 10Gi }}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {{ name: {name}, labels: {labels} }}
spec:
  clusterName: self
  version: v1.36.3
  bootstrap: {{ dataSecretName: guest-bootstrap }}
  infrastructureRef: {{ apiGroup: infrastructure.cluster.x-k8s.io, kind: ButlerMachine, name: {name} }}
"
    )
}

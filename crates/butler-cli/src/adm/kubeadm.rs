//! What kubeadm is told, and the user data in which a machine finds it.
//!
//! Owns: the configuration of clusters on local machines. What it says that is not kubeadm's default is there because a machine
//! is a container: it shares the host's kernel, disk and control groups.
//!
//! Must not: run anything. Everything here is a function of its arguments.

use std::{fmt, net::Ipv4Addr};

use butler_api::{
    name::{ClusterName, MachineName},
    version::KubernetesVersion,
};
use ipnet::Ipv4Net;
use serde_json::{Value, json};

/// Where the API server listens.
pub(crate) const API_SERVER_PORT: u16 = 6443;
/// Of containerd in a machine.
const CONTAINER_RUNTIME: &str = "unix:///run/containerd/containerd.sock";
/// The one check of kubeadm that a host with control groups of the first generation fails.
const IGNORED_CHECKS: [&str; 1] = ["SystemVerification"];
/// Written for kubeadm, read by nobody but root.
const CONFIGURATION: &str = "/run/kubeadm/kubeadm.yaml";
/// Where Cluster API's sign is.
const MARKER_DIRECTORY: &str = "/run/cluster-api";
/// Cluster API's sign that a machine has done what it was told.
const SUCCESS_MARKER: &str = "/run/cluster-api/bootstrap-success.complete";

/// A cluster that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterPlan {
    /// Name of the cluster.
    pub(crate) name: ClusterName,
    /// What it runs.
    pub(crate) version: KubernetesVersion,
    /// Addresses of pods.
    pub(crate) pods: Ipv4Net,
    /// Addresses of Services.
    pub(crate) services: Ipv4Net,
}

/// A machine that is to be a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePlan {
    /// Name of the machine and of the node.
    pub(crate) name: MachineName,
    /// On the bridge.
    pub(crate) address: Option<Ipv4Addr>,
    /// How the node and its machine recognise each other.
    pub(crate) provider_id: String,
}

/// What lets a machine join: it says that the cluster is the right one, and the cluster that the machine may come in.
#[derive(Clone)]
pub(crate) struct Ticket {
    /// Where the API server is.
    pub(crate) server: String,
    /// `abcdef.0123456789abcdef`.
    pub(crate) token: String,
    /// Digest of the authority's public key: `sha256:…`.
    pub(crate) authority: String,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ticket")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// User data of the first machine: it makes the cluster.
pub(crate) fn first_machine(
    cluster: &ClusterPlan,
    node: &NodePlan,
) -> Result<Vec<u8>, serde_saphyr::ser::Error> {
    user_data(
        &init_configuration(cluster, node)?,
        &format!("kubeadm init --skip-token-print --config {CONFIGURATION}"),
    )
}

/// What `kubeadm init` is told.
pub(crate) fn init_configuration(
    cluster: &ClusterPlan,
    node: &NodePlan,
) -> Result<String, serde_saphyr::ser::Error> {
    let address = node.address.map(|address| address.to_string());
    let documents = [
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "InitConfiguration",
            "localAPIEndpoint": { "advertiseAddress": address, "bindPort": API_SERVER_PORT },
            "nodeRegistration": registration(node, &json!([])),
        }),
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "clusterName": cluster.name.as_str(),
            "kubernetesVersion": cluster.version.to_string(),
            "networking": { "podSubnet": cluster.pods, "serviceSubnet": cluster.services },
        }),
        kubelet(),
        kube_proxy(),
    ];
    stream(&documents)
}

/// User data of a machine that joins.
pub(crate) fn joining_machine(
    ticket: &Ticket,
    node: &NodePlan,
) -> Result<Vec<u8>, serde_saphyr::ser::Error> {
    let document = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "apiServerEndpoint": ticket.server,
                "token": ticket.token,
                "caCertHashes": [ticket.authority],
            },
        },
        "nodeRegistration": registration(node, &Value::Null),
    });
    user_data(
        &stream(&[document])?,
        &format!("kubeadm join --config {CONFIGURATION}"),
    )
}

fn registration(node: &NodePlan, taints: &Value) -> Value {
    let mut arguments = vec![json!({ "name": "provider-id", "value": node.provider_id })];
    arguments.extend(
        node.address
            .map(|address| json!({ "name": "node-ip", "value": address })),
    );
    let mut registration = json!({
        "name": node.name.as_str(),
        "criSocket": CONTAINER_RUNTIME,
        "ignorePreflightErrors": IGNORED_CHECKS,
        "imagePullPolicy": "IfNotPresent",
        "kubeletExtraArgs": arguments,
    });
    // Without a taint the first machine takes pods like any other: it may be the only one.
    if !taints.is_null() {
        registration["taints"] = taints.clone();
    }
    registration
}

/// How kubelets of local machines are.
pub(crate) fn kubelet() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "failSwapOn": false,
        // The disk is the host's: that others fill it is no reason to delete images that nothing can pull again.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
    })
}

/// How kube-proxy of local machines is.
pub(crate) fn kube_proxy() -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        // The table of connections is the host's: its size is not for a machine to change.
        "conntrack": { "maxPerCore": 0, "min": 0 },
    })
}

/// Documents as kubeadm reads them, one after another.
fn stream(documents: &[Value]) -> Result<String, serde_saphyr::ser::Error> {
    let mut stream = String::new();
    for document in documents {
        stream.push_str("---\n");
        stream.push_str(&serde_saphyr::to_string(document)?);
    }
    Ok(stream)
}

fn user_data(configuration: &str, command: &str) -> Result<Vec<u8>, serde_saphyr::ser::Error> {
    let cloud_config = json!({
        "write_files": [{
            "path": CONFIGURATION,
            "owner": "root:root",
            "permissions": "0600",
            "content": configuration,
        }],
        // One command: the sign is not given when the work before it failed.
        "runcmd": [format!("{command} && mkdir -p {MARKER_DIRECTORY} && echo success > {SUCCESS_MARKER}")],
    });
    // Who writes it may not know the machine yet: what the machine knows of itself is put in when it is read.
    Ok(format!(
        "## template: jinja\n#cloud-config\n{}",
        serde_saphyr::to_string(&cloud_config)?
    )
    .into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(user_data: &[u8]) -> String {
        let text = std::str::from_utf8(user_data).unwrap();
        let document: Value = serde_saphyr::from_str(text).unwrap();
        let configuration = document["write_files"][0]["content"].as_str().unwrap();
        let command = document["runcmd"][0].as_str().unwrap();
        format!("{configuration}# {command}\n")
    }

    fn node(name: &str) -> NodePlan {
        NodePlan {
            name: name.parse().unwrap(),
            address: Some(Ipv4Addr::new(172, 30, 0, 2)),
            provider_id: "butler-local://6f9619ff-8b86-4d01-b42d-00cf4fc964ff".to_owned(),
        }
    }

    #[test]
    fn the_first_machine_is_told_to_make_the_cluster() {
        let cluster = ClusterPlan {
            name: "butler-local".parse().unwrap(),
            version: "1.36.3".parse().unwrap(),
            pods: "10.244.0.0/16".parse().unwrap(),
            services: "10.96.0.0/12".parse().unwrap(),
        };
        insta::assert_snapshot!(decoded(
            &first_machine(&cluster, &node("butler-local-cp-0")).unwrap()
        ));
    }

    #[test]
    fn a_worker_is_told_where_to_join() {
        let ticket = Ticket {
            server: "172.30.0.2:6443".to_owned(),
            token: "abcdef.0123456789abcdef".to_owned(),
            authority: "sha256:1f0a".to_owned(),
        };
        insta::assert_snapshot!(decoded(
            &joining_machine(&ticket, &node("butler-local-worker-0")).unwrap()
        ));
        assert!(
            !format!("{ticket:?}").contains("abcdef"),
            "a token is nobody's to read"
        );
    }
}

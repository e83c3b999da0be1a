//! What bootstrap tokens may do, and `kube-public/cluster-info`, which a machine reads before it trusts anybody.
//!
//! Tokens are made by others (`kubeadm token create`, Cluster API), and the tenant's controller manager signs `cluster-info` for
//! each of them: its controllers `bootstrapsigner` and `tokencleaner` must be switched on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::rights::{NODES, group, joining_nodes, user};
use super::{Workbench, yaml};
use crate::desired::DesiredObject;
use crate::facts::TenantFacts;
use crate::object::KUBE_PUBLIC;

/// Name of the `ConfigMap` that everybody may read.
pub(crate) const CLUSTER_INFO: &str = "cluster-info";

pub(crate) fn objects(workbench: Workbench<'_>) -> Vec<DesiredObject> {
    let mut objects = Vec::new();
    objects.push(workbench.cluster_role(
        "kubeadm:get-nodes",
        &json!([{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get"] }]),
    ));
    // May ask for a certificate; gets it without a person's approval; may renew it as a node.
    for (name, role, subject) in [
        ("kubeadm:get-nodes", "kubeadm:get-nodes", joining_nodes()),
        (
            "kubeadm:kubelet-bootstrap",
            "system:node-bootstrapper",
            joining_nodes(),
        ),
        (
            "kubeadm:node-autoapprove-bootstrap",
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            joining_nodes(),
        ),
        (
            "kubeadm:node-autoapprove-certificate-rotation",
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            group(NODES),
        ),
    ] {
        objects.push(workbench.cluster_binding(name, role, &subject));
    }
    objects.extend(workbench.reader_of_config_map(
        KUBE_PUBLIC,
        "kubeadm:bootstrap-signer-clusterinfo",
        CLUSTER_INFO,
        &[user("system:anonymous")],
    ));
    let data = json!({ "kubeconfig": kubeconfig(workbench.facts) });
    objects.push(workbench.config_map(KUBE_PUBLIC, CLUSTER_INFO, &data));
    objects
}

/// A kubeconfig of a cluster alone. It has no name: by that, readers find it without a context.
fn kubeconfig(facts: &TenantFacts) -> String {
    yaml(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "",
            "cluster": {
                "certificate-authority-data": STANDARD.encode(&facts.authority_pem),
                "server": facts.server_url(),
            },
        }],
        "contexts": null,
        "current-context": "",
        "users": null,
    }))
}

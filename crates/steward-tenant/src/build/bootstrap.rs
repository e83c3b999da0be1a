//! Bootstrap tokens, what they may do, and `kube-public/cluster-info`, which a machine reads before it trusts anybody.
//!
//! Signatures are ours for our own tokens, at once and without anybody's help. Tokens that others make (`kubeadm token
//! create`, Cluster API) are signed by the tenant's controller manager, with the very same text: its controllers
//! `bootstrapsigner` and `tokencleaner` must be switched on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};

use super::rights::{NODES, group, joining_nodes, user};
use super::{Workbench, yaml};
use crate::desired::DesiredObject;
use crate::facts::TenantFacts;
use crate::object::{KUBE_PUBLIC, KUBE_SYSTEM};
use crate::signature;
use crate::token::{BootstrapGroup, TokenGrant};

/// Name of the `ConfigMap` that everybody may read.
pub(crate) const CLUSTER_INFO: &str = "cluster-info";
/// Type of the Secrets that hold tokens.
const TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";

pub(crate) fn objects(workbench: Workbench<'_>, now: Timestamp) -> Vec<DesiredObject> {
    let valid: Vec<&TokenGrant> = workbench
        .facts
        .tokens
        .iter()
        .filter(|grant| grant.is_valid_at(now))
        .collect();
    let mut objects: Vec<_> = valid.iter().map(|grant| secret(workbench, grant)).collect();
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
    objects.push(cluster_info(workbench, &valid));
    objects
}

fn cluster_info(workbench: Workbench<'_>, tokens: &[&TokenGrant]) -> DesiredObject {
    let kubeconfig = kubeconfig(workbench.facts);
    let signatures = tokens
        .iter()
        .filter(|grant| grant.usage.signing)
        .map(|grant| {
            let key = format!("{}{}", signature::KEY_PREFIX, grant.token.id());
            (key, signature::sign(&kubeconfig, &grant.token).into())
        });
    let mut data: Map<String, Value> = signatures.collect();
    data.insert("kubeconfig".to_owned(), kubeconfig.into());
    workbench.config_map(KUBE_PUBLIC, CLUSTER_INFO, &Value::Object(data))
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

fn secret(workbench: Workbench<'_>, grant: &TokenGrant) -> DesiredObject {
    let mut data = Map::new();
    let mut put = |key: &str, value: &str| {
        data.insert(key.to_owned(), STANDARD.encode(value).into());
    };
    put("token-id", grant.token.id());
    put("token-secret", grant.token.expose_secret());
    if grant.usage.authentication {
        put("usage-bootstrap-authentication", "true");
        let groups: Vec<_> = grant.groups.iter().map(BootstrapGroup::as_str).collect();
        if !groups.is_empty() {
            put("auth-extra-groups", &groups.join(","));
        }
    }
    if grant.usage.signing {
        put("usage-bootstrap-signing", "true");
    }
    if let Some(expiry) = grant.expiry {
        // Whole seconds, as kubeadm writes it and its readers expect it.
        put(
            "expiration",
            &expiry.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        );
    }
    if let Some(description) = &grant.description {
        put("description", description);
    }
    workbench.object::<Secret>(json!({
        "metadata": {
            "namespace": KUBE_SYSTEM,
            "name": format!("bootstrap-token-{}", grant.token.id()),
        },
        "type": TOKEN_TYPE,
        "data": data,
    }))
}

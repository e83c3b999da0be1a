//! `kube-system/kubeadm-config`: what `kubeadm` reads about the cluster when a node joins or is upgraded.

use serde_json::{Value, json};

use super::rights::{NODES, group, joining_nodes};
use super::versions::reads_v1beta4;
use super::{Workbench, yaml};
use crate::desired::DesiredObject;
use crate::facts::{ImageOverride, TenantFacts};
use crate::object::KUBE_SYSTEM;

/// Name of the `ConfigMap`.
const NAME: &str = "kubeadm-config";
/// Where a control plane node would look for certificates; worker nodes find their authority beside it.
const CERTIFICATES_DIRECTORY: &str = "/etc/kubernetes/pki";
/// Stands for a store that is none of the tenant's business: without it, `kubeadm` would believe in an etcd of its own.
const STORE: &str = "http://127.0.0.1:2379";

pub(crate) fn objects(workbench: Workbench<'_>) -> Vec<DesiredObject> {
    let data = json!({ "ClusterConfiguration": yaml(&cluster_configuration(workbench.facts)) });
    let subjects = [joining_nodes(), group(NODES)];
    let [role, binding] = workbench.reader_of_config_map(
        KUBE_SYSTEM,
        "kubeadm:nodes-kubeadm-config",
        NAME,
        &subjects,
    );
    vec![
        workbench.config_map(KUBE_SYSTEM, NAME, &data),
        role,
        binding,
    ]
}

fn cluster_configuration(facts: &TenantFacts) -> Value {
    let list = |networks: &[butler_api::net::Cidr]| {
        networks
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    let api_server = if facts.certificate_names.is_empty() {
        json!({})
    } else {
        json!({ "certSANs": facts.certificate_names })
    };
    let configuration = json!({
        "kind": "ClusterConfiguration",
        "apiServer": api_server,
        "certificatesDir": CERTIFICATES_DIRECTORY,
        "clusterName": facts.name.as_str(),
        "controlPlaneEndpoint": facts.endpoint.to_string(),
        "controllerManager": {},
        "dns": facts.core_dns.as_ref().map_or_else(|| json!({}), dns),
        "etcd": { "external": { "endpoints": [STORE], "caFile": "", "certFile": "", "keyFile": "" } },
        "imageRepository": facts.image_registry,
        "kubernetesVersion": facts.version.to_string(),
        "networking": {
            "dnsDomain": facts.cluster_domain.as_str(),
            "podSubnet": list(&facts.pod_cidrs),
            "serviceSubnet": list(&facts.service_cidrs),
        },
        "scheduler": {},
    });
    if reads_v1beta4(&facts.version) {
        as_v1beta4(configuration, facts)
    } else {
        as_v1beta3(configuration)
    }
}

/// All that v1beta3 can say is in every configuration. It has no word for an addon that is not wanted.
fn as_v1beta3(mut configuration: Value) -> Value {
    configuration["apiVersion"] = "kubeadm.k8s.io/v1beta3".into();
    configuration
}

/// What v1beta4 says beyond it.
fn as_v1beta4(mut configuration: Value, facts: &TenantFacts) -> Value {
    configuration["apiVersion"] = "kubeadm.k8s.io/v1beta4".into();
    configuration["caCertificateValidityPeriod"] = "87600h0m0s".into();
    configuration["certificateValidityPeriod"] = "8760h0m0s".into();
    configuration["encryptionAlgorithm"] = "RSA-2048".into();
    // An addon that is not wanted must not be installed by `kubeadm` when it upgrades a node.
    let disabled = json!({ "disabled": true });
    if facts.core_dns.is_none() {
        configuration["dns"] = disabled.clone();
    }
    let proxy = facts.kube_proxy.as_ref().map(|_| json!({}));
    configuration["proxy"] = proxy.unwrap_or(disabled);
    configuration
}

fn dns(image: &ImageOverride) -> Value {
    let mut dns = json!({});
    if let Some(repository) = &image.repository {
        dns["imageRepository"] = repository.as_str().into();
    }
    if let Some(tag) = &image.tag {
        dns["imageTag"] = tag.as_str().into();
    }
    dns
}

//! `CoreDNS`: names of Services and pods.
//!
//! The Corefile is ours and is put right when somebody changes it. A tenant adds to it by a `ConfigMap` of its own,
//! `kube-system/coredns-custom`: keys that end in `.override` go into the main block, keys that end in `.server` are further
//! blocks. The number of replicas is ours only until somebody scales the Deployment.

use std::net::IpAddr;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::versions::core_dns_tag;
use super::{Workbench, image};
use crate::desired::{DesiredObject, Problem};
use crate::facts::{ImageOverride, KUBERNETES_REGISTRY};
use crate::object::KUBE_SYSTEM;

use super::rights::service_account;

const NAME: &str = "coredns";
const ROLE: &str = "system:coredns";
const SERVICE: &str = "kube-dns";
/// Settings of the tenant's own, which need not exist.
const CUSTOM: &str = "coredns-custom";
const CUSTOM_DIRECTORY: &str = "/etc/coredns-custom";
/// Without a file of each kind, `CoreDNS` would warn of it in its log twice a minute.
const NO_SETTINGS: &str = "# Settings of the tenant stand in the ConfigMap coredns-custom.\n";
const NO_OVERRIDES: &str = "none.override";
const NO_SERVERS: &str = "none.server";
/// Directory in the registry of the Kubernetes project.
const REPOSITORY: &str = "coredns";
const METRICS_PORT: u16 = 9153;
const HEALTH_PORT: u16 = 8080;
const READY_PORT: u16 = 8181;
/// What we begin with: one may go while a node is replaced.
const REPLICAS: u32 = 2;

pub(crate) fn objects(
    workbench: Workbench<'_>,
    addon: &ImageOverride,
) -> Result<Vec<DesiredObject>, Problem> {
    let addresses = service_addresses(&workbench.facts.dns_addresses());
    if addresses.is_empty() {
        return Err(Problem::NoDnsAddress);
    }
    let settings = json!({
        "Corefile": corefile(workbench.facts.cluster_domain.as_str()),
        NO_OVERRIDES: NO_SETTINGS,
        NO_SERVERS: NO_SETTINGS,
    });
    let account = service_account(KUBE_SYSTEM, NAME);
    Ok(vec![
        workbench.service_account(KUBE_SYSTEM, NAME),
        workbench.cluster_role(ROLE, &rules()),
        workbench.cluster_binding(ROLE, ROLE, &account),
        workbench.config_map(KUBE_SYSTEM, NAME, &settings),
        service(workbench, &addresses),
        deployment(workbench, addon),
    ])
}

/// A Service has one address of each family; further ones serve kubelets only.
fn service_addresses(all: &[IpAddr]) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in all {
        if !addresses
            .iter()
            .any(|other| other.is_ipv4() == address.is_ipv4())
        {
            addresses.push(*address);
        }
    }
    addresses
}

fn rules() -> Value {
    json!([
        {
            "apiGroups": [""],
            "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["list", "watch"],
        },
    ])
}

fn corefile(domain: &str) -> String {
    format!(
        "\
.:53 {{
    errors
    health {{
        lameduck 5s
    }}
    ready
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    prometheus :{METRICS_PORT}
    forward . /etc/resolv.conf {{
        max_concurrent 1000
    }}
    cache 30 {{
        disable success {domain}
        disable denial {domain}
    }}
    loop
    reload
    loadbalance
    import {CUSTOM_DIRECTORY}/*.override
}}
import {CUSTOM_DIRECTORY}/*.server
"
    )
}

fn service(workbench: Workbench<'_>, addresses: &[IpAddr]) -> DesiredObject {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let families: Vec<&str> = addresses
        .iter()
        .map(|address| if address.is_ipv4() { "IPv4" } else { "IPv6" })
        .collect();
    let policy = if addresses.len() > 1 {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    workbench.object::<Service>(json!({
        "metadata": {
            "namespace": KUBE_SYSTEM,
            "name": SERVICE,
            "annotations": {
                "prometheus.io/port": METRICS_PORT.to_string(),
                "prometheus.io/scrape": "true",
            },
            "labels": {
                "k8s-app": SERVICE,
                "kubernetes.io/cluster-service": "true",
                "kubernetes.io/name": "CoreDNS",
            },
        },
        "spec": {
            "clusterIP": texts.first(),
            "clusterIPs": texts,
            "ipFamilies": families,
            "ipFamilyPolicy": policy,
            "ports": [
                { "name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53 },
                { "name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53 },
                { "name": "metrics", "port": METRICS_PORT, "protocol": "TCP", "targetPort": METRICS_PORT },
            ],
            "selector": { "k8s-app": SERVICE },
        },
    }))
}

fn deployment(workbench: Workbench<'_>, addon: &ImageOverride) -> DesiredObject {
    let usual = format!("{KUBERNETES_REGISTRY}/{REPOSITORY}");
    let repository = addon.repository.as_deref().unwrap_or(&usual);
    let tag = addon
        .tag
        .as_deref()
        .unwrap_or_else(|| core_dns_tag(&workbench.facts.serving_version));
    workbench.object::<Deployment>(json!({
        "metadata": {
            "namespace": KUBE_SYSTEM,
            "name": NAME,
            "labels": { "k8s-app": SERVICE },
        },
        "spec": {
            "replicas": REPLICAS,
            "selector": { "matchLabels": { "k8s-app": SERVICE } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
            "template": {
                "metadata": { "labels": { "k8s-app": SERVICE } },
                "spec": pod(&image(repository, NAME, tag)),
            },
        },
    }))
}

fn pod(image: &str) -> Value {
    json!({
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "labelSelector": { "matchExpressions": [
                    { "key": "k8s-app", "operator": "In", "values": [SERVICE] },
                ] },
                "topologyKey": "kubernetes.io/hostname",
            },
        }] } },
        "containers": [{
            "name": NAME,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "args": ["-conf", "/etc/coredns/Corefile"],
            "livenessProbe": {
                "failureThreshold": 5,
                "httpGet": { "path": "/health", "port": "liveness-probe", "scheme": "HTTP" },
                "initialDelaySeconds": 60,
                "successThreshold": 1,
                "timeoutSeconds": 5,
            },
            "readinessProbe": {
                "httpGet": { "path": "/ready", "port": "readiness-probe", "scheme": "HTTP" },
            },
            "ports": [
                { "containerPort": 53, "name": "dns", "protocol": "UDP" },
                { "containerPort": 53, "name": "dns-tcp", "protocol": "TCP" },
                { "containerPort": METRICS_PORT, "name": "metrics", "protocol": "TCP" },
                { "containerPort": HEALTH_PORT, "name": "liveness-probe", "protocol": "TCP" },
                { "containerPort": READY_PORT, "name": "readiness-probe", "protocol": "TCP" },
            ],
            "resources": {
                "limits": { "memory": "170Mi" },
                "requests": { "cpu": "100m", "memory": "70Mi" },
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            },
            "volumeMounts": [
                { "mountPath": "/etc/coredns", "name": "config-volume", "readOnly": true },
                { "mountPath": CUSTOM_DIRECTORY, "name": "custom", "readOnly": true },
            ],
        }],
        "dnsPolicy": "Default",
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": NAME,
        "tolerations": [
            { "key": "CriticalAddonsOnly", "operator": "Exists" },
            { "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" },
        ],
        "volumes": [
            {
                "name": "config-volume",
                "configMap": { "name": NAME, "items": [{ "key": "Corefile", "path": "Corefile" }] },
            },
            {
                "name": "custom",
                "projected": { "sources": [
                    { "configMap": { "name": NAME, "items": [
                        { "key": NO_OVERRIDES, "path": NO_OVERRIDES },
                        { "key": NO_SERVERS, "path": NO_SERVERS },
                    ] } },
                    { "configMap": { "name": CUSTOM, "optional": true } },
                ] },
            },
        ],
    })
}

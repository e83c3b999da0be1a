//! kube-proxy: Services on every node.

use butler_api::keys::annotations;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::patch::{PatchError, patched};
use super::rights::{joining_nodes, service_account};
use super::{Workbench, image, yaml};
use crate::checksum::checksum;
use crate::desired::DesiredObject;
use crate::facts::{ImageOverride, KUBERNETES_REGISTRY, KubeProxyFacts, TenantFacts};
use crate::object::KUBE_SYSTEM;

const NAME: &str = "kube-proxy";
const KIND: &str = "KubeProxyConfiguration";
const DIRECTORY: &str = "/var/lib/kube-proxy";
/// Where a pod finds its own credentials.
const CREDENTIALS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A duration that leaves the choice to kube-proxy.
const ITS_CHOICE: &str = "0s";

pub(crate) fn objects(
    workbench: Workbench<'_>,
    addon: &KubeProxyFacts,
) -> Result<Vec<DesiredObject>, PatchError> {
    let facts = workbench.facts;
    let configuration = patched(KIND, configuration(facts), &addon.configuration_patches)?;
    let (configuration, kubeconfig) = (yaml(&configuration), yaml(&kubeconfig(facts)));
    let checksum = checksum([configuration.as_str(), kubeconfig.as_str()]);
    let config_map = workbench.object::<ConfigMap>(json!({
        "metadata": { "namespace": KUBE_SYSTEM, "name": NAME, "labels": { "app": NAME } },
        "data": { "config.conf": configuration, "kubeconfig.conf": kubeconfig },
    }));
    let account = service_account(KUBE_SYSTEM, NAME);
    let [role, binding] =
        workbench.reader_of_config_map(KUBE_SYSTEM, NAME, NAME, &[joining_nodes()]);
    Ok(vec![
        workbench.service_account(KUBE_SYSTEM, NAME),
        workbench.cluster_binding("kubeadm:node-proxier", "system:node-proxier", &account),
        role,
        binding,
        config_map,
        daemon_set(workbench, &addon.image, &checksum),
    ])
}

/// How loudly a component of Kubernetes speaks, left to its own defaults.
pub(crate) fn default_logging() -> Value {
    json!({
        "flushFrequency": 0,
        "options": { "json": { "infoBufferSize": "0" }, "text": { "infoBufferSize": "0" } },
        "verbosity": 0,
    })
}

/// The members are those that kubeadm writes, also where they leave the choice to kube-proxy: patches may replace them.
fn configuration(facts: &TenantFacts) -> Value {
    let main_is_ipv6 = facts
        .pod_cidrs
        .first()
        .is_some_and(butler_api::net::Cidr::is_ipv6);
    let pods: Vec<String> = facts.pod_cidrs.iter().map(ToString::to_string).collect();
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": KIND,
        "bindAddress": if main_is_ipv6 { "::" } else { "0.0.0.0" },
        "bindAddressHardFail": false,
        "clientConnection": {
            "acceptContentTypes": "",
            "burst": 0,
            "contentType": "",
            "kubeconfig": format!("{DIRECTORY}/kubeconfig.conf"),
            "qps": 0,
        },
        "clusterCIDR": pods.join(","),
        "configSyncPeriod": ITS_CHOICE,
        "conntrack": {
            "maxPerCore": null,
            "min": null,
            "tcpBeLiberal": false,
            "tcpCloseWaitTimeout": null,
            "tcpEstablishedTimeout": null,
            "udpStreamTimeout": ITS_CHOICE,
            "udpTimeout": ITS_CHOICE,
        },
        "detectLocal": { "bridgeInterface": "", "interfaceNamePrefix": "" },
        "detectLocalMode": "",
        "enableProfiling": false,
        "healthzBindAddress": "",
        "hostnameOverride": "",
        "iptables": {
            "localhostNodePorts": null,
            "masqueradeAll": false,
            "masqueradeBit": null,
            "minSyncPeriod": ITS_CHOICE,
            "syncPeriod": ITS_CHOICE,
        },
        "ipvs": {
            "excludeCIDRs": null,
            "minSyncPeriod": ITS_CHOICE,
            "scheduler": "",
            "strictARP": false,
            "syncPeriod": ITS_CHOICE,
            "tcpFinTimeout": ITS_CHOICE,
            "tcpTimeout": ITS_CHOICE,
            "udpTimeout": ITS_CHOICE,
        },
        "logging": default_logging(),
        "metricsBindAddress": "",
        "mode": "",
        "nftables": {
            "masqueradeAll": false,
            "masqueradeBit": null,
            "minSyncPeriod": ITS_CHOICE,
            "syncPeriod": ITS_CHOICE,
        },
        "nodePortAddresses": null,
        "oomScoreAdj": null,
        "portRange": "",
        "showHiddenMetricsForVersion": "",
        "winkernel": {
            "enableDSR": false,
            "forwardHealthCheckVip": false,
            "networkName": "",
            "rootHnsEndpointName": "",
            "sourceVip": "",
        },
    })
}

fn kubeconfig(facts: &TenantFacts) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "default",
            "cluster": {
                "certificate-authority": format!("{CREDENTIALS}/ca.crt"),
                "server": facts.server_url(),
            },
        }],
        "contexts": [{
            "name": "default",
            "context": { "cluster": "default", "namespace": "default", "user": "default" },
        }],
        "current-context": "default",
        "users": [{ "name": "default", "user": { "tokenFile": format!("{CREDENTIALS}/token") } }],
    })
}

fn daemon_set(workbench: Workbench<'_>, addon: &ImageOverride, checksum: &str) -> DesiredObject {
    let facts = workbench.facts;
    let repository = addon.repository.as_deref().unwrap_or(KUBERNETES_REGISTRY);
    let version = facts.serving_version.to_string();
    let image = image(repository, NAME, addon.tag.as_deref().unwrap_or(&version));
    workbench.object::<DaemonSet>(json!({
        "metadata": { "namespace": KUBE_SYSTEM, "name": NAME, "labels": { "k8s-app": NAME } },
        "spec": {
            "selector": { "matchLabels": { "k8s-app": NAME } },
            "updateStrategy": { "type": "RollingUpdate" },
            "template": {
                "metadata": {
                    "labels": { "k8s-app": NAME },
                    // kube-proxy reads its configuration once: other contents need other pods.
                    "annotations": { annotations::STEWARD_CHECKSUM: checksum },
                },
                "spec": pod(&image),
            },
        },
    }))
}

fn pod(image: &str) -> Value {
    json!({
        "containers": [{
            "name": NAME,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": [
                "/usr/local/bin/kube-proxy",
                format!("--config={DIRECTORY}/config.conf"),
                "--hostname-override=$(NODE_NAME)",
            ],
            "env": [{
                "name": "NODE_NAME",
                "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "spec.nodeName" } },
            }],
            "securityContext": { "privileged": true },
            "volumeMounts": [
                { "mountPath": DIRECTORY, "name": "kube-proxy" },
                { "mountPath": "/run/xtables.lock", "name": "xtables-lock" },
                { "mountPath": "/lib/modules", "name": "lib-modules", "readOnly": true },
            ],
        }],
        "hostNetwork": true,
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "priorityClassName": "system-node-critical",
        "serviceAccountName": NAME,
        "tolerations": [{ "operator": "Exists" }],
        "volumes": [
            { "name": "kube-proxy", "configMap": { "name": NAME } },
            { "name": "xtables-lock", "hostPath": { "path": "/run/xtables.lock", "type": "FileOrCreate" } },
            { "name": "lib-modules", "hostPath": { "path": "/lib/modules" } },
        ],
    })
}

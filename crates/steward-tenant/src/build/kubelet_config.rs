//! `kube-system/kubelet-config`: what joining kubelets are configured with.

use butler_api::steward::kubernetes::CgroupDriver;
use serde_json::{Value, json};

use super::patch::{PatchError, patched};
use super::rights::{NODES, group, joining_nodes};
use super::{Workbench, yaml};
use crate::desired::DesiredObject;
use crate::facts::TenantFacts;
use crate::object::KUBE_SYSTEM;

/// Name of the `ConfigMap`.
const NAME: &str = "kubelet-config";
const KIND: &str = "KubeletConfiguration";
/// A duration that leaves the choice to the kubelet.
const KUBELETS_CHOICE: &str = "0s";

pub(crate) fn objects(workbench: Workbench<'_>) -> Result<Vec<DesiredObject>, PatchError> {
    let facts = workbench.facts;
    let configuration = patched(KIND, configuration(facts), &facts.kubelet_patches)?;
    // Without the annotation by which kubeadm knows its own unchanged defaults, so that it takes this as it is.
    let data = json!({ "kubelet": yaml(&configuration) });
    let subjects = [group(NODES), joining_nodes()];
    let [role, binding] =
        workbench.reader_of_config_map(KUBE_SYSTEM, "kubeadm:kubelet-config", NAME, &subjects);
    Ok(vec![
        workbench.config_map(KUBE_SYSTEM, NAME, &data),
        role,
        binding,
    ])
}

/// The members are those that kubeadm writes, also where they leave the choice to the kubelet: patches may replace them.
fn configuration(facts: &TenantFacts) -> Value {
    let cgroup_driver = facts.cgroup_driver.unwrap_or(CgroupDriver::Systemd);
    let dns: Vec<String> = facts
        .dns_addresses()
        .iter()
        .map(ToString::to_string)
        .collect();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": KIND,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "cacheTTL": KUBELETS_CHOICE, "enabled": true },
            "x509": { "clientCAFile": "/etc/kubernetes/pki/ca.crt" },
        },
        "authorization": {
            "mode": "Webhook",
            "webhook": {
                "cacheAuthorizedTTL": KUBELETS_CHOICE,
                "cacheUnauthorizedTTL": KUBELETS_CHOICE,
            },
        },
        "cgroupDriver": cgroup_driver,
        "clusterDNS": dns,
        "clusterDomain": facts.cluster_domain.as_str(),
        "containerRuntimeEndpoint": "",
        "cpuManagerReconcilePeriod": KUBELETS_CHOICE,
        "crashLoopBackOff": {},
        "evictionPressureTransitionPeriod": KUBELETS_CHOICE,
        "fileCheckFrequency": KUBELETS_CHOICE,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": 10248,
        "httpCheckFrequency": KUBELETS_CHOICE,
        "imageMaximumGCAge": KUBELETS_CHOICE,
        "imageMinimumGCAge": KUBELETS_CHOICE,
        "logging": super::kube_proxy::default_logging(),
        "memorySwap": {},
        "nodeStatusReportFrequency": KUBELETS_CHOICE,
        "nodeStatusUpdateFrequency": KUBELETS_CHOICE,
        "rotateCertificates": true,
        "runtimeRequestTimeout": KUBELETS_CHOICE,
        "shutdownGracePeriod": KUBELETS_CHOICE,
        "shutdownGracePeriodCriticalPods": KUBELETS_CHOICE,
        "staticPodPath": "/etc/kubernetes/manifests",
        "streamingConnectionIdleTimeout": KUBELETS_CHOICE,
        "syncFrequency": KUBELETS_CHOICE,
        "volumeStatsAggPeriod": KUBELETS_CHOICE,
    })
}

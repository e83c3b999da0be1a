//! Machines of the local provider: containers of one host that hold a whole node.
//!
//! They have no accounts, and the time of their host: a key and time servers have nobody to read them.

use serde_json::{Value, json};

use super::{Order, Recipe, file, hosts_file};

/// Where the machine's data says which address it has. Without a route to everywhere kubelet could not find it by itself.
pub(super) const ADDRESS: &str = "{{ ds.meta_data.local_ipv4 }}";

const SETTINGS_FILE: &str = "/etc/butler/kubeadm-settings.yaml";

/// Adds settings to those that kubeadm makes a cluster with. A machine that joins reads them from the cluster.
const ADD_SETTINGS: &str = "test ! -f /run/kubeadm/kubeadm.yaml || \
    cat /etc/butler/kubeadm-settings.yaml >> /run/kubeadm/kubeadm.yaml";

/// Lets the machine know names that no DNS has to know.
const ADD_HOSTS: &str = "grep --quiet --fixed-strings --file /opt/butler/hosts /etc/hosts || \
    cat /opt/butler/hosts >> /etc/hosts";

pub(super) fn recipe(order: &Order<'_>) -> Recipe {
    let mut recipe = Recipe::default();
    let node = json!({
        "criSocket": "unix:///run/containerd/containerd.sock",
        // The one check that fails on control groups of the first generation.
        "ignorePreflightErrors": ["SystemVerification"],
    });
    recipe
        .node
        .extend(node.as_object().cloned().unwrap_or_default());
    recipe.arguments.push(("node-ip", ADDRESS.to_owned()));
    if let Some(hosts) = hosts_file(order.blueprint) {
        recipe.files.push(hosts);
        recipe.commands.push(ADD_HOSTS.to_owned());
    }
    if order.is_control_plane {
        recipe.files.push(file(SETTINGS_FILE, "0644", settings()));
        recipe.commands.push(ADD_SETTINGS.to_owned());
    }
    recipe
}

/// Settings of kubelet on such machines, beside its control group driver. The disk is the host's: nothing here can make room
/// on it, and what is deleted cannot be pulled again.
pub(in super::super) fn kubelet_settings() -> [(&'static str, Value); 4] {
    [
        ("failCgroupV1", json!(false)),
        ("failSwapOn", json!(false)),
        ("imageGCHighThresholdPercent", json!(100)),
        (
            "evictionHard",
            json!({
                "imagefs.available": "0%",
                "imagefs.inodesFree": "0%",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
            }),
        ),
    ]
}

/// Settings of kubelet and kube-proxy that a hosted control plane would have been told. JSON is YAML.
fn settings() -> String {
    let mut kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
    });
    for (name, value) in kubelet_settings() {
        kubelet[name] = value;
    }
    let proxy = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "conntrack": { "maxPerCore": 0, "min": 0 },
    });
    format!("\n---\n{kubelet}\n---\n{proxy}\n")
}

//! What machines do first: become a node, by kubeadm, on each operating system.
//!
//! | system | what the image must have | what is done here |
//! |---|---|---|
//! | [`local`] | all of it: it is made by our own provider | nothing but kubeadm's own settings |
//! | [`rocky`] | cloud-init | kernel settings; containerd, kubelet and kubeadm of the exact version, unless the image has them |
//! | [`flatcar`] | Ignition, containerd (all of Flatcar's have both); Cluster API its gate `KubeadmBootstrapFormatIgnition` | kernel settings; kubelet and kubeadm of the exact version |
//! | [`kairos`] | cloud-init, containerd, kubelet and kubeadm of the exact version: its system cannot be changed | kernel settings; a check of the versions |
//! | [`bottlerocket`] | kubelet of that minor version (there is an image for each) | nothing but what becomes its settings |
//!
//! Of machines of Butler's own providers, the name and the identity are left to be filled in: by cloud-init where there is one,
//! else by the controller of `ButlerMachine`, which also turns all this into settings for Bottlerocket.
//!
//! Cloud-config passes through the template engine of cloud-init, which reads double braces, and braces with a percent sign or
//! a hash: no script here may have any of them but for `ds.meta_data`.

mod bottlerocket;
mod flatcar;
mod kairos;
mod local;
mod rocky;

use butler_api::{
    butler::tenant_cluster::NodeTaint, normalize::tenant_cluster::set_by_kubelet, provider_id,
    version::KubernetesVersion,
};
use butler_runtime::object::Manifest;
use serde_json::{Map, Value, json};

use super::{templates::named_by_content, without_empty};
use crate::tenant_cluster::{
    blueprint::{Blueprint, ControlPlane, Infrastructure, Pool, Standalone, System, template_word},
    kinds,
};

pub(super) use local::kubelet_settings as local_kubelet_settings;

/// What cloud-init knows as the machine's name, or the controller of `ButlerMachine` fills in.
const HOST_NAME: &str = "{{ ds.meta_data.local_hostname }}";

/// What cloud-init knows as the machine's identity at its provider, or the controller of `ButlerMachine` fills in.
const INSTANCE: &str = "{{ ds.meta_data.instance_id }}";

/// The identity of a machine that CAPX makes. Nothing but the machine's firmware knows the end of it, so the machine fills it in.
const NUTANIX_IDENTITY: &str = "nutanix://MACHINE-IDENTITY";

/// Account of who may log in, where the system has none of its own.
const ACCOUNT: &str = "butler";

/// Files of ours on a machine.
pub(crate) const HOSTS_FILE: &str = "/opt/butler/hosts";
const PREPARE_FILE: &str = "/opt/butler/prepare-node";

/// What a system needs beside kubeadm's own settings.
#[derive(Debug, Default)]
struct Recipe {
    format: Option<&'static str>,
    files: Vec<Value>,
    commands: Vec<String>,
    /// Settings of the node that come from the system.
    node: Map<String, Value>,
    /// Arguments of kubelet that come from the system.
    arguments: Vec<(&'static str, String)>,
    users: Vec<Value>,
    time: Value,
}

/// What a recipe is made for.
struct Order<'a> {
    blueprint: &'a Blueprint,
    system: System,
    version: &'a KubernetesVersion,
    ssh_authorized_key: Option<&'a str>,
    /// Whether the machine may be the one that makes the cluster.
    is_control_plane: bool,
}

/// The first steps of a pool's machines.
pub(super) fn of_pool(blueprint: &Blueprint, pool: &Pool) -> Manifest {
    let order = Order {
        blueprint,
        system: pool.system,
        version: &pool.version,
        ssh_authorized_key: pool.ssh_authorized_key.as_deref(),
        is_control_plane: false,
    };
    let recipe = recipe(&order);
    let labels = pool.labels.iter().filter(|(key, _)| set_by_kubelet(key));
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let mut node = node(&order, &recipe, &labels.join(","));
    if !pool.taints.is_empty() {
        node["taints"] = pool.taints.iter().map(taint).collect();
    }
    let mut spec = shared(&recipe);
    spec["joinConfiguration"] = json!({ "nodeRegistration": node });
    let spec = json!({ "template": { "spec": without_empty(spec) } });
    let kind = kinds::kubeadm_config_template();
    named_by_content(blueprint, kind, template_word(&pool.name), &spec)
}

/// The first steps of the machines of a control plane: the first one makes the cluster, the others join it.
pub(super) fn of_control_plane(blueprint: &Blueprint, wish: &Standalone) -> Value {
    let order = Order {
        blueprint,
        system: wish.system,
        version: &blueprint.version,
        ssh_authorized_key: wish.ssh_authorized_key.as_deref(),
        is_control_plane: true,
    };
    let recipe = recipe(&order);
    let node = node(&order, &recipe, "");
    let mut spec = shared(&recipe);
    let mut init = json!({ "nodeRegistration": node });
    let mut join = json!({ "nodeRegistration": node });
    if wish.system == System::Local {
        let endpoint = json!({ "advertiseAddress": local::ADDRESS });
        init["localAPIEndpoint"] = endpoint.clone();
        join["controlPlane"] = json!({ "localAPIEndpoint": endpoint });
    }
    if !blueprint.kube_proxy {
        init["skipPhases"] = json!(["addon/kube-proxy"]);
    }
    spec["initConfiguration"] = init;
    spec["joinConfiguration"] = join;
    if !wish.certificate_names.is_empty() {
        spec["clusterConfiguration"] =
            json!({ "apiServer": { "certSANs": wish.certificate_names } });
    }
    without_empty(spec)
}

fn recipe(order: &Order<'_>) -> Recipe {
    match order.system {
        System::Local => local::recipe(order),
        System::Rocky => rocky::recipe(order),
        System::Flatcar => flatcar::recipe(order),
        System::Kairos => kairos::recipe(order),
        System::Bottlerocket => bottlerocket::recipe(order),
    }
}

/// What a machine does whether it makes a cluster or joins one.
fn shared(recipe: &Recipe) -> Value {
    json!({
        "format": recipe.format,
        "files": recipe.files,
        "preKubeadmCommands": recipe.commands,
        "users": recipe.users,
        "ntp": recipe.time,
    })
}

/// How a node registers itself.
fn node(order: &Order<'_>, recipe: &Recipe, labels: &str) -> Value {
    let mut node = recipe.node.clone();
    node.insert("imagePullPolicy".to_owned(), json!("IfNotPresent"));
    let mut arguments = recipe.arguments.clone();
    // Cluster API takes a node for that of a machine if both have one identity.
    match &order.blueprint.infrastructure {
        Infrastructure::Butler { provider, .. } => {
            node.insert("name".to_owned(), json!(HOST_NAME));
            arguments.push(("provider-id", provider_id::of_instance(*provider, INSTANCE)));
        }
        Infrastructure::Nutanix(_) => arguments.push(("provider-id", NUTANIX_IDENTITY.to_owned())),
        // CAPK writes it on the node by itself.
        Infrastructure::Kubevirt(_) => {}
    }
    if order.blueprint.external_cloud_provider {
        arguments.push(("cloud-provider", "external".to_owned()));
    }
    if !labels.is_empty() {
        arguments.push(("node-labels", labels.to_owned()));
    }
    let arguments: Vec<_> = arguments
        .into_iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    node.insert("kubeletExtraArgs".to_owned(), json!(arguments));
    without_empty(Value::Object(node))
}

fn taint(taint: &NodeTaint) -> Value {
    let mut found = json!({ "key": taint.key, "effect": taint.effect.as_str() });
    if let Some(value) = &taint.value {
        found["value"] = json!(value);
    }
    found
}

/// A file on a machine.
fn file(path: &str, permissions: &str, content: impl Into<String>) -> Value {
    json!({ "path": path, "owner": "root:root", "permissions": permissions, "content": content.into() })
}

/// What the kernel of a node must have, as files that outlive a restart.
fn kernel_files() -> [Value; 2] {
    [
        file(
            "/etc/modules-load.d/kubernetes.conf",
            "0644",
            "overlay\nbr_netfilter\n",
        ),
        file(
            "/etc/sysctl.d/90-kubernetes.conf",
            "0644",
            "net.bridge.bridge-nf-call-iptables = 1\n\
             net.bridge.bridge-nf-call-ip6tables = 1\n\
             net.ipv4.ip_forward = 1\n",
        ),
    ]
}

/// Names of the API server that no DNS has to know.
fn hosts_file(blueprint: &Blueprint) -> Option<Value> {
    let ControlPlane::Hosted(hosted) = &blueprint.control_plane else {
        return None;
    };
    let hosts = hosted.exposure.hosts()?;
    let line = |host: &str| format!("{} {host}\n", hosts.address);
    let mut content = line(&hosts.api);
    if hosts.tunnel != hosts.api {
        content.push_str(&line(&hosts.tunnel));
    }
    Some(file(HOSTS_FILE, "0644", content))
}

/// The script that makes a machine ready for kubeadm. It may be run again.
fn prepare_file(order: &Order<'_>, script: &str) -> Value {
    let identity = match order.blueprint.infrastructure {
        Infrastructure::Nutanix(_) => FILL_IN_IDENTITY,
        Infrastructure::Butler { .. } | Infrastructure::Kubevirt(_) => "",
    };
    let content = format!("{PREPARE_HEAD}{identity}{script}");
    file(PREPARE_FILE, "0700", content)
}

/// Cluster API leaves kubeadm's settings in another place on each kind of system.
const FILL_IN_IDENTITY: &str = r#"
identity=$(tr '[:upper:]' '[:lower:]' < /sys/class/dmi/id/product_uuid)
for settings in /run/kubeadm/kubeadm.yaml /run/kubeadm/kubeadm-join-config.yaml /etc/kubeadm.yml; do
  if [ -f "$settings" ]; then
    sed --in-place "s|nutanix://MACHINE-IDENTITY|nutanix://$identity|" "$settings"
  fi
done
"#;

const PREPARE_HEAD: &str = r"#!/bin/sh
# Makes this machine able to become a node. It may be run again.
set -eu

if [ -f /opt/butler/hosts ] && ! grep --quiet --fixed-strings --file /opt/butler/hosts /etc/hosts; then
  cat /etc/hosts /opt/butler/hosts > /etc/hosts.new
  mv /etc/hosts.new /etc/hosts
fi

modprobe overlay
modprobe br_netfilter
sysctl --quiet --system
";

/// Runs the script; a machine that could not be prepared does not try to join.
fn prepare_command() -> String {
    format!("{PREPARE_FILE} || exit 1")
}

/// The account of whoever may log in.
fn users(order: &Order<'_>, name: &str, sudo: bool) -> Vec<Value> {
    let Some(key) = order.ssh_authorized_key else {
        return Vec::new();
    };
    let mut user = json!({ "name": name, "sshAuthorizedKeys": [key] });
    if sudo {
        user["sudo"] = json!("ALL=(ALL) NOPASSWD:ALL");
        user["shell"] = json!("/bin/bash");
    }
    vec![user]
}

/// Where the time comes from, in the words of cloud-init, which knows the program of each system.
fn time(order: &Order<'_>) -> Value {
    let servers = &order.blueprint.time_servers;
    if servers.is_empty() {
        return Value::Null;
    }
    json!({ "enabled": true, "servers": servers })
}

//! Settings of Bottlerocket, from the cloud-config that lets a machine join by kubeadm.
//!
//! Bottlerocket runs no command, writes no file and has no kubeadm. What the cloud-config says must therefore be a setting, or
//! something that only kubeadm needs. Anything else is an obstacle: a machine that leaves out what it was told would be there, and
//! not be what was asked for.
//!
//! The names of settings are Bottlerocket's (`settings.kubernetes`, `settings.network`, `settings.ntp`, `settings.host-containers`).

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Identity, UNRECOGNISED};
use crate::tenant_cluster::build::HOSTS_FILE;

/// Where the kubeadm provider leaves what is of use, and what only marks a directory.
const JOIN_FILE: &str = "/run/kubeadm/kubeadm-join-config.yaml";
const PLACEHOLDER_FILE: &str = "/run/cluster-api/placeholder";

/// How the command begins that the settings take the place of.
const JOIN_COMMAND: &str = "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml ";

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

#[derive(Serialize)]
struct UserData {
    settings: Settings,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Settings {
    kubernetes: Kubernetes,
    network: Network,
    #[serde(skip_serializing_if = "Option::is_none")]
    ntp: Option<Time>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    host_containers: BTreeMap<&'static str, HostContainer>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Kubernetes {
    cluster_name: String,
    api_server: String,
    cluster_certificate: String,
    bootstrap_token: String,
    authentication_mode: &'static str,
    /// Nobody would approve the certificate that kubelet would ask for. kubeadm leaves it off, too.
    server_tls_bootstrap: bool,
    /// Said in any case: some images would wait for a cloud controller manager that is not there.
    cloud_provider: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cluster_dns_ip: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_domain: Option<String>,
    hostname_override: String,
    provider_id: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    node_labels: BTreeMap<String, String>,
    /// Value and effect, as kubelet's own argument has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    node_taints: BTreeMap<String, Vec<String>>,
}

#[derive(Serialize)]
struct Network {
    hostname: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<(String, Vec<String>)>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Time {
    time_servers: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct HostContainer {
    enabled: bool,
    user_data: String,
}

#[derive(Deserialize)]
struct File {
    path: String,
    #[serde(default)]
    content: String,
    encoding: Option<String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    ssh_authorized_keys: Vec<String>,
    passwd: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Join {
    control_plane: Option<Value>,
    discovery: Discovery,
    node_registration: Node,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Discovery {
    bootstrap_token: Option<Token>,
    tls_bootstrap_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    #[serde(default)]
    token: String,
    #[serde(default)]
    api_server_endpoint: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Node {
    name: Option<String>,
    kubelet_extra_args: Value,
    taints: Option<Vec<Taint>>,
}

#[derive(Deserialize)]
struct Taint {
    key: String,
    #[serde(default)]
    value: Option<String>,
    effect: String,
}

/// The settings as user data, or why there are none.
pub(super) fn settings(
    cloud_config: &str,
    authority: Option<&str>,
    identity: Identity<'_>,
) -> Result<String, String> {
    // What is wrong with the text must not be told with what is in it.
    let document: Map<String, Value> = serde_saphyr::from_str(cloud_config).map_err(|_| {
        "it is no cloud-config that can be read; let its provider make it again".to_owned()
    })?;
    let mut files: Vec<File> = Vec::new();
    let mut found = Settings {
        kubernetes: empty(identity, authority)?,
        network: Network {
            hostname: identity.host_name.to_owned(),
            hosts: Vec::new(),
        },
        ntp: None,
        host_containers: BTreeMap::new(),
    };
    for (key, value) in document {
        match key.as_str() {
            "write_files" => files = read(&key, value)?,
            "runcmd" => only_joins(&read::<Vec<Value>>(&key, value)?)?,
            "ntp" => found.ntp = time(&value)?,
            "users" => found.host_containers = administration(read(&key, value)?)?,
            _ => return Err(foreign(&format!("the part {key}"))),
        }
    }
    let mut join = None;
    for file in files {
        match file.path.as_str() {
            _ if file.encoding.is_some() => {
                return Err(foreign(&format!("the encoded file {}", file.path)));
            }
            JOIN_FILE => join = Some(file.content),
            HOSTS_FILE => found.network.hosts = hosts(&file.content),
            PLACEHOLDER_FILE => {}
            path => return Err(foreign(&format!("the file {path}"))),
        }
    }
    let Some(join) = join else {
        return Err(format!(
            "it does not join a cluster as a worker: there is no {JOIN_FILE} in it"
        ));
    };
    let join: Join = serde_saphyr::from_str(&join)
        .map_err(|_| format!("{JOIN_FILE} in it is no JoinConfiguration that can be read"))?;
    joined(join, identity, &mut found.kubernetes)?;
    toml::to_string(&UserData { settings: found })
        .map_err(|_| "its settings cannot be written as TOML".to_owned())
}

/// What is so whatever the cloud-config says.
fn empty(identity: Identity<'_>, authority: Option<&str>) -> Result<Kubernetes, String> {
    let Some(authority) = authority.filter(|text| text.contains(CERTIFICATE)) else {
        return Err("the authority of its cluster has no certificate in PEM".to_owned());
    };
    Ok(Kubernetes {
        cluster_name: identity.cluster.to_owned(),
        api_server: String::new(),
        cluster_certificate: STANDARD.encode(authority),
        bootstrap_token: String::new(),
        authentication_mode: "tls",
        server_tls_bootstrap: false,
        cloud_provider: String::new(),
        cluster_dns_ip: Vec::new(),
        cluster_domain: None,
        hostname_override: identity.host_name.to_owned(),
        provider_id: String::new(),
        node_labels: BTreeMap::new(),
        node_taints: BTreeMap::new(),
    })
}

/// What kubeadm would do with its settings.
fn joined(join: Join, identity: Identity<'_>, found: &mut Kubernetes) -> Result<(), String> {
    if join.control_plane.is_some() {
        return Err(
            "it makes a machine of a control plane, which bottlerocket cannot be".to_owned(),
        );
    }
    let token = join.discovery.bootstrap_token;
    let Some(token) = token.filter(|token| !token.api_server_endpoint.is_empty()) else {
        return Err(
            "it has no discovery.bootstrapToken, by which alone bottlerocket can join; leave discovery out of the \
             KubeadmConfigTemplate"
                .to_owned(),
        );
    };
    let own = join.discovery.tls_bootstrap_token;
    let secret = own.filter(|own| !own.is_empty()).unwrap_or(token.token);
    if secret.is_empty() {
        return Err(
            "there is no token in it yet to join with; let its provider make it again".to_owned(),
        );
    }
    found.bootstrap_token = secret;
    found.api_server = format!("https://{}", token.api_server_endpoint);
    let node = join.node_registration;
    if node.name.is_some_and(|name| name != identity.host_name) {
        return Err(
            "its node would not have the name of the machine; set nodeRegistration.name to \
             {{ ds.meta_data.local_hostname }}, or leave it out"
                .to_owned(),
        );
    }
    for (name, value) in arguments(&node.kubelet_extra_args)? {
        argument(&name, value, found)?;
    }
    if !found.provider_id.contains(identity.instance) {
        return Err(UNRECOGNISED.to_owned());
    }
    for taint in node.taints.unwrap_or_default() {
        let value = taint.value.unwrap_or_default();
        let taints = found.node_taints.entry(taint.key).or_default();
        taints.push(format!("{value}:{}", taint.effect));
    }
    Ok(())
}

/// Arguments of kubelet: a list of names and values, before `kubeadm.k8s.io/v1beta4` an object.
fn arguments(value: &Value) -> Result<Vec<(String, String)>, String> {
    let unreadable = || "nodeRegistration.kubeletExtraArgs in it cannot be read".to_owned();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let pair = |argument: &Value| Some((text(&argument["name"])?, text(&argument["value"])?));
    let found: Option<Vec<_>> = match value {
        Value::Null => Some(Vec::new()),
        Value::Array(arguments) => arguments.iter().map(pair).collect(),
        Value::Object(arguments) => arguments
            .iter()
            .map(|(name, value)| Some((name.clone(), text(value)?)))
            .collect(),
        _ => None,
    };
    found.ok_or_else(unreadable)
}

fn argument(name: &str, value: String, found: &mut Kubernetes) -> Result<(), String> {
    match name {
        "provider-id" => found.provider_id = value,
        "cloud-provider" => found.cloud_provider = value,
        "cluster-dns" => found.cluster_dns_ip = value.split(',').map(str::to_owned).collect(),
        "cluster-domain" => found.cluster_domain = Some(value),
        "node-labels" => {
            for label in value.split(',').filter(|label| !label.is_empty()) {
                let (key, value) = label.split_once('=').unwrap_or((label, ""));
                found.node_labels.insert(key.to_owned(), value.to_owned());
            }
        }
        _ => return Err(foreign(&format!("the argument {name} of kubelet"))),
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(part: &str, value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|_| format!("its part {part} cannot be read"))
}

/// The settings take the place of the command that joins, and of no other.
fn only_joins(commands: &[Value]) -> Result<(), String> {
    let joins = |command: &Value| {
        let text = command.as_str();
        text.is_some_and(|text| text.starts_with(JOIN_COMMAND))
    };
    if commands.iter().all(joins) {
        Ok(())
    } else {
        Err(foreign("commands"))
    }
}

fn time(value: &Value) -> Result<Option<Time>, String> {
    let servers = value["servers"].clone();
    let time_servers: Vec<String> = match servers {
        Value::Null => Vec::new(),
        servers => read("ntp", servers)?,
    };
    let is_wanted = value["enabled"] != json!(false) && !time_servers.is_empty();
    Ok(is_wanted.then_some(Time { time_servers }))
}

/// Whoever has a key may log in to the one container for that, whatever the account would be called.
fn administration(users: Vec<User>) -> Result<BTreeMap<&'static str, HostContainer>, String> {
    if users.iter().any(|user| user.passwd.is_some()) {
        return Err(foreign("a password"));
    }
    let keys: Vec<_> = users
        .into_iter()
        .flat_map(|user| user.ssh_authorized_keys)
        .collect();
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let login = json!({ "ssh": { "authorized-keys": keys } });
    let container = HostContainer {
        enabled: true,
        user_data: STANDARD.encode(login.to_string()),
    };
    Ok(BTreeMap::from([("admin", container)]))
}

/// Names by their addresses, in the order in which these come first.
fn hosts(content: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in content.lines() {
        let mut words = line.split_whitespace().map(str::to_owned);
        let Some(address) = words.next() else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| *known == address) {
            Some((_, names)) => names.extend(words),
            None => found.push((address, words.collect())),
        }
    }
    found
}

fn foreign(what: &str) -> String {
    format!(
        "it has {what}, for which bottlerocket has no setting; leave that out of the KubeadmConfigTemplate"
    )
}

//! The objects that make a management cluster a platform: what Butler knows of this host.
//!
//! Owns: their content. Must not: read or write anything.

use std::net::Ipv4Addr;

use butler_api::{keys, name::MachineName};
use ipnet::Ipv4Net;
use serde_json::{Value, json};

use crate::adm::installation::Installation;

/// Where Butler's own objects live.
pub(crate) const NAMESPACE: &str = "butler-system";
/// Of the `ProviderConfig` and of the `NetworkPool`.
pub(crate) const LOCAL: &str = "local";
/// A machine's disk is the host's: it is not limited, and the API asks for a number.
const DISK_GIB: u32 = 10;

/// Everything, in an order that works.
pub(crate) fn objects(installation: &Installation) -> Vec<Value> {
    vec![
        network_pool(installation),
        provider_config(),
        butler_config(),
    ]
}

/// Objects that webhooks of Butler and of Cluster API look at; tried, never made.
pub(crate) fn probes(installation: &Installation) -> [Value; 2] {
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": { "name": "butler-probe", "namespace": NAMESPACE },
        "spec": { "paused": true },
    });
    [network_pool(installation), cluster]
}

/// All addresses of the bridge, but those that are nobody's to have.
fn network_pool(installation: &Installation) -> Value {
    let range = installation.range;
    let block = |address: Ipv4Addr| Ipv4Net::from(address).to_string();
    json!({
        "apiVersion": keys::groups::BUTLER_API_VERSION,
        "kind": "NetworkPool",
        "metadata": { "name": LOCAL, "namespace": NAMESPACE },
        "spec": {
            "cidr": range.to_string(),
            "reserved": [
                { "cidr": block(range.network()), "description": "The range itself." },
                { "cidr": block(installation.host_address()), "description": "This host." },
                { "cidr": block(range.broadcast()), "description": "Broadcasts." },
            ],
        },
    })
}

fn provider_config() -> Value {
    json!({
        "apiVersion": keys::groups::BUTLER_API_VERSION,
        "kind": "ProviderConfig",
        "metadata": { "name": LOCAL, "namespace": NAMESPACE },
        "spec": {
            "provider": "local",
            "network": { "mode": "ipam", "poolRefs": [{ "name": LOCAL }] },
        },
    })
}

fn butler_config() -> Value {
    json!({
        "apiVersion": keys::groups::BUTLER_API_VERSION,
        "kind": "ButlerConfig",
        "metadata": { "name": "butler" },
        "spec": {
            // On one's own box nobody has to form a team first.
            "multiTenancy": { "mode": "Optional" },
            "defaultNamespace": "butler-tenants",
            "defaultProviderConfigRef": { "name": LOCAL },
        },
    })
}

/// A machine of the management cluster.
pub(crate) fn machine_request(
    installation: &Installation,
    name: &MachineName,
    role: &str,
) -> Value {
    json!({
        "apiVersion": keys::groups::BUTLER_API_VERSION,
        "kind": "MachineRequest",
        "metadata": {
            "name": name.as_str(),
            "namespace": NAMESPACE,
            "labels": { keys::labels::CLUSTER: installation.name.as_str() },
        },
        "spec": {
            "providerRef": { "name": LOCAL },
            "machineName": name.as_str(),
            "role": role,
            "cpu": installation.cpus,
            "memoryMB": installation.memory_mib,
            "diskGB": DISK_GIB,
        },
    })
}

/// The first machine, which is there already.
pub(crate) fn first_machine(installation: &Installation, name: &MachineName) -> Value {
    let mut request = machine_request(installation, name, "control-plane");
    request["metadata"]["annotations"] =
        json!({ keys::annotations::ADOPT_MACHINE_ID: installation.first_machine_id.as_str() });
    request
}

/// A worker, with the Secret that tells it how to join.
pub(crate) fn worker(installation: &Installation, name: &MachineName) -> Value {
    let mut request = machine_request(installation, name, "worker");
    request["spec"]["userDataSecretRef"] =
        json!({ "name": user_data_secret(name), "key": "value" });
    request
}

/// Where the user data of a worker is.
pub(crate) fn user_data_secret(name: &MachineName) -> String {
    format!("{name}-user-data")
}

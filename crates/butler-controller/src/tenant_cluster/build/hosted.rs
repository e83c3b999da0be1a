//! A control plane that runs as pods: `StewardControlPlane`, or `KamajiControlPlane`, which has fewer words of the same kind.

use butler_api::{
    butler::{
        butler_config::ControlPlaneProvider,
        control_plane_resources::{ComponentResources, CpuAndMemory},
    },
    cluster_api::steward_control_plane::StewardControlPlane,
};
use butler_runtime::object::{Kind, Manifest};
use serde_json::{Value, json};

use super::{metadata, without_empty};
use crate::tenant_cluster::{
    blueprint::{Blueprint, Exposure, Hosted, Hosts},
    kinds,
};

/// Where the tunnel's server listens, as usual. It is said all the same: the API server fills an empty block, and nobody could
/// tell any more whether it is what we applied. It would be applied again at every change of the control plane.
const TUNNEL_PORT: u16 = 8132;

pub(super) fn control_plane(blueprint: &Blueprint, wish: &Hosted) -> Manifest {
    let kind = match wish.provider {
        ControlPlaneProvider::Steward => Kind::of::<StewardControlPlane>(),
        ControlPlaneProvider::Kamaji => kinds::kamaji_control_plane(),
    };
    let resources = &wish.resources;
    let spec = without_empty(json!({
        "version": blueprint.version,
        "replicas": wish.replicas,
        "dataStoreName": wish.data_store,
        "addons": addons(blueprint, wish),
        "kubelet": kubelet(blueprint),
        "network": network(wish),
        "apiServer": component(resources.api_server.as_ref()),
        "controllerManager": component(resources.controller_manager.as_ref()),
        "scheduler": component(resources.scheduler.as_ref()),
    }));
    let body = json!({ "metadata": metadata(blueprint, &blueprint.name), "spec": spec });
    Manifest::new(kind, body)
}

fn addons(blueprint: &Blueprint, wish: &Hosted) -> Value {
    let tunnel = json!({ "server": { "port": TUNNEL_PORT } });
    let mut addons = json!({ "coreDNS": {}, "konnectivity": tunnel });
    if blueprint.kube_proxy {
        addons["kubeProxy"] = if blueprint.is_local() {
            // The table of connections is the host's: its size is not a machine's to set.
            json!({ "configurationJSONPatches": [
                { "op": "replace", "path": "/mode", "value": "nftables" },
                { "op": "replace", "path": "/conntrack/maxPerCore", "value": 0 },
                { "op": "replace", "path": "/conntrack/min", "value": 0 },
            ] })
        } else {
            json!({})
        };
    }
    // Pods reach the API server by a name that the Ingress or Gateway tells tenants apart by; Kamaji has nothing for it.
    if let (Some(hosts), ControlPlaneProvider::Steward) = (wish.exposure.hosts(), wish.provider) {
        addons["tcpProxy"] = json!({ "hostAliases": [aliases(hosts)] });
    }
    addons
}

fn aliases(hosts: &Hosts) -> Value {
    let mut names = vec![&hosts.api];
    if hosts.tunnel != hosts.api {
        names.push(&hosts.tunnel);
    }
    json!({ "ip": hosts.address, "hostnames": names })
}

fn kubelet(blueprint: &Blueprint) -> Value {
    let addresses = json!(["InternalIP", "ExternalIP", "Hostname"]);
    if !blueprint.is_local() {
        return json!({ "cgroupfs": "systemd", "preferredAddressTypes": addresses });
    }
    let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
    let settings = super::bootstrap::local_kubelet_settings();
    let patches: Vec<_> = settings
        .into_iter()
        .map(|(name, value)| add(&format!("/{name}"), value))
        .collect();
    json!({
        "cgroupfs": "cgroupfs",
        "preferredAddressTypes": addresses,
        "configurationJSONPatches": patches,
    })
}

fn network(wish: &Hosted) -> Value {
    let mut network = json!({ "serviceType": wish.service_type });
    if !wish.certificate_names.is_empty() {
        network["certSANs"] = json!(wish.certificate_names);
    }
    match &wish.exposure {
        Exposure::Service => {}
        Exposure::Ingress {
            hosts,
            class,
            controller,
        } => {
            let mut ingress = json!({ "hostname": hosts.api });
            if let Some(class) = class {
                ingress["className"] = json!(class);
            }
            // Only Steward asks which controller it is.
            if let (Some(controller), ControlPlaneProvider::Steward) = (controller, wish.provider) {
                ingress["controllerType"] = json!(controller);
            }
            network["ingress"] = ingress;
        }
        Exposure::Gateway { hosts, gateway } => {
            network["gateway"] = json!({
                "hostname": hosts.api,
                "parentRefs": [{
                    "group": "gateway.networking.k8s.io",
                    "kind": "Gateway",
                    "namespace": gateway.namespace,
                    "name": gateway.name,
                }],
            });
        }
    }
    network
}

fn component(resources: Option<&ComponentResources>) -> Value {
    let Some(resources) = resources else {
        return Value::Null;
    };
    let amounts =
        |amounts: Option<&CpuAndMemory>| amounts.map_or(Value::Null, |amounts| json!(amounts));
    let resources = without_empty(json!({
        "requests": amounts(resources.requests.as_ref()),
        "limits": amounts(resources.limits.as_ref()),
    }));
    without_empty(json!({ "resources": resources }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant_cluster::blueprint::{
        ControlPlane,
        testing::{drawn, on_harvester, on_this_host, plain_shop},
    };

    /// The names of empty blocks in which the schema has a default.
    fn filled(value: &Value, schema: &Value, name: &str) -> Vec<String> {
        let Some(members) = value.as_object() else {
            return Vec::new();
        };
        if members.is_empty() {
            let is_filled = schema["properties"].to_string().contains("\"default\":");
            return is_filled.then(|| name.to_owned()).into_iter().collect();
        }
        let nested = members.iter();
        nested
            .flat_map(|(name, value)| filled(value, &schema["properties"][name], name))
            .collect()
    }

    #[test]
    fn no_block_is_left_for_the_api_server_to_fill() {
        let definition = butler_api::crds::all().into_iter();
        let kind = Kind::of::<StewardControlPlane>();
        let mut definition =
            definition.filter(|definition| definition.spec.names.kind == kind.kind);
        let definition = json!(definition.next().unwrap());
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(
            filled(
                &json!({ "spec": { "addons": { "konnectivity": {} } } }),
                schema,
                ""
            ),
            ["konnectivity"],
            "what this test looks for"
        );
        for surroundings in [on_this_host(), on_harvester()] {
            let blueprint = drawn(&plain_shop(&json!({})), &surroundings);
            let ControlPlane::Hosted(wish) = &blueprint.control_plane else {
                panic!("it is hosted unless somebody wants otherwise");
            };
            let manifest = control_plane(&blueprint, wish);
            assert_eq!(
                filled(&manifest.body, schema, ""),
                Vec::<String>::new(),
                "{}",
                manifest.body
            );
        }
    }
}

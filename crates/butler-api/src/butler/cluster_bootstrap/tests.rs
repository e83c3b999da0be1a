//! What the schema accepts and refuses.

use kube::CustomResourceExt;
use kube::core::cel::{validate_cel, validate_cel_update};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::ClusterBootstrap;

/// The cluster of the architecture documents: quantities, `networking`, `platform`, `gitops`, inline settings.
fn documented() -> Value {
    json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "ClusterBootstrap",
        "metadata": { "name": "butler-mgmt", "namespace": "butler-system" },
        "spec": {
            "provider": "harvester",
            "cluster": {
                "name": "butler-mgmt",
                "controlPlaneEndpoint": "10.40.0.200",
                "kubernetesVersion": "v1.31.0",
                "topology": "ha",
                "controlPlane": {
                    "replicas": 3,
                    "machineTemplate": { "cpu": "4", "memory": "16Gi", "diskSize": "100Gi" },
                },
                "workers": {
                    "replicas": 3,
                    "machineTemplate": { "cpu": "8", "memory": "32Gi", "diskSize": "200Gi" },
                },
            },
            "networking": { "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/12" },
            "platform": {
                "cni": "cilium",
                "storage": "longhorn",
                "loadBalancer": "metallb",
                "metalLBPool": "10.40.0.200-10.40.0.250",
            },
            "gitops": {
                "enabled": true,
                "provider": "flux",
                "repository": "https://github.com/myorg/butler-mgmt-live",
                "branch": "main",
                "path": "clusters/butler-mgmt",
            },
            "providerConfig": {
                "harvester": {
                    "credentialsRef": { "name": "harvester-kubeconfig" },
                    "namespace": "default",
                    "networkName": "default/workloads",
                    "imageName": "default/talos-1.9",
                },
            },
        },
    })
}

fn read(manifest: &Value) -> ClusterBootstrap {
    serde_json::from_value(manifest.clone()).expect("the manifest parses")
}

/// Why the documented cluster is refused once the field below a JSON pointer into its spec is changed.
fn refusal(parent: &str, field: &str, value: Value) -> String {
    let mut manifest = documented();
    manifest["spec"]
        .pointer_mut(parent)
        .expect("the parent exists")[field] = value;
    validate_cel(&read(&manifest))
        .expect_err("the manifest is refused")
        .to_string()
}

#[test]
fn empty_address_from_a_client_that_sends_every_field_is_accepted() {
    let mut manifest = documented();
    manifest["spec"]["networking"]["vip"] = json!("");
    assert_eq!(
        validate_cel(&read(&manifest)).map_err(|errors| errors.to_string()),
        Ok(())
    );
}

#[test]
fn documented_cluster_is_accepted_and_reads_back_as_written() {
    let bootstrap = read(&documented());
    assert_eq!(
        validate_cel(&bootstrap).map_err(|errors| errors.to_string()),
        Ok(())
    );
    assert_eq!(serde_json::to_value(&bootstrap).unwrap(), documented());
}

#[test]
fn definition_has_the_names_columns_and_enums_users_know() {
    let definition = ClusterBootstrap::crd();
    assert_eq!(
        definition.spec.names.short_names,
        Some(vec!["cb".to_owned()])
    );
    let version = &definition.spec.versions[0];
    let columns: Vec<_> = version
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(columns, ["Cluster", "Topology", "Phase", "Endpoint", "Age"]);
    let schema = serde_json::to_value(&version.schema).unwrap();
    let spec = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(
        spec["provider"]["enum"],
        json!([
            "harvester",
            "nutanix",
            "proxmox",
            "gcp",
            "aws",
            "azure",
            "local"
        ])
    );
    assert_eq!(
        spec["cluster"]["properties"]["topology"]["default"],
        json!("ha")
    );
    assert_eq!(
        spec["addons"]["properties"]["controlPlaneHA"]["properties"]["type"]["enum"],
        json!(["kube-vip", "none"])
    );
    assert_eq!(
        spec["addons"]["properties"]["certManager"]["properties"]["enabled"]["default"],
        json!(true)
    );
}

#[test]
fn unions_name_both_of_their_spellings() {
    let network = json!({ "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/12" });
    assert!(refusal("", "network", network).contains("either as network or as networking"));
    assert!(refusal("", "networking", Value::Null).contains("either as network or as networking"));
    let reference = json!({ "name": "harvester" });
    assert!(
        refusal("", "providerRef", reference)
            .contains("either as providerRef or as providerConfig")
    );
    assert!(refusal("", "providerConfig", Value::Null).contains("every provider but local"));
    assert!(refusal("", "provider", json!("nutanix")).contains("section that provider names"));
    assert!(refusal("", "providerConfig", json!({})).contains("exactly one of harvester"));
    assert!(
        refusal("/cluster/workers", "cpu", json!(4))
            .contains("either as machineTemplate or as cpu")
    );
    assert!(
        refusal("/cluster/workers", "machineTemplate", Value::Null)
            .contains("unless replicas is 0")
    );
    assert!(
        refusal("/networking", "vip", json!("10.40.0.9")).contains("two spellings of one address")
    );
    let addons = json!({ "storage": { "type": "none" } });
    assert!(refusal("", "addons", addons).contains("platform.storage and addons.storage.type"));
    let addons = json!({ "gitOps": { "enabled": false } });
    assert!(refusal("", "addons", addons).contains("gitops and addons.gitOps"));
}

#[test]
fn wrong_addresses_are_refused() {
    assert!(
        refusal("/networking", "podCIDR", json!("10.244.0.0")).contains("podCIDR must be a CIDR")
    );
    assert!(
        refusal("/networking", "serviceCIDR", json!("10.244.1.0/24")).contains("must not overlap")
    );
    assert!(
        refusal("/cluster", "controlPlaneEndpoint", json!("10.40.0.999"))
            .contains("IPv4 or IPv6 address or a DNS name")
    );
    assert!(
        refusal("/networking", "serviceCIDR", json!("fd00::/108"))
            .contains("both be IPv4 or both be IPv6")
    );
    let pool = |text: &str| refusal("/platform", "metalLBPool", json!(text));
    assert!(pool("10.40.0.250-10.40.0.200").contains("is reversed"));
    assert!(pool("10.40.0.9-10.40.0.10-").contains("joined by a hyphen"));
    assert!(pool("10.40.0.200").contains("joined by a hyphen"));
    assert!(pool("10.40.0.200-fd00::1").contains("of one family"));
    let other = json!({ "start": "10.40.0.20", "end": "10.40.0.29" });
    assert!(
        refusal("/networking", "loadBalancerPool", other)
            .contains("loadBalancerPool and platform.metalLBPool")
    );
    let reversed = json!({ "start": "10.40.0.10", "end": "10.40.0.9" });
    assert!(
        refusal("/networking", "loadBalancerPool", reversed)
            .contains("start must not come after end")
    );
    let mixed = json!({ "start": "10.40.0.10", "end": "fd00::1" });
    assert!(
        refusal("/networking", "loadBalancerPool", mixed).contains("both be IPv4 or both be IPv6")
    );
}

#[test]
fn numbers_of_nodes_follow_the_topology() {
    assert!(
        refusal("/cluster/controlPlane", "replicas", json!(2)).contains("odd number of at least 3")
    );
    assert!(
        refusal("/cluster/controlPlane", "replicas", json!(4)).contains("odd number of at least 3")
    );
    let single = refusal("/cluster", "topology", json!("single-node"));
    assert!(single.contains("must be 1 for topology single-node"));
    assert!(single.contains("workers.replicas must be 0"));
}

#[test]
fn this_machine_needs_neither_settings_nor_talos_nor_workers() {
    let mut manifest = documented();
    let spec = manifest["spec"].as_object_mut().unwrap();
    spec.remove("providerConfig");
    spec.insert("provider".to_owned(), json!("local"));
    manifest["spec"]["cluster"]["workers"] = json!({ "replicas": 0 });
    assert_eq!(
        validate_cel(&read(&manifest)).map_err(|errors| errors.to_string()),
        Ok(())
    );
}

#[test]
fn cluster_keeps_its_provider_name_and_networks() {
    let before = read(&documented());
    for (parent, field, value, rule) in [
        (
            "/cluster",
            "name",
            json!("other"),
            "cluster.name is immutable",
        ),
        (
            "/networking",
            "podCIDR",
            json!("10.245.0.0/16"),
            "podCIDR is immutable",
        ),
        (
            "/networking",
            "serviceCIDR",
            json!("10.112.0.0/12"),
            "serviceCIDR is immutable",
        ),
    ] {
        let mut manifest = documented();
        manifest["spec"].pointer_mut(parent).unwrap()[field] = value;
        let refusal = validate_cel_update(&read(&manifest), &before)
            .unwrap_err()
            .to_string();
        assert!(refusal.contains(rule), "{refusal}");
    }
}

#[test]
fn exposure_by_a_gateway_names_the_gateway() {
    let exposure = json!({ "mode": "Gateway", "hostname": "*.k8s.example.org" });
    assert!(refusal("", "controlPlaneExposure", exposure).contains("gatewayRef is required"));
    let exposure = json!({ "mode": "Ingress" });
    assert!(refusal("", "controlPlaneExposure", exposure).contains("hostname is required"));
}

#[test]
fn credentials_in_the_status_stay_out_of_debug_output() {
    let mut manifest = documented();
    manifest["status"] = json!({ "kubeconfig": "c2VjcmV0", "talosconfig": "c2VjcmV0" });
    assert!(!format!("{:?}", read(&manifest)).contains("c2VjcmV0"));
}

//! Both spellings of a management cluster mean the same, and bad ones are refused by field and rule.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::net::AddressRange;

/// A cluster on Harvester in the spelling with quantities, `networking`, `platform`, `gitops` and inline settings.
fn short_spelling() -> Value {
    json!({
        "provider": "harvester",
        "cluster": {
            "name": "butler-mgmt",
            "controlPlaneEndpoint": "10.40.0.200",
            "kubernetesVersion": "v1.31.0",
            "topology": "ha",
            "controlPlane": {
                "replicas": 3,
                "machineTemplate": { "cpu": 4, "memory": "16Gi", "diskSize": "100Gi" },
            },
            "workers": {
                "replicas": 3,
                "machineTemplate": { "cpu": 8, "memory": "32Gi", "diskSize": "200Gi" },
            },
        },
        "networking": { "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/12" },
        "platform": {
            "cni": "cilium",
            "storage": "longhorn",
            "loadBalancer": "metallb",
            "metalLBPool": "10.40.0.200-10.40.0.250",
        },
        "gitops": { "enabled": true, "provider": "flux" },
        "providerConfig": {
            "harvester": {
                "credentialsRef": { "name": "harvester-kubeconfig" },
                "namespace": "default",
                "networkName": "default/workloads",
                "imageName": "default/talos-1.9",
            },
        },
    })
}

/// The same cluster in the other spelling, but for the provider's settings, which exist in one form only.
fn long_spelling() -> Value {
    json!({
        "provider": "harvester",
        "cluster": {
            "name": "butler-mgmt",
            "kubernetesVersion": "v1.31.0",
            "controlPlane": { "replicas": 3, "cpu": 4, "memoryMB": 16384, "diskGB": 100 },
            "workers": { "replicas": 3, "cpu": 8, "memoryMB": 32768, "diskGB": 200 },
        },
        "network": {
            "podCIDR": "10.244.0.0/16",
            "serviceCIDR": "10.96.0.0/12",
            "vip": "10.40.0.200",
            "loadBalancerPool": { "start": "10.40.0.200", "end": "10.40.0.250" },
        },
        "addons": {
            "cni": { "type": "cilium" },
            "storage": { "type": "longhorn" },
            "loadBalancer": { "type": "metallb", "addressPool": "10.40.0.200-10.40.0.250" },
            "gitOps": { "type": "flux" },
        },
        "providerConfig": short_spelling()["providerConfig"],
    })
}

fn local() -> Value {
    json!({
        "provider": "local",
        "cluster": {
            "name": "butler-local",
            "topology": "single-node",
            "controlPlane": { "replicas": 1, "cpu": 2, "memoryMB": 4096, "diskGB": 20 },
            "workers": { "replicas": 0 },
        },
        "network": { "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/16" },
    })
}

fn read(spec: &Value) -> Result<NormalizedClusterBootstrap, Vec<String>> {
    let spec = serde_json::from_value(spec.clone()).expect("the request parses");
    normalize(&spec).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// Reads `spec` with the value at a JSON pointer's parent replaced or added.
fn read_with(mut spec: Value, parent: &str, field: &str, value: Value) -> Vec<String> {
    spec.pointer_mut(parent).expect("the parent exists")[field] = value;
    read(&spec).expect_err("the request is refused")
}

fn range(first: &str, last: &str) -> AddressRange {
    AddressRange::from_texts(first, last).unwrap()
}

#[test]
fn both_spellings_of_a_cluster_mean_the_same() {
    let short = read(&short_spelling()).unwrap();
    let long = read(&long_spelling()).unwrap();
    assert_eq!(short, long);
    assert_eq!(
        short.control_plane.size,
        MachineSize {
            cpu: 4,
            memory_mib: 16384,
            disk_gib: 100
        }
    );
    assert_eq!(
        short.workers.as_ref().map(|workers| workers.replicas),
        Some(3)
    );
    assert_eq!(
        short.network.endpoint,
        Some(Endpoint::Address("10.40.0.200".parse().unwrap()))
    );
    assert_eq!(
        short
            .addons
            .longhorn
            .as_ref()
            .map(|longhorn| longhorn.replica_count),
        Some(3)
    );
    assert_eq!(short.addons.flux, Some(Flux::default()));
    assert_eq!(short.addons.kube_vip, Some(KubeVip::default()));
    assert!(!short.schedules_on_control_plane());
}

#[test]
fn address_of_the_api_server_is_never_handed_to_a_service() {
    let at_the_edge = read(&short_spelling()).unwrap();
    assert_eq!(
        at_the_edge.network.load_balancer_ranges,
        [range("10.40.0.201", "10.40.0.250")]
    );
    let mut within = short_spelling();
    within["cluster"]["controlPlaneEndpoint"] = json!("10.40.0.210");
    assert_eq!(
        read(&within).unwrap().network.load_balancer_ranges,
        [
            range("10.40.0.200", "10.40.0.209"),
            range("10.40.0.211", "10.40.0.250")
        ]
    );
    let mut outside = short_spelling();
    outside["cluster"]["controlPlaneEndpoint"] = json!("10.40.0.10");
    assert_eq!(
        read(&outside).unwrap().network.load_balancer_ranges,
        [range("10.40.0.200", "10.40.0.250")]
    );
}

#[test]
fn this_machine_needs_no_provider_settings_no_talos_and_no_workers() {
    let cluster = read(&local()).unwrap();
    assert_eq!(cluster.provider_settings, ProviderSettings::Local);
    assert_eq!(cluster.talos, None);
    assert_eq!(cluster.workers, None);
    assert!(cluster.schedules_on_control_plane());
    assert_eq!(
        cluster.addons,
        NormalizedAddons {
            tenant_control_planes: Some(TenantControlPlanes {
                provider: ControlPlaneProvider::Steward,
                version: None,
            }),
            capi: Some(Capi::default()),
            butler_controller: Some(ButlerController::default()),
            ..NormalizedAddons::default()
        }
    );
}

#[test]
fn clouds_announce_no_address_of_their_own_and_get_no_ingress() {
    let mut cloud = long_spelling();
    cloud["provider"] = json!("aws");
    cloud["providerConfig"] = Value::Null;
    cloud["providerRef"] = json!({ "name": "aws" });
    let cluster = read(&cloud).unwrap();
    assert_eq!(cluster.addons.kube_vip, None);
    assert_eq!(cluster.addons.ingress, None);
    assert!(cluster.addons.cilium.is_some());
}

#[test]
fn repository_is_what_flux_follows() {
    let mut spec = short_spelling();
    spec["gitops"] = json!({
        "enabled": true,
        "repository": "https://github.com/myorg/butler-mgmt-live",
        "path": "clusters/butler-mgmt",
    });
    let flux = read(&spec).unwrap().addons.flux.unwrap();
    assert_eq!(
        flux.repository,
        Some(GitRepository {
            url: "https://github.com/myorg/butler-mgmt-live".to_owned(),
            branch: "main".to_owned(),
            path: Some("clusters/butler-mgmt".to_owned()),
            credentials: None,
        })
    );
}

#[test]
fn empty_texts_mean_that_nothing_was_chosen() {
    let mut spec = long_spelling();
    spec["network"]["vip"] = json!("");
    spec["cluster"]["controlPlaneEndpoint"] = json!("10.40.0.200");
    spec["addons"]["loadBalancer"]["addressPool"] = json!("");
    spec["addons"]["cni"]["version"] = json!("");
    assert_eq!(read(&spec), read(&long_spelling()));
}

#[test]
fn disabled_addons_are_absent() {
    let mut spec = long_spelling();
    spec["addons"] = json!({
        "cni": { "type": "none" },
        "storage": { "type": "none" },
        "loadBalancer": { "type": "none" },
        "controlPlaneHA": { "type": "none" },
        "certManager": { "enabled": false },
        "ingress": { "type": "none" },
        "controlPlaneProvider": { "enabled": false },
        "capi": { "enabled": false },
        "butlerController": { "enabled": false },
        "console": { "ingress": { "enabled": true } },
        "gitOps": { "enabled": false },
    });
    assert_eq!(read(&spec).unwrap().addons, NormalizedAddons::default());
}

#[test]
fn contradicting_spellings_are_refused_by_both_names() {
    let both = read_with(
        short_spelling(),
        "",
        "network",
        long_spelling()["network"].clone(),
    );
    assert_eq!(
        both,
        ["spec.network or spec.networking must be given, and not both"]
    );

    let vip = read_with(short_spelling(), "/networking", "vip", json!("10.40.0.9"));
    assert_eq!(
        vip,
        [
            "spec.networking.vip and spec.cluster.controlPlaneEndpoint must not differ: they name one address"
        ]
    );

    let cni = read_with(
        short_spelling(),
        "",
        "addons",
        json!({ "cni": { "type": "none" } }),
    );
    assert_eq!(
        cni,
        ["spec.platform.cni must not differ from spec.addons.cni.type"]
    );

    let pool = read_with(
        short_spelling(),
        "/networking",
        "loadBalancerPool",
        json!({ "start": "10.40.1.1", "end": "10.40.1.9" }),
    );
    assert_eq!(
        pool,
        ["spec.platform.metalLBPool must not differ from spec.networking.loadBalancerPool"]
    );

    let flux = read_with(
        short_spelling(),
        "",
        "addons",
        json!({ "gitOps": { "enabled": false } }),
    );
    assert_eq!(
        flux,
        ["spec.gitops must not differ from spec.addons.gitOps"]
    );

    let provider = read_with(short_spelling(), "", "providerRef", json!({ "name": "a" }));
    assert_eq!(
        provider,
        ["spec.providerRef or spec.providerConfig must be given, and not both"]
    );

    let section = read_with(short_spelling(), "", "provider", json!("nutanix"));
    assert_eq!(
        section,
        ["spec.providerConfig must hold exactly one section, the one that spec.provider names"]
    );
}

#[test]
fn broken_addresses_are_refused_by_field() {
    let network = |field: &str, value: &str| {
        read_with(long_spelling(), "/network", field, json!(value)).join("; ")
    };
    assert!(network("podCIDR", "10.244.0.0/33").starts_with("spec.network.podCIDR must be a CIDR"));
    assert!(
        network("serviceCIDR", "10.244.8.0/24")
            .contains("must not overlap with spec.network.podCIDR")
    );
    assert!(network("vip", "10.40.0.999").starts_with("spec.network.vip must be an IPv4 or IPv6"));
    assert!(
        network("serviceCIDR", "fd00::/108")
            .contains("same address family as spec.network.podCIDR")
    );
    let reversed = read_with(
        long_spelling(),
        "/network",
        "loadBalancerPool",
        json!({ "start": "fd00::9", "end": "fd00::1" }),
    );
    assert_eq!(
        reversed,
        [
            "spec.network.loadBalancerPool is no range of addresses: the start must not come after the end"
        ]
    );
    let mixed = read_with(
        short_spelling(),
        "/platform",
        "metalLBPool",
        json!("10.0.0.1-fd00::1"),
    );
    assert_eq!(
        mixed,
        ["spec.platform.metalLBPool is no range of addresses: both ends must be IPv4 or both IPv6"]
    );
}

#[test]
fn wrong_numbers_and_versions_are_refused_by_field() {
    let even = read_with(
        long_spelling(),
        "/cluster/controlPlane",
        "replicas",
        json!(4),
    );
    assert_eq!(
        even,
        ["spec.cluster.controlPlane.replicas must be an odd number of at least 3 for topology ha"]
    );
    let workers = read_with(
        local(),
        "/cluster",
        "workers",
        json!({ "replicas": 1, "cpu": 1, "memoryMB": 2048, "diskGB": 20 }),
    );
    assert_eq!(
        workers,
        ["spec.cluster.workers.replicas must be 0 for topology single-node"]
    );
    let version = read_with(
        long_spelling(),
        "/cluster",
        "kubernetesVersion",
        json!("1.31"),
    );
    assert_eq!(
        version,
        ["spec.cluster.kubernetesVersion must be a version such as v1.31.0"]
    );
    let memory = read_with(
        short_spelling(),
        "/cluster/workers/machineTemplate",
        "memory",
        json!("1Gi"),
    );
    assert_eq!(
        memory,
        ["spec.cluster.workers.machineTemplate.memory must be at least 2048 MiB"]
    );
    let size = read_with(long_spelling(), "/cluster/workers", "cpu", Value::Null);
    assert_eq!(
        size,
        [
            "spec.cluster.workers.machineTemplate or all of cpu, memoryMB and diskGB must be given, and not both"
        ]
    );
    let vip = read_with(
        local(),
        "",
        "addons",
        json!({ "controlPlaneHA": { "type": "kube-vip" } }),
    );
    assert!(vip[0].starts_with("spec.addons.controlPlaneHA.type kube-vip needs an address"));
}

//! What a `TenantCluster` means, however it is spelled.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn reading(spec: Value) -> Reading {
    read(&serde_json::from_value(spec).unwrap())
}

fn with_addons(addons: &Value) -> Addons {
    reading(json!({
        "kubernetesVersion": "v1.35.2", "workers": {"replicas": 1}, "addons": addons,
    }))
    .addons
}

fn with_template(template: &Value) -> Reading {
    reading(json!({
        "kubernetesVersion": "v1.35.2",
        "workers": {"replicas": 1, "machineTemplate": template},
    }))
}

fn with_networking(networking: &Value) -> Network {
    reading(json!({
        "kubernetesVersion": "v1.35.2", "workers": {"replicas": 1}, "networking": networking,
    }))
    .network
}

#[test]
fn version_is_the_same_with_and_without_v() {
    assert_eq!(kubernetes_version("1.30.2"), "v1.30.2");
    assert_eq!(kubernetes_version("v1.30.2"), "v1.30.2");
}

#[test]
fn memory_in_megabytes_and_as_quantity_are_one_size() {
    let as_quantity = with_template(&json!({"cpu": 4, "memory": "16384Mi", "diskSize": "100Gi"}));
    let as_number = with_template(&json!({"cpu": 4, "memoryMB": 16384, "diskGB": 100}));
    let size = |reading: &Reading| reading.pools[0].size.clone();
    assert_eq!(size(&as_quantity), size(&as_number));
    assert_eq!(size(&as_number).memory, Some(Quantity::new("16384Mi")));
}

#[test]
fn size_that_is_not_given_stays_open_for_the_team() {
    let reading = reading(json!({"kubernetesVersion": "1.35.2", "workers": {"replicas": 0}}));
    assert_eq!(reading.pools[0].size, WorkerSize::default());
    assert_eq!(reading.worker_replicas(), 0);
}

#[test]
fn talos_version_of_its_own_counts_before_that_of_the_system() {
    let os = |os: Value| {
        let mut reading = with_template(&json!({"os": os}));
        reading.pools.remove(0).talos_version
    };
    assert_eq!(
        os(json!({"type": "talos", "version": "v1.9.0", "talos": {"version": "v1.9.3"}})),
        Some("v1.9.3".to_owned())
    );
    assert_eq!(
        os(json!({"type": "talos", "version": "v1.9.0"})),
        Some("v1.9.0".to_owned())
    );
    assert_eq!(os(json!({"type": "rocky", "version": "9.5"})), None);
}

#[test]
fn workers_are_the_first_pool_and_all_pools_are_counted() {
    let reading = reading(json!({
        "kubernetesVersion": "v1.35.2",
        "workers": {"replicas": 3},
        "nodePools": [
            {"name": "gpu", "replicas": 2, "machineTemplate": {"cpu": 16, "os": {"type": "flatcar"}},
             "labels": {"example.com/gpu": "yes"}, "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            {"name": "spare", "replicas": 0},
        ],
    }));
    let names: Vec<_> = reading
        .pools
        .iter()
        .map(|pool| (pool.name.as_str(), pool.field.as_str(), pool.replicas))
        .collect();
    assert_eq!(
        names,
        [
            ("workers", "spec.workers", 3),
            ("gpu", "spec.nodePools[0]", 2),
            ("spare", "spec.nodePools[1]", 0),
        ]
    );
    assert_eq!(reading.worker_replicas(), 5);
    let gpu = &reading.pools[1];
    assert_eq!(gpu.size.cpu, Some(16));
    assert_eq!(gpu.labels["example.com/gpu"], "yes");
    assert_eq!(gpu.taints[0].value, None);
    assert_eq!(
        gpu.os.as_ref().and_then(|os| os.os_type),
        Some(OperatingSystemType::Flatcar)
    );
}

#[test]
fn control_plane_that_is_not_mentioned_is_hosted_and_has_one_replica() {
    let hosted = reading(json!({"kubernetesVersion": "v1.35.2", "workers": {"replicas": 1}}));
    assert_eq!(hosted.control_plane_mode, ControlPlaneMode::Hosted);
    assert_eq!(hosted.control_plane_replicas, 1);
    let standalone = reading(json!({
        "kubernetesVersion": "v1.35.2", "workers": {"replicas": 1},
        "controlPlane": {"mode": "Standalone", "replicas": 3},
    }));
    assert_eq!(standalone.control_plane_mode, ControlPlaneMode::Standalone);
    assert_eq!(standalone.control_plane_replicas, 3);
}

#[test]
fn labels_that_a_kubelet_must_not_set_go_by_way_of_the_machine() {
    assert!(set_by_kubelet("example.com/tier"));
    assert!(set_by_kubelet("tier"));
    assert!(set_by_kubelet("notnode-role.kubernetes.io.example/gpu"));
    assert!(!set_by_kubelet("node-role.kubernetes.io/gpu"));
    assert!(!set_by_kubelet("team.node-restriction.kubernetes.io/zone"));
}

#[test]
fn machines_are_replaced_after_a_while_unless_somebody_says_otherwise() {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    assert_eq!(
        machine_health(None),
        Some(HealthLimits {
            node_startup: minutes(20),
            unhealthy: minutes(5),
        })
    );
    let health = |enabled, startup: &str, unhealthy: &str| {
        machine_health(Some(&MachineHealth {
            enabled,
            node_startup_timeout: startup.to_owned(),
            unhealthy_timeout: unhealthy.to_owned(),
        }))
    };
    assert_eq!(
        health(true, "1h30m", "0"),
        Some(HealthLimits {
            node_startup: minutes(90),
            unhealthy: SHORTEST_ILLNESS,
        })
    );
    assert_eq!(health(false, "10m", "10m"), None);
}

#[test]
fn cluster_without_networking_has_the_usual_ranges() {
    let network = network(None);
    assert_eq!(network.pod_cidr, "10.244.0.0/16");
    assert_eq!(network.service_cidr, "10.96.0.0/12");
    assert_eq!(
        network.load_balancer_addresses,
        LoadBalancerAddresses::Allocated(None)
    );
}

#[test]
fn range_of_ones_own_counts_before_an_allocation() {
    let network = with_networking(&json!({
        "loadBalancerPool": {"start": "10.40.1.100", "end": "10.40.1.150"}, "lbPoolSize": 4,
    }));
    assert_eq!(
        network.load_balancer_addresses,
        LoadBalancerAddresses::Range(LoadBalancerPool {
            start: "10.40.1.100".to_owned(),
            end: "10.40.1.150".to_owned(),
        })
    );
}

#[test]
fn pool_with_empty_ends_means_an_allocation() {
    let network =
        with_networking(&json!({"loadBalancerPool": {"start": "", "end": ""}, "lbPoolSize": 4}));
    assert_eq!(
        network.load_balancer_addresses,
        LoadBalancerAddresses::Allocated(Some(4))
    );
}

#[test]
fn addon_can_be_wished_refused_or_left_open() {
    let addons = with_addons(&json!({
        "cni": {"provider": "none"},
        "loadBalancer": {"version": ""},
        "certManager": {"enabled": false},
        "ingress": {"provider": "nginx", "version": "4.12.0"},
    }));
    assert_eq!(addons.cni, Wish::Off);
    assert_eq!(
        addons.load_balancer,
        Wish::On(Choice {
            provider: None,
            version: None,
            values: HelmValues::new()
        })
    );
    assert_eq!(addons.storage, Wish::Unstated);
    assert_eq!(addons.cert_manager, Wish::Off);
    assert_eq!(
        addons.ingress,
        Wish::On(Choice {
            provider: Some(IngressProvider::Nginx),
            version: Some("4.12.0".to_owned()),
            values: HelmValues::new(),
        })
    );
    assert_eq!(addons.gitops, None);
}

#[test]
fn flux_is_flux_in_every_spelling() {
    let flux = Some(GitOps {
        tool: GitOpsTool::Flux,
        version: None,
        repository: None,
    });
    assert_eq!(
        with_addons(&json!({"gitops": {"provider": "flux"}})).gitops,
        flux
    );
    assert_eq!(
        with_addons(&json!({"gitops": {"provider": "fluxcd"}})).gitops,
        flux
    );
    assert_eq!(with_addons(&json!({"gitops": {}})).gitops, flux);
    assert_eq!(
        with_addons(&json!({"gitOps": {"provider": "fluxcd"}})).gitops,
        flux
    );
    let argo = with_addons(&json!({"gitops": {"provider": "argocd"}}))
        .gitops
        .unwrap();
    assert_eq!(argo.tool, GitOpsTool::ArgoCd);
}

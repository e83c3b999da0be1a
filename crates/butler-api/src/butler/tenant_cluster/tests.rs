//! What a user may and may not write into a `TenantCluster`.

use kube::{CustomResourceExt, core::cel};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn cluster(spec: &Value) -> TenantCluster {
    serde_json::from_value(json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": {"name": "production", "namespace": "platform-engineering"},
        "spec": spec,
    }))
    .unwrap()
}

fn with_networking(networking: &Value) -> TenantCluster {
    cluster(&json!({
        "kubernetesVersion": "v1.35.2", "workers": {"replicas": 1}, "networking": networking,
    }))
}

fn with_template(template: &Value) -> TenantCluster {
    cluster(&json!({
        "kubernetesVersion": "v1.35.2",
        "workers": {"replicas": 1, "machineTemplate": template},
    }))
}

fn refusal(cluster: &TenantCluster) -> String {
    cel::validate_cel(cluster)
        .expect_err("the rules should refuse this cluster")
        .to_string()
}

#[test]
fn complete_manifest_reads_back_equal() {
    let manifest: Value =
        serde_saphyr::from_str(include_str!("../../../../../examples/tenant-cluster.yaml"))
            .unwrap();
    let cluster: TenantCluster = serde_json::from_value(manifest.clone()).unwrap();
    assert_eq!(serde_json::to_value(&cluster).unwrap(), manifest);
    cel::validate_cel(&cluster).unwrap();
}

#[test]
fn short_manifest_of_the_documentation_reads_back_equal() {
    let spec = json!({
        "kubernetesVersion": "v1.30.2",
        "workers": {"replicas": 3, "machineTemplate": {"cpu": 4, "memory": "16Gi"}},
        "networking": {
            "podCIDR": "10.244.0.0/16",
            "serviceCIDR": "10.96.0.0/12",
            "loadBalancerPool": {"start": "10.40.1.100", "end": "10.40.1.150"},
        },
        "addons": {
            "cni": {"provider": "cilium", "version": "1.16.0"},
            "loadBalancer": {"provider": "metallb", "version": "0.14.5"},
        },
    });
    let cluster = cluster(&spec);
    assert_eq!(serde_json::to_value(&cluster.spec).unwrap(), spec);
    cel::validate_cel(&cluster).unwrap();
}

#[test]
fn cluster_without_workers_is_accepted() {
    cel::validate_cel(&cluster(
        &json!({"kubernetesVersion": "1.35.2", "workers": {"replicas": 0}}),
    ))
    .unwrap();
}

#[test]
fn ipv6_ranges_are_accepted() {
    cel::validate_cel(&with_networking(&json!({
        "podCIDR": "fd00:10:244::/56",
        "serviceCIDR": "fd00:10:96::/112",
        "loadBalancerPool": {"start": "fd00:10:40::100", "end": "fd00:10:40::1ff"},
    })))
    .unwrap();
}

#[test]
fn bad_ranges_are_refused_by_name() {
    let cases = [
        (
            json!({"podCIDR": "10.244.0.0"}),
            "podCIDR must be a CIDR block",
        ),
        (
            json!({"podCIDR": "10.244.1.7/16"}),
            "podCIDR must not have address bits beyond",
        ),
        (
            json!({"serviceCIDR": "10.96.0.0/40"}),
            "serviceCIDR must be a CIDR block",
        ),
        (
            json!({"podCIDR": "fd00:10:244::/56"}),
            "must both be IPv4 or both be IPv6; give both",
        ),
        (
            json!({"podCIDR": "10.96.0.0/16"}),
            "podCIDR and serviceCIDR must not overlap",
        ),
        (
            json!({"podCIDR": "10.0.0.0/8"}),
            "podCIDR and serviceCIDR must not overlap",
        ),
    ];
    for (networking, message) in cases {
        let refused = refusal(&with_networking(&networking));
        assert!(refused.contains(message), "{refused}");
    }
}

#[test]
fn bad_load_balancer_pools_are_refused_by_name() {
    let cases = [
        (
            "10.40.1.150",
            "10.40.1.100",
            "start must not come after end",
        ),
        ("10.40.2.1", "10.40.1.255", "start must not come after end"),
        (
            "10.40.1.100",
            "fd00::1",
            "start and end must both be IPv4 or both be IPv6",
        ),
        ("10.40.1", "10.40.1.150", "start must be an IP address"),
        ("10.40.1.100", "10.40.1.256", "end must be an IP address"),
        ("10.40.1.100", "", "start and end belong together"),
        (
            "10.244.1.1",
            "10.244.1.9",
            "loadBalancerPool must lie outside podCIDR",
        ),
        (
            "10.96.1.1",
            "10.112.1.9",
            "loadBalancerPool must lie outside serviceCIDR",
        ),
    ];
    for (start, end, message) in cases {
        let refused = refusal(&with_networking(&json!({
            "loadBalancerPool": {"start": start, "end": end},
        })));
        assert!(refused.contains(message), "{start}-{end}: {refused}");
    }
}

#[test]
fn pool_with_empty_ends_counts_as_none() {
    let cluster = with_networking(&json!({"loadBalancerPool": {"start": "", "end": ""}}));
    cel::validate_cel(&cluster).unwrap();
}

#[test]
fn ranges_of_a_living_cluster_stay_as_they_are() {
    let before = with_networking(&json!({}));
    for changed in [
        with_networking(&json!({"podCIDR": "10.245.0.0/16"})),
        with_networking(&json!({"serviceCIDR": "10.128.0.0/16"})),
    ] {
        let refused = cel::validate_cel_update(&changed, &before)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("cannot be changed after creation"),
            "{refused}"
        );
    }
}

#[test]
fn writing_the_default_ranges_out_later_is_no_change() {
    let mut before = with_networking(&json!({}));
    before.spec.networking = None;
    cel::validate_cel_update(&with_networking(&json!({"lbPoolSize": 4})), &before).unwrap();
    let changed = with_networking(&json!({"podCIDR": "10.245.0.0/16"}));
    let refused = cel::validate_cel_update(&changed, &before)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("networking.podCIDR cannot be changed"),
        "{refused}"
    );
}

#[test]
fn size_without_a_unit_is_refused_with_the_way_out() {
    let refused = refusal(&with_template(&json!({"memory": 16})));
    assert!(
        refused.contains("memory must be at least 256Mi; write the unit"),
        "{refused}"
    );
    let refused = refusal(&with_template(&json!({"diskSize": "100"})));
    assert!(
        refused.contains("diskSize must be at least 1Gi; write the unit"),
        "{refused}"
    );
}

#[test]
fn two_spellings_of_one_size_are_refused() {
    let refused = refusal(&with_template(
        &json!({"memory": "16Gi", "memoryMB": 16384}),
    ));
    assert!(
        refused.contains("give memory or memoryMB, not both"),
        "{refused}"
    );
    let refused = refusal(&with_template(&json!({"diskSize": "16Gi", "diskGB": 16})));
    assert!(
        refused.contains("give diskSize or diskGB, not both"),
        "{refused}"
    );
}

#[test]
fn override_of_two_providers_is_refused() {
    let refused = refusal(&cluster(&json!({
        "kubernetesVersion": "v1.35.2",
        "workers": {"replicas": 1},
        "infrastructureOverride": {"proxmox": {"templateID": 9000}, "nutanix": {}},
    })));
    assert!(
        refused.contains("a cluster runs on one provider"),
        "{refused}"
    );
}

#[test]
fn spellings_of_gitops_do_not_mix() {
    let refused = refusal(&cluster(&json!({
        "kubernetesVersion": "v1.35.2",
        "workers": {"replicas": 1},
        "addons": {"gitops": {"provider": "flux"}, "gitOps": {"provider": "fluxcd"}},
    })));
    assert!(
        refused.contains("two spellings of one setting"),
        "{refused}"
    );
}

fn with_control_plane(control_plane: &Value) -> TenantCluster {
    cluster(&json!({
        "kubernetesVersion": "v1.35.2", "workers": {"replicas": 1}, "controlPlane": control_plane,
    }))
}

#[test]
fn a_control_plane_on_machines_is_accepted_with_an_odd_number_of_them() {
    let manifest = include_str!("../../../../../examples/tenant-cluster-standalone.yaml");
    cel::validate_cel(&crate::testing::read::<TenantCluster>(manifest)).unwrap();
    for (replicas, accepted) in [(1, true), (2, false), (3, true), (4, false), (5, true)] {
        let cluster = with_control_plane(&json!({"mode": "Standalone", "replicas": replicas}));
        assert_eq!(cel::validate_cel(&cluster).is_ok(), accepted, "{replicas}");
    }
}

#[test]
fn what_a_control_plane_would_not_read_is_refused() {
    let cases = [
        (
            json!({"replicas": 5}),
            "replicas of a Hosted control plane must be 1, 2 or 3",
        ),
        (
            json!({"machineTemplate": {"cpu": 2}}),
            "machineTemplate is for a Standalone control plane",
        ),
        (
            json!({"mode": "Standalone", "dataStoreRef": {"name": "default"}}),
            "dataStoreRef is for a Hosted control plane",
        ),
        (
            json!({"mode": "Standalone", "serviceType": "NodePort"}),
            "serviceType is for a Hosted control plane",
        ),
        (
            json!({"mode": "Standalone", "resources": {}}),
            "resources is for a Hosted control plane",
        ),
    ];
    for (control_plane, message) in cases {
        let refused = refusal(&with_control_plane(&control_plane));
        assert!(refused.contains(message), "{refused}");
    }
}

#[test]
fn a_control_plane_does_not_move_between_pods_and_machines() {
    let hosted = with_control_plane(&json!({}));
    let standalone = with_control_plane(&json!({"mode": "Standalone"}));
    let mut unsaid = hosted.clone();
    unsaid.spec.control_plane = None;
    cel::validate_cel_update(&hosted, &unsaid).unwrap();
    for (changed, before) in [
        (&standalone, &hosted),
        (&standalone, &unsaid),
        (&unsaid, &standalone),
    ] {
        let refused = cel::validate_cel_update(changed, before)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("controlPlane.mode cannot be changed after creation"),
            "{refused}"
        );
    }
}

#[test]
fn names_of_the_workers_and_the_control_plane_are_taken() {
    for name in RESERVED_POOLS {
        let refused = refusal(&cluster(&json!({
            "kubernetesVersion": "v1.35.2",
            "workers": {"replicas": 1},
            "nodePools": [{"name": name, "replicas": 1}],
        })));
        assert!(
            refused.contains("choose another name for the pool"),
            "{refused}"
        );
    }
}

#[test]
fn pools_are_told_apart_by_their_names() {
    let pools = crate::testing::field::<TenantCluster>("spec.nodePools");
    assert_eq!(pools["x-kubernetes-list-type"], "map");
    assert_eq!(pools["x-kubernetes-list-map-keys"], json!(["name"]));
    for list in ["status.nodePools", "status.stages"] {
        let list = crate::testing::field::<TenantCluster>(list);
        assert_eq!(list["x-kubernetes-list-map-keys"], json!(["name"]));
    }
}

#[test]
fn list_shows_phase_version_workers_and_endpoint() {
    let crd = TenantCluster::crd();
    assert_eq!(crd.spec.names.short_names, Some(vec!["tc".to_owned()]));
    let columns: Vec<_> = crd.spec.versions[0]
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| {
            (
                column.name.as_str(),
                column.type_.as_str(),
                column.json_path.as_str(),
            )
        })
        .collect();
    assert_eq!(
        columns,
        [
            ("Phase", "string", ".status.phase"),
            ("K8s Version", "string", ".spec.kubernetesVersion"),
            ("Workers", "integer", ".status.observedState.workers.ready"),
            ("Endpoint", "string", ".status.controlPlaneEndpoint"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ]
    );
}

#[test]
fn field_with_a_closed_set_is_explained_in_its_own_words() {
    let crd = serde_json::to_value(TenantCluster::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let provider =
        &schema["spec"]["properties"]["addons"]["properties"]["cni"]["properties"]["provider"];
    assert_eq!(provider["type"], "string");
    assert_eq!(provider["enum"], json!(["cilium", "bridge", "none"]));
    assert_eq!(
        provider["description"],
        "Which pod network. If absent, the provider's usual one."
    );
}

#[test]
fn what_depends_on_provider_or_team_has_no_default_in_the_schema() {
    let crd = serde_json::to_value(TenantCluster::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let template = &spec["properties"]["workers"]["properties"]["machineTemplate"]["properties"];
    let addons = &spec["properties"]["addons"]["properties"];
    for (name, property) in [
        ("cpu", &template["cpu"]),
        ("memory", &template["memory"]),
        ("diskSize", &template["diskSize"]),
        ("os.type", &template["os"]["properties"]["type"]),
        ("cni", &addons["cni"]["properties"]["provider"]),
        (
            "loadBalancer",
            &addons["loadBalancer"]["properties"]["provider"],
        ),
    ] {
        assert!(property.is_object(), "{name} is missing");
        assert_eq!(property.get("default"), None, "{name}");
    }
}

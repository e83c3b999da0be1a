//! The objects of a tenant as text: a change in them is a change in review.

use butler_api::steward::kubernetes::CgroupDriver;
use butler_api::steward::tenant_control_plane::WritePermissions;
use jiff::Timestamp;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use steward_tenant::{
    Desired, ImageOverride, KubeProxyFacts, Observed, Settled, TenantFacts, TenantPart, desired,
    plan,
};

use crate::scene::{facts, grant};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn bodies(desired: &Desired, part: TenantPart) -> Vec<&Value> {
    let objects = desired.objects.iter().filter(|object| object.part == part);
    objects.map(|object| &object.manifest.body).collect()
}

fn document(desired: &Desired, name: &str, key: &str) -> Value {
    let object = desired.objects.iter().find(|object| {
        object.manifest.key.name == name && object.manifest.kind.kind == "ConfigMap"
    });
    let text = object.unwrap().manifest.body["data"][key].as_str().unwrap();
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn a_tenant_holds_what_nodes_and_pods_look_for() {
    let desired = desired(
        &TenantFacts {
            tokens: vec![grant(NOW)],
            ..facts()
        },
        NOW,
    );
    assert_eq!(desired.problems.len(), 0);
    for part in TenantPart::ALL {
        if desired.has(part) {
            insta::assert_yaml_snapshot!(part.as_str(), bodies(&desired, part));
        }
    }
}

#[test]
fn a_tenant_with_wishes_of_its_own_has_them() {
    let wishes = TenantFacts {
        service_cidrs: vec![
            "fd00:96::/112".parse().unwrap(),
            "10.96.0.0/16".parse().unwrap(),
        ],
        pod_cidrs: vec![
            "fd00:244::/56".parse().unwrap(),
            "10.244.0.0/16".parse().unwrap(),
        ],
        cluster_domain: "blue.example".parse().unwrap(),
        certificate_names: vec!["api.blue.example".to_owned()],
        image_registry: "mirror.example/k8s".to_owned(),
        cgroup_driver: Some(CgroupDriver::Cgroupfs),
        kubelet_patches: serde_json::from_value(json!([
            { "op": "add", "path": "/maxPods", "value": 50 },
            { "op": "remove", "path": "/staticPodPath" },
        ]))
        .unwrap(),
        core_dns: Some(ImageOverride {
            repository: None,
            tag: Some("v1.14.7".to_owned()),
        }),
        kube_proxy: Some(KubeProxyFacts {
            image: ImageOverride {
                repository: Some("local/".to_owned()),
                tag: None,
            },
            configuration_patches: serde_json::from_value(json!([
                { "op": "replace", "path": "/mode", "value": "nftables" },
                { "op": "add", "path": "/conntrack/maxPerCore", "value": 0 },
            ]))
            .unwrap(),
        }),
        ..facts()
    };
    let desired = desired(&wishes, NOW);
    let of = |kind: &str, pointer: &str| {
        let object = desired
            .objects
            .iter()
            .find(|object| object.manifest.kind.kind == kind);
        object.unwrap().manifest.body.pointer(pointer).cloned()
    };
    insta::assert_yaml_snapshot!(json!({
        "ClusterConfiguration": document(&desired, "kubeadm-config", "ClusterConfiguration"),
        "KubeletConfiguration": document(&desired, "kubelet-config", "kubelet"),
        "KubeProxyConfiguration": document(&desired, "kube-proxy", "config.conf"),
        "kube-dns": of("Service", "/spec"),
        "coredns": of("Deployment", "/spec/template/spec/containers/0/image"),
        "kube-proxy": of("DaemonSet", "/spec/template/spec/containers/0/image"),
    }));
}

#[test]
fn policies_refuse_what_they_are_asked_to() {
    let limited = TenantFacts {
        write_permissions: WritePermissions {
            block_creation: true,
            block_update: true,
            block_deletion: true,
        },
        ..facts()
    };
    let limited = desired(&limited, NOW);
    insta::assert_yaml_snapshot!(bodies(&limited, TenantPart::WritePermissions));
    let frozen = desired(
        &TenantFacts {
            frozen: true,
            ..facts()
        },
        NOW,
    );
    insta::assert_yaml_snapshot!(bodies(&frozen, TenantPart::Freeze));
    assert_eq!(
        frozen.governed.len(),
        1,
        "a frozen tenant is not touched otherwise"
    );
}

#[test]
fn a_patch_that_does_not_fit_keeps_its_part_alone() {
    let facts = TenantFacts {
        kubelet_patches: serde_json::from_value(json!([{ "op": "remove", "path": "/maxPods" }]))
            .unwrap(),
        ..facts()
    };
    let desired = desired(&facts, NOW);
    assert_eq!(
        desired.problems[&TenantPart::KubeletConfig].to_string(),
        "patch 1 of the KubeletConfiguration, at \"/maxPods\": path is invalid"
    );
    assert!(
        !desired.governed.contains(&TenantPart::KubeletConfig),
        "what nodes have stays"
    );
    assert!(desired.has(TenantPart::KubeadmConfig));
}

#[test]
fn an_expired_token_is_neither_kept_nor_signed_for() {
    let grant = grant(NOW);
    let end = grant.expiry.unwrap();
    let facts = TenantFacts {
        tokens: vec![grant],
        ..facts()
    };
    let mentions = |now| {
        let objects = desired(&facts, now).objects;
        objects
            .iter()
            .filter(|object| object.manifest.body.to_string().contains("abcdef"))
            .count()
    };
    assert_eq!(mentions(NOW), 2);
    assert_eq!(mentions(end), 0);
}

#[test]
fn what_is_printed_of_a_plan_holds_no_secret() {
    let facts = TenantFacts {
        tokens: vec![grant(NOW)],
        ..facts()
    };
    let desired = desired(&facts, NOW);
    let plan = plan(&desired, &Observed::default(), &Settled::new());
    let printed = format!("{facts:?} {desired:?} {plan:?}");
    assert!(printed.contains("Apply(Secret kube-system/bootstrap-token-abcdef)"));
    for secret in ["0123456789abcdef", "MDEyMzQ1Njc4OWFiY2RlZg"] {
        assert!(!printed.contains(secret));
    }
}

#[test]
fn a_fingerprint_follows_the_contents_of_its_part_alone() {
    let before = desired(&facts(), NOW).checksums();
    let changed = TenantFacts {
        cgroup_driver: Some(CgroupDriver::Cgroupfs),
        ..facts()
    };
    let after = desired(&changed, NOW).checksums();
    let differing: Vec<_> = before
        .iter()
        .filter(|(part, sum)| after[part] != **sum)
        .collect();
    assert_eq!(differing.len(), 1);
    assert_eq!(*differing[0].0, TenantPart::KubeletConfig);
}

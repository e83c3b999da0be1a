//! The objects of a tenant as text: a change in them is a change in review.

use butler_api::steward::kubernetes::CgroupDriver;
use butler_api::steward::tenant_control_plane::WritePermissions;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use steward_tenant::{Desired, ImageOverride, KubeProxyFacts, TenantFacts, TenantPart, desired};

use crate::scene::facts;

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
    let desired = desired(&facts());
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
    let desired = desired(&wishes);
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
    let limited = desired(&limited);
    insta::assert_yaml_snapshot!(bodies(&limited, TenantPart::WritePermissions));
    let frozen = desired(&TenantFacts {
        frozen: true,
        ..facts()
    });
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
    let desired = desired(&facts);
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
fn a_fingerprint_follows_the_contents_of_its_part_alone() {
    let before = desired(&facts()).checksums();
    let changed = TenantFacts {
        cgroup_driver: Some(CgroupDriver::Cgroupfs),
        ..facts()
    };
    let after = desired(&changed).checksums();
    let differing: Vec<_> = before
        .iter()
        .filter(|(part, sum)| after[part] != **sum)
        .collect();
    assert_eq!(differing.len(), 1);
    assert_eq!(*differing[0].0, TenantPart::KubeletConfig);
}

#[test]
fn addons_are_of_the_version_that_all_api_servers_have() {
    let facts = TenantFacts {
        serving_version: "v1.35.4".parse().unwrap(),
        ..facts()
    };
    let desired = desired(&facts);
    let proxies = bodies(&desired, TenantPart::KubeProxy);
    let mut images = proxies
        .iter()
        .filter_map(|body| body["spec"]["template"]["spec"]["containers"][0]["image"].as_str());
    assert_eq!(images.next(), Some("registry.k8s.io/kube-proxy:v1.35.4"));
    let kubeadm = document(&desired, "kubeadm-config", "ClusterConfiguration");
    assert_eq!(
        kubeadm["kubernetesVersion"], "v1.36.3",
        "nodes that join are told the new one"
    );
}

/// A tenant whose API servers and nodes are of one version.
fn of_version(version: &str) -> TenantFacts {
    TenantFacts {
        version: version.parse().unwrap(),
        serving_version: version.parse().unwrap(),
        ..facts()
    }
}

#[test]
fn kubeadm_of_every_version_finds_a_configuration_that_it_can_read() {
    let of = |version: &str| {
        let facts = TenantFacts {
            certificate_names: vec!["api.blue.example".to_owned()],
            kube_proxy: None,
            core_dns: Some(ImageOverride {
                repository: None,
                tag: Some("v9".to_owned()),
            }),
            ..of_version(version)
        };
        document(&desired(&facts), "kubeadm-config", "ClusterConfiguration")
    };
    insta::assert_yaml_snapshot!("cluster_configuration_1_29", of("v1.29.15"));
    insta::assert_yaml_snapshot!("cluster_configuration_1_31", of("v1.31.9"));
    let formats = ["v1.29.15", "v1.30.14", "v1.31.9", "v1.36.3"].map(|version| {
        let format = of(version)["apiVersion"].clone();
        format.as_str().unwrap().to_owned()
    });
    let v1beta3 = "kubeadm.k8s.io/v1beta3";
    let v1beta4 = "kubeadm.k8s.io/v1beta4";
    assert_eq!(formats, [v1beta3, v1beta3, v1beta4, v1beta4]);
}

#[test]
fn addons_are_those_that_go_with_each_version() {
    let images = ["v1.29.15", "v1.30.14", "v1.31.9", "v1.36.3"].map(|version| {
        let desired = desired(&of_version(version));
        let objects = desired.objects.iter().map(|object| &object.manifest.body);
        let images = objects.filter_map(|body| {
            let image = body.pointer("/spec/template/spec/containers/0/image")?;
            image.as_str().map(str::to_owned)
        });
        images.collect::<Vec<_>>().join(" ")
    });
    insta::assert_snapshot!(images.join("\n"), @"
    registry.k8s.io/coredns/coredns:v1.11.1 registry.k8s.io/kube-proxy:v1.29.15
    registry.k8s.io/coredns/coredns:v1.11.3 registry.k8s.io/kube-proxy:v1.30.14
    registry.k8s.io/coredns/coredns:v1.11.3 registry.k8s.io/kube-proxy:v1.31.9
    registry.k8s.io/coredns/coredns:v1.14.2 registry.k8s.io/kube-proxy:v1.36.3
    ");
}

#[test]
fn a_version_without_policies_is_furnished_and_says_that_it_cannot_refuse_writes() {
    let limited = |version: &str| TenantFacts {
        write_permissions: WritePermissions {
            block_creation: true,
            ..WritePermissions::default()
        },
        ..of_version(version)
    };
    let kinds = |desired: &Desired| -> Vec<String> {
        let places = desired.places.iter().map(|place| place.kind.kind.clone());
        places.filter(|kind| kind.contains("Policy")).collect()
    };
    let old = desired(&limited("v1.29.15"));
    assert_eq!(kinds(&old), [""; 0], "what is not served is not asked for");
    assert!(old.has(TenantPart::KubeadmConfig) && old.has(TenantPart::CoreDns));
    assert_eq!(
        old.problems[&TenantPart::WritePermissions].to_string(),
        "API servers of Kubernetes v1.29.15 cannot be told to refuse writes, so that all are accepted: upgrade to v1.30 or newer"
    );
    let frozen = desired(&TenantFacts {
        frozen: true,
        ..of_version("v1.29.15")
    });
    assert_eq!(
        frozen.problems[&TenantPart::Freeze].to_string(),
        "API servers of Kubernetes v1.29.15 cannot be told to refuse writes while the state moves: scale the control plane to zero until it has moved, or upgrade to v1.30 or newer first"
    );
    assert!(desired(&of_version("v1.29.15")).problems.is_empty());
    for version in ["v1.30.14", "v1.31.9", "v1.36.3"] {
        let new = desired(&limited(version));
        assert_eq!(kinds(&new).len(), 2, "{version}");
        assert!(new.problems.is_empty() && new.has(TenantPart::WritePermissions));
    }
    // In an upgrade, the API servers that are still old decide.
    let upgrading = desired(&TenantFacts {
        version: "v1.30.14".parse().unwrap(),
        ..limited("v1.29.15")
    });
    assert_eq!(upgrading.problems.len(), 1);
}

#[test]
fn what_does_harm_at_once_is_watched_as_long_as_there_is_some_of_it() {
    let watched = |facts: &TenantFacts| -> Vec<String> {
        let places = desired(facts).watched().into_iter();
        places.map(|place| place.kind.kind).collect()
    };
    assert_eq!(watched(&facts()), ["Deployment", "DaemonSet"]);
    let policies = [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    let bare = TenantFacts {
        core_dns: None,
        kube_proxy: None,
        ..facts()
    };
    assert_eq!(watched(&bare), [""; 0]);
    let limited = TenantFacts {
        write_permissions: WritePermissions {
            block_deletion: true,
            ..WritePermissions::default()
        },
        ..bare
    };
    assert_eq!(watched(&limited), policies);
    let frozen = TenantFacts {
        frozen: true,
        ..facts()
    };
    assert_eq!(watched(&frozen), policies);
}

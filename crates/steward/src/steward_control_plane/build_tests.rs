//! Every field of a control plane finds its place in the `TenantControlPlane`.

use pretty_assertions::assert_eq;

use super::*;
use crate::steward_control_plane::{
    ClusterSight,
    scene::{cluster, control_plane, here, serving},
};

const EXAMPLE: &str = include_str!("../../../../examples/steward-control-plane.yaml");
const TEMPLATE: &str = include_str!("../../../../examples/steward-control-plane-template.yaml");

fn network() -> ClusterNetwork {
    match cluster() {
        ClusterSight::Found(_, facts) => facts.network,
        other => panic!("{other:?}"),
    }
}

fn built(control_plane: &StewardControlPlane, network: &ClusterNetwork) -> Value {
    let key = here("shop");
    tenant(control_plane, (&key, network), &key, true, None).body
}

#[test]
fn a_version_alone_makes_a_plain_control_plane() {
    let bare = control_plane(json!({ "version": "1.36.3" }));
    let body = built(&bare, &ClusterNetwork::default());
    insta::assert_json_snapshot!(body, @r#"
    {
      "apiVersion": "steward.butlerlabs.dev/v1alpha1",
      "kind": "TenantControlPlane",
      "metadata": {
        "labels": {
          "cluster.x-k8s.io/cluster-name": "shop"
        },
        "name": "shop",
        "namespace": "payments",
        "ownerReferences": [
          {
            "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1",
            "blockOwnerDeletion": true,
            "controller": true,
            "kind": "StewardControlPlane",
            "name": "shop",
            "uid": "6f9619ff-8b86-4011-b42d-00c04fc964ff"
          }
        ]
      },
      "spec": {
        "addons": {},
        "controlPlane": {
          "deployment": {
            "registrySettings": {
              "apiServerImage": "kube-apiserver",
              "controllerManagerImage": "kube-controller-manager",
              "registry": "registry.k8s.io",
              "schedulerImage": "kube-scheduler"
            },
            "replicas": 2,
            "serviceAccountName": "default",
            "strategy": {
              "rollingUpdate": {
                "maxSurge": "100%",
                "maxUnavailable": 0
              },
              "type": "RollingUpdate"
            }
          },
          "service": {
            "serviceType": "LoadBalancer"
          }
        },
        "kubernetes": {
          "kubelet": {
            "cgroupfs": "systemd",
            "preferredAddressTypes": [
              "InternalIP",
              "ExternalIP",
              "Hostname"
            ]
          },
          "version": "v1.36.3"
        },
        "networkProfile": {
          "clusterDomain": "cluster.local",
          "podCidr": "10.244.0.0/16",
          "port": 6443,
          "serviceCidr": "10.96.0.0/16"
        }
      }
    }
    "#);
}

#[test]
fn networks_port_and_domain_come_from_the_cluster() {
    let body = built(&control_plane(json!({})), &network());
    insta::assert_json_snapshot!(body["spec"]["networkProfile"], @r#"
    {
      "clusterDomain": "shop.example",
      "podCidr": "10.10.0.0/16",
      "port": 40443,
      "serviceCidr": "10.128.0.0/12,fd00:1::/112"
    }
    "#);
}

#[test]
fn an_example_is_carried_over_whole() {
    let example: StewardControlPlane = serde_saphyr::from_str(EXAMPLE).unwrap();
    let body = built(&example, &network());
    let spec = &body["spec"];
    insta::assert_json_snapshot!(spec, @r#"
    {
      "addons": {
        "coreDNS": {},
        "konnectivity": {
          "agent": {
            "hostNetwork": false,
            "image": "registry.k8s.io/kas-network-proxy/proxy-agent",
            "mode": "DaemonSet",
            "tolerations": [
              {
                "key": "CriticalAddonsOnly",
                "operator": "Exists"
              }
            ]
          },
          "server": {
            "image": "registry.k8s.io/kas-network-proxy/proxy-server",
            "port": 8132
          }
        },
        "kubeProxy": {}
      },
      "controlPlane": {
        "deployment": {
          "extraArgs": {
            "apiServer": [
              "--event-ttl=2h"
            ]
          },
          "podAdditionalMetadata": {
            "labels": {
              "environment": "demo"
            }
          },
          "registrySettings": {
            "apiServerImage": "kube-apiserver",
            "controllerManagerImage": "kube-controller-manager",
            "registry": "registry.k8s.io",
            "schedulerImage": "kube-scheduler"
          },
          "replicas": 2,
          "resources": {
            "apiServer": {
              "requests": {
                "cpu": "250m",
                "memory": "512Mi"
              }
            }
          },
          "serviceAccountName": "default",
          "strategy": {
            "rollingUpdate": {
              "maxSurge": "100%",
              "maxUnavailable": 0
            },
            "type": "RollingUpdate"
          }
        },
        "service": {
          "additionalMetadata": {
            "annotations": {
              "metallb.io/address-pool": "control-planes"
            }
          },
          "serviceType": "LoadBalancer"
        }
      },
      "dataStore": "default",
      "kubernetes": {
        "kubelet": {
          "cgroupfs": "systemd",
          "preferredAddressTypes": [
            "InternalIP",
            "ExternalIP",
            "Hostname"
          ]
        },
        "version": "v1.35.2"
      },
      "networkProfile": {
        "certSANs": [
          "api.demo.example.com"
        ],
        "clusterDomain": "shop.example",
        "dnsServiceIPs": [
          "10.96.0.10"
        ],
        "loadBalancerSourceRanges": [
          "198.51.100.0/24"
        ],
        "podCidr": "10.10.0.0/16",
        "port": 40443,
        "serviceCidr": "10.128.0.0/12,fd00:1::/112"
      }
    }
    "#);
}

#[test]
fn a_template_reaches_the_control_planes_that_are_made_from_it() {
    let template: Value = serde_saphyr::from_str(TEMPLATE).unwrap();
    let made = control_plane(template["spec"]["template"]["spec"].clone());
    let spec = built(&made, &network())["spec"].clone();
    insta::assert_json_snapshot!(
        json!({ "gateway": spec["controlPlane"]["gateway"], "tcpProxy": spec["addons"]["tcpProxy"] }), @r#"
        {
          "gateway": {
            "hostname": "demo.k8s.example.com",
            "parentRefs": [
              {
                "group": "gateway.networking.k8s.io",
                "kind": "Gateway",
                "name": "control-planes",
                "namespace": "gateways"
              }
            ]
          },
          "tcpProxy": {
            "hostAliases": [
              {
                "hostnames": [
                  "demo.k8s.example.com",
                  "demo.konnectivity.example.com"
                ],
                "ip": "192.0.2.20"
              }
            ]
          }
        }
        "#);
}

#[test]
fn components_containers_and_volumes_are_carried_over() {
    let body = built(
        &control_plane(json!({
            "registry": "registry.example.com/k8s",
            "admissionControllers": ["NodeRestriction"],
            "dataStoreName": "fast", "dataStoreSchema": "shop", "dataStoreUsername": "shopper",
            "apiServer": {
                "containerImageName": "hardened-apiserver", "extraArgs": ["--v=2"],
                "extraVolumeMounts": [{ "name": "logs", "mountPath": "/var/log" }],
            },
            "scheduler": { "extraArgs": ["--v=3"] },
            "kine": { "extraArgs": ["--debug"], "resources": { "requests": { "cpu": "10m" } } },
            "deployment": {
                "nodeSelector": { "pool": "hosting" }, "serviceAccountName": "hosted",
                "extraContainers": [{ "name": "audit", "image": "example.com/audit:1" }],
                "extraInitContainers": [{ "name": "wait", "image": "example.com/wait:1" }],
                "extraVolumes": [{ "name": "logs", "emptyDir": {} }],
            },
            "network": {
                "serviceType": "NodePort", "serviceAddress": "192.0.2.9", "serviceLabels": { "a": "b" },
                "ingress": {
                    "hostname": "shop.example.com:8443", "className": "public", "controllerType": "nginx",
                    "extraAnnotations": { "c": "d" },
                },
            },
        })),
        &ClusterNetwork::default(),
    );
    let spec = &body["spec"];
    assert_eq!(
        spec["kubernetes"]["admissionControllers"],
        json!(["NodeRestriction"])
    );
    for (field, value) in [
        ("dataStore", "fast"),
        ("dataStoreSchema", "shop"),
        ("dataStoreUsername", "shopper"),
    ] {
        assert_eq!(spec[field], value);
    }
    insta::assert_json_snapshot!(spec["controlPlane"], @r#"
    {
      "deployment": {
        "additionalContainers": [
          {
            "image": "example.com/audit:1",
            "name": "audit"
          }
        ],
        "additionalInitContainers": [
          {
            "image": "example.com/wait:1",
            "name": "wait"
          }
        ],
        "additionalVolumeMounts": {
          "apiServer": [
            {
              "mountPath": "/var/log",
              "name": "logs"
            }
          ]
        },
        "additionalVolumes": [
          {
            "emptyDir": {},
            "name": "logs"
          }
        ],
        "extraArgs": {
          "apiServer": [
            "--v=2"
          ],
          "kine": [
            "--debug"
          ],
          "scheduler": [
            "--v=3"
          ]
        },
        "nodeSelector": {
          "pool": "hosting"
        },
        "registrySettings": {
          "apiServerImage": "hardened-apiserver",
          "controllerManagerImage": "kube-controller-manager",
          "registry": "registry.example.com/k8s",
          "schedulerImage": "kube-scheduler"
        },
        "replicas": 2,
        "resources": {
          "kine": {
            "requests": {
              "cpu": "10m"
            }
          }
        },
        "serviceAccountName": "hosted",
        "strategy": {
          "rollingUpdate": {
            "maxSurge": "100%",
            "maxUnavailable": 0
          },
          "type": "RollingUpdate"
        }
      },
      "ingress": {
        "additionalMetadata": {
          "annotations": {
            "c": "d"
          }
        },
        "controllerType": "nginx",
        "hostname": "shop.example.com:8443",
        "ingressClassName": "public"
      },
      "service": {
        "additionalMetadata": {
          "labels": {
            "a": "b"
          }
        },
        "serviceType": "NodePort"
      }
    }
    "#);
}

#[test]
fn dns_addresses_of_the_addon_come_before_those_of_the_network() {
    let both = control_plane(json!({
        "addons": { "coreDNS": { "dnsServiceIPs": ["10.96.0.53"] } },
        "network": { "dnsServiceIPs": ["10.96.0.10"] },
    }));
    let addresses = |body: Value| body["spec"]["networkProfile"]["dnsServiceIPs"].clone();
    let network = ClusterNetwork::default();
    assert_eq!(addresses(built(&both, &network)), json!(["10.96.0.53"]));
    let one = control_plane(json!({ "network": { "dnsServiceIPs": ["10.96.0.10"] } }));
    assert_eq!(addresses(built(&one, &network)), json!(["10.96.0.10"]));
}

#[test]
fn labels_and_annotations_go_along_but_those_that_are_its_own() {
    let mut labelled = control_plane(json!({}));
    let texts = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        Some(
            pairs
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        )
    };
    labelled.metadata.labels = texts(&[("environment", "demo"), (labels::OWNER_UID, "team")]);
    labelled.metadata.annotations = texts(&[
        (LAST_APPLIED, "{}"),
        (annotations::STEWARD_KUBECONFIG_SECRET_KEY, "admin.svc"),
        (annotations::STEWARD_MIGRATION_TIMEOUT, "1h"),
    ]);
    let body = built(&labelled, &ClusterNetwork::default());
    insta::assert_json_snapshot!(body["metadata"], @r#"
    {
      "annotations": {
        "steward.butlerlabs.dev/migration-timeout": "1h"
      },
      "labels": {
        "cluster.x-k8s.io/cluster-name": "shop",
        "environment": "demo"
      },
      "name": "shop",
      "namespace": "payments",
      "ownerReferences": [
        {
          "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1",
          "blockOwnerDeletion": true,
          "controller": true,
          "kind": "StewardControlPlane",
          "name": "shop",
          "uid": "6f9619ff-8b86-4011-b42d-00c04fc964ff"
        }
      ]
    }
    "#);
}

#[test]
fn a_store_that_was_chosen_for_it_is_kept() {
    let chosen = TenantSight {
        data_store: Some("default".to_owned()),
        ..serving()
    };
    let key = here("shop");
    let network = ClusterNetwork::default();
    let store = |control_plane: &StewardControlPlane| {
        let made = tenant(control_plane, (&key, &network), &key, true, Some(&chosen));
        made.body["spec"]["dataStore"].clone()
    };
    assert_eq!(store(&control_plane(json!({}))), "default");
    assert_eq!(
        store(&control_plane(json!({ "dataStoreName": "" }))),
        "default"
    );
    assert_eq!(
        store(&control_plane(json!({ "dataStoreName": "fast" }))),
        "fast"
    );
}

#[test]
fn in_another_cluster_nobody_owns_it() {
    let key = ObjectKey::namespaced("hosted", name_elsewhere(&control_plane(json!({}))));
    let network = ClusterNetwork::default();
    let cluster = here("shop");
    let body = tenant(
        &control_plane(json!({})),
        (&cluster, &network),
        &key,
        false,
        None,
    )
    .body;
    insta::assert_json_snapshot!(body["metadata"], @r#"
    {
      "labels": {
        "cluster.x-k8s.io/cluster-name": "shop"
      },
      "name": "kcp-6f9619ff-8b86-4011-b42d-00c04fc964ff",
      "namespace": "hosted"
    }
    "#);
}

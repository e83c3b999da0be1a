use std::collections::BTreeMap;

use butler_api::steward::data_store::DataStoreDriver;
use insta::assert_yaml_snapshot;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{
    build::StoreConnection,
    names::SecretRole,
    settings::Settings,
    testing::{control_plane, control_plane_with},
};

fn connection(driver: DataStoreDriver) -> StoreConnection {
    StoreConnection {
        name: "default".to_owned(),
        driver,
        endpoints: vec!["etcd-0.etcd:2379".to_owned(), "etcd-1.etcd:2379".to_owned()],
        schema: "t1".to_owned(),
        encrypted: true,
        client_certificate: true,
        overrides: Vec::new(),
    }
}

fn built(control_plane: &TenantControlPlane, connection: &StoreConnection) -> Value {
    let version = control_plane.spec.kubernetes.version.parse().unwrap();
    let checksums: BTreeMap<_, _> = mounted(control_plane, connection)
        .into_iter()
        .map(|role| (role, format!("sum-of-{}", role.as_str().len())))
        .collect();
    let inputs = PodInputs {
        control_plane,
        names: &Names::of(control_plane),
        version: &version,
        advertised: "192.0.2.4".parse().unwrap(),
        connection,
        checksums: &checksums,
        settings: &Settings::default(),
    };
    deployment(&inputs).body
}

fn container<'a>(deployment: &'a Value, name: &str) -> &'a Value {
    let containers = deployment["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    containers
        .iter()
        .find(|container| container["name"] == name)
        .unwrap()
}

fn has_argument(container: &Value, argument: &str) -> bool {
    container["args"]
        .as_array()
        .unwrap()
        .contains(&json!(argument))
}

#[test]
fn a_plain_control_plane_on_etcd() {
    let deployment = built(
        &control_plane("LoadBalancer"),
        &connection(DataStoreDriver::Etcd),
    );
    assert_yaml_snapshot!("plain", deployment);
}

#[test]
fn a_control_plane_on_a_database_has_kine_beside_it() {
    let deployment = built(
        &control_plane("LoadBalancer"),
        &connection(DataStoreDriver::PostgreSql),
    );
    let pod = &deployment["spec"]["template"]["spec"];
    assert_yaml_snapshot!(
        "kine",
        json!({ "kine": container(&deployment, "kine"), "volumes": pod["volumes"] })
    );
    assert!(has_argument(
        container(&deployment, "kube-apiserver"),
        "--etcd-servers=unix:///uds/kine"
    ));
}

#[test]
fn a_control_plane_with_a_tunnel_behind_an_ingress() {
    let tcp = control_plane_with(json!({
        "controlPlane": {
            "service": { "serviceType": "ClusterIP" },
            "ingress": { "hostname": "shop.k8s.example.com" },
        },
        "addons": { "konnectivity": {}, "tcpProxy": {} },
    }));
    let deployment = built(&tcp, &connection(DataStoreDriver::Etcd));
    assert_yaml_snapshot!("tunnel", container(&deployment, "konnectivity-server"));
    let api_server = container(&deployment, "kube-apiserver");
    assert!(has_argument(api_server, "--endpoint-reconciler-type=none"));
}

#[test]
fn everything_a_user_may_set_has_its_place() {
    let tcp = control_plane_with(json!({
        "controlPlane": {
            "service": { "serviceType": "LoadBalancer" },
            "deployment": {
                "replicas": 3,
                "registrySettings": { "registry": "mirror.example.com/k8s", "tagSuffix": "-fips", "apiServerImage": "apiserver" },
                "nodeSelector": { "pool": "control" },
                "runtimeClassName": "kata",
                "strategy": { "type": "Recreate" },
                "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                }],
                "resources": { "apiServer": { "limits": { "memory": "1Gi" } } },
                "extraArgs": {
                    "apiServer": ["--audit-log-path=-", "--feature-gates=A=true", "--feature-gates=B=true"],
                    "scheduler": ["--v=4"],
                },
                "additionalMetadata": { "labels": { "tier": "gold" } },
                "podAdditionalMetadata": { "annotations": { "example.com/scrape": "true" } },
                "additionalInitContainers": [{ "name": "wait", "image": "busybox" }],
                "additionalContainers": [{ "name": "audit", "image": "fluent-bit" }],
                "additionalVolumes": [{ "name": "logs", "emptyDir": {} }],
                "additionalVolumeMounts": { "apiServer": [{ "name": "logs", "mountPath": "/var/log" }] },
                "serviceAccountName": "control-plane",
            },
        },
    }));
    let deployment = built(&tcp, &connection(DataStoreDriver::Etcd));
    let pod = &deployment["spec"]["template"];
    let api_server = container(&deployment, "kube-apiserver");
    assert_yaml_snapshot!(
        "everything",
        json!({
            "labels": deployment["metadata"]["labels"],
            "replicas": deployment["spec"]["replicas"],
            "strategy": deployment["spec"]["strategy"],
            "podAnnotations": pod["metadata"]["annotations"],
            "nodeSelector": pod["spec"]["nodeSelector"],
            "runtimeClassName": pod["spec"]["runtimeClassName"],
            "tolerations": pod["spec"]["tolerations"],
            "topologySpreadConstraints": pod["spec"]["topologySpreadConstraints"],
            "serviceAccountName": pod["spec"]["serviceAccountName"],
            "automountServiceAccountToken": pod["spec"].get("automountServiceAccountToken"),
            "initContainers": pod["spec"]["initContainers"],
            "firstContainer": pod["spec"]["containers"][0],
            "firstVolume": pod["spec"]["volumes"][0],
            "image": api_server["image"],
            "resources": api_server["resources"],
            "lastMount": api_server["volumeMounts"].as_array().unwrap().last(),
            "lastArguments": api_server["args"].as_array().unwrap().iter().rev().take(3).collect::<Vec<_>>(),
        })
    );
}

#[test]
fn resources_kept_elsewhere_are_told_to_the_api_server() {
    let mut store = connection(DataStoreDriver::Etcd);
    store.overrides = vec![(
        "/events".to_owned(),
        vec!["a:2379".to_owned(), "b:2379".to_owned()],
    )];
    let deployment = built(&control_plane("LoadBalancer"), &store);
    let api_server = container(&deployment, "kube-apiserver");
    assert!(has_argument(
        api_server,
        "--etcd-servers-overrides=/events#https://a:2379;https://b:2379"
    ));
}

#[test]
fn plugins_that_a_version_no_longer_knows_are_left_out() {
    let tcp = control_plane_with(json!({ "kubernetes": {
        "version": "v1.36.3", "kubelet": {},
        "admissionControllers": ["NodeRestriction", "PodSecurityPolicy", "SecurityContextDeny"],
    } }));
    let deployment = built(&tcp, &connection(DataStoreDriver::Etcd));
    let api_server = container(&deployment, "kube-apiserver");
    assert!(has_argument(
        api_server,
        "--enable-admission-plugins=NodeRestriction"
    ));
}

#[test]
fn the_pods_carry_the_fingerprint_of_every_secret_they_mount() {
    let tcp = control_plane_with(json!({ "addons": { "konnectivity": {} } }));
    let connection = connection(DataStoreDriver::Etcd);
    let deployment = built(&tcp, &connection);
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    for role in mounted(&tcp, &connection) {
        let label = format!("component.steward.butlerlabs.dev/{}", role.checksum_label());
        assert!(labels.get(&label).is_some(), "{label}");
    }
    assert!(mounted(&tcp, &connection).contains(&SecretRole::StoreCertificate));
}

#[test]
fn no_container_of_ours_may_do_more_than_it_must() {
    let tcp = control_plane_with(json!({ "addons": { "konnectivity": {} } }));
    let deployment = built(&tcp, &connection(DataStoreDriver::MySql));
    let containers = deployment["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    assert_eq!(containers.len(), 5);
    for container in containers {
        let security = &container["securityContext"];
        assert_eq!(security["runAsNonRoot"], true);
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    }
}

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
    built_with(control_plane, connection, &Settings::default())
}

/// An operator with an image of our own tunnel.
fn ours() -> Settings {
    Settings {
        tunnel_image: Some("example.com/butler:v1".to_owned()),
        ..Settings::default()
    }
}

fn built_with(
    control_plane: &TenantControlPlane,
    connection: &StoreConnection,
    settings: &Settings,
) -> Value {
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
        settings,
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
        "addons": { "konnectivity": {} },
    }));
    let deployment = built(&tcp, &connection(DataStoreDriver::Etcd));
    assert_yaml_snapshot!("tunnel", container(&deployment, "konnectivity-server"));
}

#[test]
fn a_control_plane_with_a_tunnel_of_ours() {
    let tcp = control_plane_with(json!({ "addons": { "konnectivity": {
        "server": { "port": 8132, "extraArgs": ["--v=8", "--max-streams=10"] },
    } } }));
    let deployment = built_with(&tcp, &connection(DataStoreDriver::Etcd), &ours());
    assert_yaml_snapshot!("own_tunnel", container(&deployment, "butler-tunnel-server"));
}

#[test]
fn who_speaks_with_agents_holds_no_key_but_the_one_it_shows() {
    let tunnel = json!({ "konnectivity": {} });
    let public = json!({
        "service": { "serviceType": "ClusterIP" },
        "ingress": { "hostname": "shop.k8s.example.com" },
    });
    let plain = json!({ "service": { "serviceType": "LoadBalancer" } });
    let mut certificates = Vec::new();
    for (exposure, settings, name) in [
        (&plain, Settings::default(), "konnectivity-server"),
        (&plain, ours(), "butler-tunnel-server"),
        (&public, ours(), "butler-tunnel-server"),
    ] {
        let tcp = control_plane_with(json!({ "controlPlane": exposure, "addons": tunnel }));
        let deployment = built_with(&tcp, &connection(DataStoreDriver::Etcd), &settings);
        let mounts = container(&deployment, name)["volumeMounts"].as_array();
        let mounts: Vec<_> = mounts.unwrap().iter().map(|mount| &mount["name"]).collect();
        // One is the socket.
        assert_eq!(mounts.len(), 3, "{mounts:?}");
        assert!(mounts.contains(&&json!("konnectivity-server-kubeconfig")));
        let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array();
        let of_certificate = |volume: &&Value| volume["name"] == "konnectivity-server-certificate";
        let volume = volumes.unwrap().iter().find(of_certificate).unwrap();
        assert!(mounts.contains(&&volume["name"]));
        certificates.push(volume["secret"].clone());
    }
    assert_yaml_snapshot!(certificates, @"
    - defaultMode: 288
      items:
        - key: apiserver.crt
          path: tls.crt
        - key: apiserver.key
          path: tls.key
      secretName: shop-api-server-certificate
    - defaultMode: 288
      items:
        - key: apiserver.crt
          path: tls.crt
        - key: apiserver.key
          path: tls.key
      secretName: shop-api-server-certificate
    - defaultMode: 288
      secretName: shop-konnectivity-certificate
    ");
}

#[test]
fn the_pod_is_ready_when_the_tunnel_listens_whichever_it_is() {
    let tcp = control_plane_with(json!({ "addons": { "konnectivity": {} } }));
    for (settings, name) in [
        (Settings::default(), "konnectivity-server"),
        (ours(), "butler-tunnel-server"),
    ] {
        let deployment = built_with(&tcp, &connection(DataStoreDriver::Etcd), &settings);
        let probe = &container(&deployment, name)["readinessProbe"];
        assert_eq!(probe["httpGet"]["port"], 8134, "{name}");
        assert_eq!(probe["periodSeconds"], 1, "{name}");
    }
}

#[test]
fn the_api_server_leaves_its_endpoints_to_a_proxy_that_is_there_and_to_no_other() {
    const NONE: &str = "--endpoint-reconciler-type=none";
    let connection = connection(DataStoreDriver::Etcd);
    let tcp = control_plane_with(json!({ "addons": { "tcpProxy": {} } }));
    let without_image = built(&tcp, &connection);
    assert!(!has_argument(
        container(&without_image, "kube-apiserver"),
        NONE
    ));
    let with_image = built_with(&tcp, &connection, &ours());
    assert!(has_argument(container(&with_image, "kube-apiserver"), NONE));
}

#[test]
fn the_tunnel_leads_a_proxy_to_the_api_server_where_there_is_no_other_way() {
    let addons = json!({ "konnectivity": {}, "tcpProxy": {} });
    let hidden = control_plane_with(json!({
        "controlPlane": {
            "service": { "serviceType": "ClusterIP" },
            "ingress": { "hostname": "shop.k8s.example.com" },
        },
        "networkProfile": { "port": 7443 },
        "addons": addons,
    }));
    let plain = control_plane_with(json!({ "addons": addons }));
    for (tcp, leads) in [(&hidden, true), (&plain, false)] {
        let deployment = built_with(tcp, &connection(DataStoreDriver::Etcd), &ours());
        let tunnel = container(&deployment, "butler-tunnel-server");
        assert_eq!(has_argument(tunnel, "--api-server=localhost:7443"), leads);
    }
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

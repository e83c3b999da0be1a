//! The objects of whole clusters, and what must be true of them whatever a cluster is.

use butler_api::{
    butler::load_balancer_request::{LoadBalancerRequest, LoadBalancerTarget},
    cluster_api::{
        butler_cluster::ButlerCluster, butler_machine::ButlerMachineTemplate,
        contract::ControlPlaneEndpoint, steward_control_plane::StewardControlPlane,
    },
};
use pretty_assertions::assert_eq;
use serde::{Serialize, de::DeserializeOwned};

use super::*;
use crate::tenant_cluster::blueprint::{
    Surroundings,
    testing::{
        drawn, on, on_harvester, on_nutanix, on_this_host, plain_shop, with_config, with_team,
    },
};

/// All objects of a cluster.
fn objects(blueprint: &Blueprint) -> Vec<Manifest> {
    let mut found = vec![namespace(blueprint)];
    found.extend(access(blueprint));
    found.push(infrastructure(blueprint));
    found.extend(load_balancer(blueprint, &[]));
    found.extend(control_plane(blueprint));
    found.extend(control_plane_health(blueprint));
    found.push(cluster(blueprint));
    let pools = blueprint.pools.iter();
    found.extend(pools.flat_map(|one| pool(blueprint, one)));
    found
}

/// The objects of a kind.
fn of_kind<'a>(objects: &'a [Manifest], kind: &str) -> Vec<&'a Manifest> {
    let objects = objects.iter();
    objects.filter(|object| object.kind.kind == kind).collect()
}

fn only<'a>(objects: &'a [Manifest], kind: &str) -> &'a Value {
    match of_kind(objects, kind)[..] {
        [object] => &object.body,
        ref other => panic!("{} objects of the kind {kind}", other.len()),
    }
}

/// A cluster with all that a user can say about machines.
fn rich() -> Value {
    json!({
        "teamRef": { "name": "retail" },
        "controlPlane": { "replicas": 2, "certSANs": ["shop.example.com"] },
        "workers": { "replicas": 3, "machineTemplate": { "cpu": 8, "memory": "16Gi", "diskSize": "100Gi" } },
        "nodePools": [{
            "name": "graphics",
            "replicas": 1,
            "labels": { "example.com/card": "a100", "node-role.kubernetes.io/graphics": "" },
            "taints": [
                { "key": "example.com/card", "value": "a100", "effect": "NoSchedule" },
                { "key": "example.com/dear", "effect": "PreferNoSchedule" },
            ],
        }],
    })
}

fn retail() -> Value {
    json!({ "access": {
        "users": [
            { "name": "ada@example.com", "role": "admin" },
            { "name": "eve@example.com", "role": "viewer" },
            { "name": "ada@example.com", "role": "viewer" },
        ],
        "groups": [{ "name": "operators", "role": "operator" }],
    } })
}

#[test]
fn a_cluster_on_machines_of_this_host() {
    let blueprint = drawn(&plain_shop(&json!({})), &on_this_host());
    insta::assert_yaml_snapshot!(objects(&blueprint));
}

#[test]
fn a_cluster_with_everything_on_nutanix() {
    let mut surroundings = with_team(on_nutanix(), &retail());
    surroundings.trust_bundle = Some("-----BEGIN CERTIFICATE-----\n".to_owned());
    surroundings.exposure_address = Some("192.0.2.10".to_owned());
    let platform = json!({
        "sshAuthorizedKey": "ssh-ed25519 AAAA ada",
        "defaultTimeServers": ["time.example.com"],
        "controlPlaneExposure": {
            "mode": "Gateway", "hostname": "*.k8s.example.com", "gatewayRef": "ingress/public",
        },
        "defaultControlPlaneResources": { "apiServer": {
            "requests": { "cpu": "500m", "memory": "1Gi" }, "limits": { "memory": "2Gi" },
        } },
    });
    let surroundings = with_config(surroundings, &platform);
    let mut wish = rich();
    wish["nodePools"][0]["machineTemplate"] =
        json!({ "os": { "type": "flatcar", "imageRef": "flatcar-stable" } });
    insta::assert_yaml_snapshot!(objects(&drawn(&plain_shop(&wish), &surroundings)));
}

#[test]
fn a_cluster_on_harvester() {
    insta::assert_yaml_snapshot!(objects(&drawn(&plain_shop(&json!({})), &on_harvester())));
}

#[test]
fn a_cluster_with_a_control_plane_of_its_own() {
    insta::assert_yaml_snapshot!(objects(&standalone_shop(&on_this_host())));
}

fn standalone_shop(surroundings: &Surroundings) -> Blueprint {
    let mut surroundings = surroundings.clone();
    surroundings.endpoint = Some(ControlPlaneEndpoint {
        host: "172.30.0.200".to_owned(),
        port: 6443,
    });
    let wish = json!({ "controlPlane": { "mode": "Standalone", "replicas": 3, "certSANs": ["shop.example.com"] } });
    drawn(&plain_shop(&wish), &surroundings)
}

#[test]
fn a_control_plane_that_kamaji_runs() {
    let platform = json!({
        "controlPlaneProvider": "kamaji",
        "controlPlaneExposure": {
            "mode": "Ingress", "hostname": "k8s.example.com", "ingressClassName": "public", "controllerType": "nginx",
        },
        "defaultControlPlaneResources": { "apiServer": { "requests": { "cpu": "500m" } } },
    });
    let mut surroundings = with_config(on_harvester(), &platform);
    surroundings.exposure_address = Some("192.0.2.10".to_owned());
    let objects = objects(&drawn(&plain_shop(&json!({})), &surroundings));
    insta::assert_yaml_snapshot!(only(&objects, "KamajiControlPlane"));
    let labels = &only(&objects, "Namespace")["metadata"]["labels"];
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "baseline");
}

/// Proxmox, through Butler's own provider.
fn on_proxmox() -> Surroundings {
    on(&json!({
        "provider": "proxmox",
        "credentialsRef": { "name": "proxmox" },
        "proxmox": { "endpoint": "https://pve.example.com", "nodes": ["pve-1"], "storage": "local-lvm" },
    }))
}

/// A worker of a system, as its template and its first steps have it.
fn worker_of(system: &str, surroundings: &Surroundings) -> Vec<Manifest> {
    let template = json!({ "os": { "type": system, "imageRef": format!("local:{system}") } });
    let labels = json!({ "example.com/card": "a100" });
    let taints = json!([{ "key": "example.com/card", "value": "a100", "effect": "NoSchedule" }]);
    let pool = json!({
        "name": "graphics", "replicas": 1, "machineTemplate": template, "labels": labels, "taints": taints,
    });
    let blueprint = drawn(&plain_shop(&json!({ "nodePools": [pool] })), surroundings);
    let mut objects = pool_of(&blueprint, "graphics");
    let kinds = ["ButlerMachineTemplate", "KubeadmConfigTemplate"];
    objects.retain(|object| kinds.contains(&object.kind.kind.as_str()));
    objects
}

fn pool_of(blueprint: &Blueprint, name: &str) -> Vec<Manifest> {
    let mut pools = blueprint.pools.iter();
    pool(blueprint, pools.find(|pool| pool.name == name).unwrap())
}

#[test]
fn bottlerocket_is_told_nothing_but_what_it_has_settings_for() {
    let platform = json!({
        "sshAuthorizedKey": "ssh-ed25519 AAAA ada",
        "controlPlaneExposure": { "mode": "Ingress", "hostname": "k8s.example.com" },
    });
    let mut surroundings = with_config(on_proxmox(), &platform);
    surroundings.exposure_address = Some("192.0.2.10".to_owned());
    insta::assert_yaml_snapshot!(worker_of("bottlerocket", &surroundings));
}

#[test]
fn flatcar_of_our_own_providers_leaves_room_for_its_name_and_identity() {
    insta::assert_yaml_snapshot!(worker_of("flatcar", &on_proxmox()));
}

#[test]
fn kairos_is_asked_whether_it_has_the_version() {
    let template = json!({ "os": { "type": "kairos" } });
    let wish = json!({ "workers": { "replicas": 1, "machineTemplate": template } });
    let objects = objects(&drawn(&plain_shop(&wish), &on_harvester()));
    insta::assert_yaml_snapshot!(only(&objects, "KubeadmConfigTemplate"));
}

#[test]
fn a_standalone_control_plane_elsewhere_installs_what_it_needs() {
    let objects = objects(&standalone_shop(&on_proxmox()));
    insta::assert_yaml_snapshot!(only(&objects, "KubeadmControlPlane"));
}

#[test]
fn nobody_of_a_team_reads_secrets_at_large_and_viewers_none() {
    let blueprint = drawn(
        &plain_shop(&json!({ "teamRef": { "name": "retail" } })),
        &with_team(on_this_host(), &retail()),
    );
    insta::assert_yaml_snapshot!(access(&blueprint));
}

#[test]
fn a_password_may_have_any_letters() {
    let text = nutanix_credentials("admin", r#"a"b\c'}]"#);
    let read: Value = serde_json::from_str(&text).unwrap();
    let login = &read[0]["data"]["prismCentral"];
    assert_eq!(login["password"], r#"a"b\c'}]"#);
    assert_eq!(login["username"], "admin");
}

#[test]
fn the_load_balancer_is_told_of_machines_as_they_come() {
    let target = LoadBalancerTarget {
        ip: Some("172.30.0.7".to_owned()),
        ..LoadBalancerTarget::default()
    };
    let request = load_balancer(&standalone_shop(&on_this_host()), &[target]).unwrap();
    assert_eq!(
        request.body["spec"]["targets"],
        json!([{ "ip": "172.30.0.7" }])
    );
    assert_eq!(
        load_balancer(&drawn(&plain_shop(&json!({})), &on_this_host()), &[]),
        None
    );
}

#[test]
fn machines_of_this_host_are_told_nothing_about_pods_where_the_tenant_brings_a_network() {
    let marked = |cni: &str| {
        let wish = json!({ "addons": { "cni": { "provider": cni } } });
        let objects = objects(&drawn(&plain_shop(&wish), &on_this_host()));
        let metadata = &only(&objects, "ButlerCluster")["metadata"];
        metadata["annotations"]["butler.butlerlabs.dev/pod-network"].clone()
    };
    assert_eq!(marked("none"), "none");
    assert_eq!(marked("bridge"), Value::Null);
}

#[test]
fn machines_of_this_host_know_names_that_no_dns_has_to_know() {
    let exposure =
        json!({ "controlPlaneExposure": { "mode": "Ingress", "hostname": "k8s.example.com" } });
    let mut surroundings = with_config(on_this_host(), &exposure);
    surroundings.exposure_address = Some("192.0.2.10".to_owned());
    let objects = objects(&drawn(&plain_shop(&json!({})), &surroundings));
    let steps = &only(&objects, "KubeadmConfigTemplate")["spec"]["template"]["spec"];
    assert_eq!(
        steps["files"][0]["content"],
        "192.0.2.10 shop.shop-0a1b2c3d.k8s.example.com\n192.0.2.10 shop.shop-0a1b2c3d.konnectivity.example.com\n"
    );
    let command = steps["preKubeadmCommands"][0].as_str().unwrap();
    assert!(command.ends_with(">> /etc/hosts"), "{command}");
}

#[test]
fn machines_are_not_replaced_unless_asked() {
    let wish = json!({ "machineHealth": { "enabled": false } });
    let objects = objects(&drawn(&plain_shop(&wish), &on_this_host()));
    assert!(of_kind(&objects, "MachineHealthCheck").is_empty());
}

#[test]
fn one_ill_machine_is_replaced_but_not_half_of_a_pool_at_once() {
    let ill_at_once = |replicas: i32| {
        let wish = json!({ "workers": { "replicas": replicas } });
        let objects = objects(&drawn(&plain_shop(&wish), &on_this_host()));
        let check = only(&objects, "MachineHealthCheck");
        check["spec"]["remediation"]["triggerIf"]["unhealthyLessThanOrEqualTo"].clone()
    };
    let numbers = [0, 1, 2, 5, 10].map(ill_at_once);
    assert_eq!(json!(numbers), json!([1, 1, 1, 2, 4]));
}

/// Whether everything that one value says is said by another.
fn says(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => part
            .iter()
            .all(|(name, value)| all.get(name).is_some_and(|found| says(found, value))),
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(all, part)| says(all, part))
        }
        _ => all == part,
    }
}

/// What is written is what the kind has: a field that is misspelled would be lost on the way.
fn is_kept<K: DeserializeOwned + Serialize>(body: &Value) {
    let read: K = serde_json::from_value(body.clone()).unwrap();
    let written = json!(read);
    assert!(says(&written, body), "{body:#}\n\nbecomes\n\n{written:#}");
}

#[test]
fn kinds_of_our_own_keep_every_field_that_is_written() {
    for more in [json!({}), rich()] {
        let mut surroundings = with_config(
            on_this_host(),
            &json!({ "defaultControlPlaneResources": { "scheduler": { "limits": { "cpu": 1 } } } }),
        );
        surroundings.exposure_address = Some("192.0.2.10".to_owned());
        let mut config = surroundings.config.clone().unwrap();
        for mode in ["LoadBalancer", "Ingress", "Gateway"] {
            let exposure = json!({
                "mode": mode, "hostname": "k8s.example.com", "gatewayRef": "a/b", "controllerType": "haproxy",
                "ingressClassName": "public",
            });
            config.spec.control_plane_exposure = serde_json::from_value(exposure).unwrap();
            surroundings.config = Some(config.clone());
            let objects = objects(&drawn(&plain_shop(&more), &surroundings));
            is_kept::<StewardControlPlane>(only(&objects, "StewardControlPlane"));
            is_kept::<ButlerCluster>(only(&objects, "ButlerCluster"));
            for template in of_kind(&objects, "ButlerMachineTemplate") {
                is_kept::<ButlerMachineTemplate>(&template.body);
            }
        }
    }
    let objects = objects(&standalone_shop(&on_this_host()));
    is_kept::<LoadBalancerRequest>(only(&objects, "LoadBalancerRequest"));
    is_kept::<ButlerCluster>(only(&objects, "ButlerCluster"));
    for system in ["flatcar", "bottlerocket"] {
        let worker = worker_of(system, &on_proxmox());
        is_kept::<ButlerMachineTemplate>(only(&worker, "ButlerMachineTemplate"));
    }
}

#[test]
fn no_text_for_cloud_init_has_what_its_templates_would_read() {
    let mut wish = rich();
    let systems = ["rocky", "kairos"];
    let pools = systems.map(|system| {
        json!({ "name": system, "replicas": 1, "machineTemplate": { "os": { "type": system } } })
    });
    wish["nodePools"] = json!(pools);
    let texts = [
        objects(&drawn(&plain_shop(&wish), &on_harvester())),
        worker_of("bottlerocket", &on_proxmox()),
        objects(&drawn(&plain_shop(&json!({})), &on_this_host())),
        objects(&standalone_shop(&on_this_host())),
    ];
    let kinds = ["KubeadmConfigTemplate", "KubeadmControlPlane"];
    let documents = texts.iter().flatten();
    let documents = documents.filter(|object| kinds.contains(&object.kind.kind.as_str()));
    let mut read = Vec::new();
    documents.for_each(|object| strings(&object.body, &mut read));
    assert!(read.len() > 20, "{read:?}");
    for text in read {
        let foreign = text.replace("{{ ds.meta_data.", "");
        for mark in ["{{", "{%", "{#"] {
            assert!(!foreign.contains(mark), "{mark} in {text}");
        }
    }
}

/// All texts in a value.
fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(members) => members.values().for_each(|member| strings(member, found)),
        _ => {}
    }
}

fn names(blueprint: &Blueprint, pool_name: &str) -> (String, String) {
    let objects = pool_of(blueprint, pool_name);
    (objects[0].key.name.clone(), objects[1].key.name.clone())
}

#[test]
fn a_version_changes_what_brings_it_and_nothing_else() {
    let mut there = drawn(&plain_shop(&json!({})), &on_harvester());
    let mut here = drawn(&plain_shop(&json!({})), &on_this_host());
    let before = (names(&there, "workers"), names(&here, "workers"));
    for blueprint in [&mut there, &mut here] {
        blueprint.pools[0].version = "v1.37.0".parse().unwrap();
    }
    // Elsewhere the first steps install it; machines of this host are made with it.
    assert_eq!(names(&there, "workers").0, before.0.0);
    assert_ne!(names(&there, "workers").1, before.0.1);
    assert_ne!(names(&here, "workers").0, before.1.0);
    assert_eq!(names(&here, "workers").1, before.1.1);
}

#[test]
fn a_pool_that_waits_for_its_turn_keeps_its_version() {
    let mut blueprint = drawn(&plain_shop(&rich()), &on_this_host());
    blueprint.version = "v1.37.0".parse().unwrap();
    blueprint.pools[0].version = "v1.37.0".parse().unwrap();
    let objects = objects(&blueprint);
    let versions: Vec<_> = of_kind(&objects, "MachineDeployment")
        .iter()
        .map(|object| object.body["spec"]["template"]["spec"]["version"].clone())
        .collect();
    assert_eq!(versions, ["v1.37.0", "v1.36.3"]);
}

mod properties {
    use butler_api::Quantity;
    use proptest::prelude::*;

    use super::*;
    use crate::tenant_cluster::blueprint::Machine;

    fn machines() -> impl Strategy<Value = Machine> {
        let image = prop::option::of("[a-c]");
        (1..4, 1..4, 1..4, image).prop_map(|(cpu, memory, disk, image)| Machine {
            cpu,
            memory: Quantity::new(format!("{memory}Gi")),
            disk: Quantity::new(format!("{disk}0Gi")),
            image,
        })
    }

    proptest! {
        #[test]
        fn templates_have_one_name_exactly_if_they_say_the_same(one in machines(), other in machines()) {
            let mut blueprint = drawn(&plain_shop(&json!({})), &on_harvester());
            let mut named = |machine: &Machine| {
                blueprint.pools[0].machine = machine.clone();
                names(&blueprint, "workers").0
            };
            prop_assert_eq!(named(&one) == named(&other), one == other);
        }

        #[test]
        fn labels_and_taints_of_nodes_are_part_of_their_first_steps(
            one in prop::collection::btree_map("[a-c]", "[a-c]", 0..3),
            other in prop::collection::btree_map("[a-c]", "[a-c]", 0..3),
        ) {
            let mut blueprint = drawn(&plain_shop(&json!({})), &on_this_host());
            let mut named = |labels: &std::collections::BTreeMap<String, String>| {
                blueprint.pools[0].labels = labels.clone();
                names(&blueprint, "workers").1
            };
            prop_assert_eq!(named(&one) == named(&other), one == other);
        }

        #[test]
        fn what_changes_in_the_life_of_a_cluster_replaces_no_machine(
            replicas in 0..9, owner in "[a-z]{1,8}", health in any::<bool>(),
        ) {
            let mut blueprint = drawn(&plain_shop(&rich()), &on_this_host());
            let before = names(&blueprint, "graphics");
            blueprint.pools[1].replicas = replicas;
            blueprint.annotations.insert("butler.butlerlabs.dev/owner".to_owned(), owner.clone());
            blueprint.labels.insert("butler.butlerlabs.dev/team".to_owned(), owner);
            if health {
                blueprint.machine_health = None;
            }
            prop_assert_eq!(names(&blueprint, "graphics"), before);
        }
    }
}

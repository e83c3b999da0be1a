//! Who has a say in what a cluster is, and what it is told if it cannot be.

use butler_api::butler::provider_config::ClusterApiProvider;
use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    testing::{
        drawn, on, on_harvester, on_nutanix, on_this_host, plain_shop, refusal, with_config,
        with_team,
    },
    *,
};

fn size(pool: &Pool) -> (i32, String, String) {
    let text = |quantity: &Quantity| quantity.to_string();
    let machine = &pool.machine;
    (machine.cpu, text(&machine.memory), text(&machine.disk))
}

fn sizes(cpu: i32, memory: &str, disk: &str) -> (i32, String, String) {
    (cpu, memory.to_owned(), disk.to_owned())
}

#[test]
fn objects_live_in_a_namespace_that_a_second_cluster_of_the_name_would_not_get() {
    let cluster = plain_shop(&json!({}));
    assert_eq!(tenant_namespace(&cluster), "shop-0a1b2c3d");
    assert_eq!(drawn(&cluster, &on_this_host()).namespace, "shop-0a1b2c3d");
}

#[test]
fn a_cluster_that_says_nothing_gets_what_suits_its_provider() {
    let here = drawn(&plain_shop(&json!({})), &on_this_host());
    assert_eq!(size(&here.pools[0]), sizes(2, "2Gi", "10Gi"));
    assert_eq!(
        (here.cni, here.kube_proxy),
        (Some(CniProvider::Bridge), true)
    );
    assert_eq!(here.pools[0].system, System::Local);
    let there = drawn(&plain_shop(&json!({})), &on_harvester());
    assert_eq!(size(&there.pools[0]), sizes(4, "16Gi", "100Gi"));
    assert_eq!(
        (there.cni, there.kube_proxy),
        (Some(CniProvider::Cilium), false)
    );
    assert_eq!(there.pools[0].system, System::Rocky);
}

#[test]
fn kube_proxy_stays_where_the_tenant_brings_its_own_network() {
    let cluster = plain_shop(&json!({ "addons": { "cni": { "provider": "none" } } }));
    let blueprint = drawn(&cluster, &on_harvester());
    assert_eq!((blueprint.cni, blueprint.kube_proxy), (None, true));
}

#[test]
fn the_closest_who_says_a_size_is_heard() {
    let team = json!({
        "clusterDefaults": { "workerCPU": 6, "workerMemoryGi": 12, "workerDiskGi": 60 },
        "environments": [{ "name": "test", "clusterDefaults": { "workerMemoryGi": 6 } }],
    });
    let surroundings = with_team(on_harvester(), &team);
    let mut cluster = plain_shop(&json!({
        "workers": { "replicas": 1, "machineTemplate": { "diskGB": 80 } },
        "nodePools": [{ "name": "batch", "replicas": 1, "machineTemplate": { "cpu": 16 } }],
    }));
    let environment = cluster.labels_mut();
    environment.insert(
        "butler.butlerlabs.dev/environment".to_owned(),
        "test".to_owned(),
    );
    let blueprint = drawn(&cluster, &surroundings);
    assert_eq!(size(&blueprint.pools[0]), sizes(6, "6Gi", "80Gi"));
    assert_eq!(size(&blueprint.pools[1]), sizes(16, "6Gi", "60Gi"));
}

#[test]
fn sizes_are_as_exact_as_they_were_written() {
    let template = json!({ "memory": "12345Mi", "diskSize": "100G" });
    let cluster = plain_shop(&json!({ "workers": { "replicas": 1, "machineTemplate": template } }));
    let blueprint = drawn(&cluster, &on_harvester());
    assert_eq!(size(&blueprint.pools[0]), sizes(4, "12345Mi", "100G"));
}

#[test]
fn time_servers_of_the_cluster_go_before_those_of_provider_and_platform() {
    let mut surroundings = with_config(
        on_harvester(),
        &json!({ "defaultTimeServers": ["platform"] }),
    );
    let plain = plain_shop(&json!({}));
    assert_eq!(drawn(&plain, &surroundings).time_servers, ["platform"]);
    surroundings.provider.spec.network =
        serde_json::from_value(json!({ "timeServers": ["provider"] })).unwrap();
    assert_eq!(drawn(&plain, &surroundings).time_servers, ["provider"]);
    let own = plain_shop(&json!({ "timeServers": ["own"] }));
    assert_eq!(drawn(&own, &surroundings).time_servers, ["own"]);
    let nobody = drawn(&plain, &on_harvester());
    assert_eq!(nobody.time_servers, ["pool.ntp.org"]);
}

#[test]
fn a_component_of_the_control_plane_has_the_platforms_size_if_the_cluster_does_not_say() {
    let platform = json!({ "defaultControlPlaneResources": {
        "apiServer": { "requests": { "cpu": "250m" } },
        "scheduler": { "requests": { "cpu": "50m" } },
    } });
    let cluster = plain_shop(&json!({ "controlPlane": { "resources": {
        "apiServer": { "requests": { "memory": "1Gi" } },
    } } }));
    let blueprint = drawn(&cluster, &with_config(on_this_host(), &platform));
    let ControlPlane::Hosted(hosted) = blueprint.control_plane else {
        panic!("the control plane is not hosted")
    };
    let resources = json!(hosted.resources);
    assert_eq!(
        resources,
        json!({
            "apiServer": { "requests": { "memory": "1Gi" } },
            "scheduler": { "requests": { "cpu": "50m" } },
        })
    );
}

#[test]
fn behind_an_ingress_each_cluster_has_names_of_its_own() {
    let platform = json!({ "controlPlaneExposure": {
        "mode": "Ingress", "hostname": "*.k8s.example.com", "controllerType": "traefik",
    } });
    let mut surroundings = with_config(on_harvester(), &platform);
    surroundings.exposure_address = Some("192.0.2.10".to_owned());
    let blueprint = drawn(&plain_shop(&json!({})), &surroundings);
    let ControlPlane::Hosted(hosted) = blueprint.control_plane else {
        panic!("the control plane is not hosted")
    };
    assert_eq!(hosted.service_type, ServiceType::ClusterIP);
    let hosts = hosted.exposure.hosts().unwrap();
    assert_eq!(hosts.api, "shop.shop-0a1b2c3d.k8s.example.com");
    assert_eq!(hosts.tunnel, "shop.shop-0a1b2c3d.konnectivity.example.com");
}

#[test]
fn exposure_that_is_not_there_yet_is_waited_for_and_a_wrong_one_is_said_to_be_wrong() {
    let exposure = |exposure: Value| {
        let surroundings =
            with_config(on_harvester(), &json!({ "controlPlaneExposure": exposure }));
        refusal(&plain_shop(&json!({})), &surroundings)
    };
    let ingress = json!({ "mode": "Ingress", "hostname": "k8s.example.com" });
    assert_snapshot!(exposure(ingress), @"WaitingForDependencies: the Ingress controller or Gateway before hosted control planes has no address yet; nodes need it to find their API server");
    assert_snapshot!(exposure(json!({ "mode": "Ingress" })), @"ValidationFailed: spec.controlPlaneExposure.hostname of the ButlerConfig is not set: clusters behind an Ingress or a Gateway get their names below it; set it to a domain such as *.k8s.example.com");
    let gateway =
        json!({ "mode": "Gateway", "hostname": "k8s.example.com", "gatewayRef": "public" });
    assert_snapshot!(exposure(gateway), @"ValidationFailed: spec.controlPlaneExposure.gatewayRef of the ButlerConfig names no Gateway: write it as namespace/name");
}

#[test]
fn an_operating_system_that_cannot_join_is_named_with_those_that_can() {
    let asking = |system: &str, surroundings: &Surroundings| {
        let template = json!({ "os": { "type": system } });
        let workers = json!({ "workers": { "replicas": 1, "machineTemplate": template } });
        refusal(&plain_shop(&workers), surroundings)
    };
    assert_snapshot!(asking("bottlerocket", &on_nutanix()), @"ValidationFailed: spec.workers.machineTemplate.os.type: bottlerocket reads settings in TOML alone, and CAPX gives machines what Cluster API's kubeadm provider writes, cloud-config or Ignition; use rocky, flatcar or kairos, or a ProviderConfig whose clusterAPIProvider is Butler");
    assert_snapshot!(asking("bottlerocket", &on_harvester()), @"ValidationFailed: spec.workers.machineTemplate.os.type: bottlerocket reads settings in TOML alone, and CAPK gives machines what Cluster API's kubeadm provider writes, cloud-config or Ignition; use rocky, flatcar or kairos, or a ProviderConfig whose clusterAPIProvider is Butler");
    assert_snapshot!(asking("talos", &on_nutanix()), @"NotYetImplemented: spec.workers.machineTemplate.os.type: talos comes in a later version; use rocky, flatcar or kairos");
    let mut own = on_nutanix();
    own.provider.spec.cluster_api_provider = ClusterApiProvider::Butler;
    for (name, system) in [
        ("bottlerocket", System::Bottlerocket),
        ("flatcar", System::Flatcar),
    ] {
        let template = json!({ "os": { "type": name } });
        let workers = json!({ "workers": { "replicas": 1, "machineTemplate": template } });
        let blueprint = drawn(&plain_shop(&workers), &own);
        assert_eq!(blueprint.pools[0].system, system);
    }
    let template = json!({ "os": { "type": "bottlerocket" } });
    let standalone = json!({ "controlPlane": {
        "mode": "Standalone", "replicas": 3, "machineTemplate": template,
    } });
    assert_snapshot!(refusal(&plain_shop(&standalone), &own), @"ValidationFailed: spec.controlPlane.machineTemplate.os.type: bottlerocket has no kubeadm, which makes a control plane of a machine; use rocky, flatcar or kairos, or a hosted control plane");
    assert_snapshot!(asking("rocky", &on_this_host()), @"ValidationFailed: spec.workers.machineTemplate.os.type: machines of the provider local run the system of their host, not rocky; leave os.type out");
}

#[test]
fn what_a_provider_lacks_is_said_and_nothing_is_guessed() {
    let plain = plain_shop(&json!({}));
    let mut surroundings = on_harvester();
    let place = surroundings.provider.spec.harvester.as_mut().unwrap();
    place.image_name = None;
    place.network_name = String::new();
    assert_snapshot!(refusal(&plain, &surroundings), @r#"
    ValidationFailed: spec.harvester.networkName of the ProviderConfig harvester is empty: name one there, or in spec.infrastructureOverride
    ValidationFailed: spec.workers.machineTemplate.os.imageRef: no image is named for the machines; set it, or spec.harvester.imageName of the ProviderConfig
    "#);
    surroundings.provider.spec.harvester = None;
    assert_snapshot!(refusal(&plain, &surroundings), @r#"
    ValidationFailed: spec.harvester of the ProviderConfig harvester is not set: without it nobody knows where machines shall be
    ValidationFailed: spec.workers.machineTemplate.os.imageRef: no image is named for the machines; set it, or spec.harvester.imageName of the ProviderConfig
    "#);
    let mut surroundings = on_nutanix();
    surroundings.provider.spec.nutanix = None;
    surroundings.provider.spec.credentials_ref = None;
    assert_snapshot!(refusal(&plain, &surroundings), @r#"
    ValidationFailed: spec.nutanix of the ProviderConfig nutanix is not set: without it nobody knows where machines shall be
    ValidationFailed: spec.workers.machineTemplate.os.imageRef: no image is named for the machines; set it, or spec.nutanix.imageUUID of the ProviderConfig
    "#);
}

#[test]
fn an_image_that_is_on_its_way_is_not_missing() {
    let mut surroundings = on_harvester();
    let place = surroundings.provider.spec.harvester.as_mut().unwrap();
    place.image_name = None;
    let plain = plain_shop(&json!({}));
    let mut images = |image: Option<&str>| {
        let field = "spec.workers.machineTemplate".to_owned();
        surroundings.images = [(field, image.map(str::to_owned))].into();
        drawn(&plain, &surroundings).pools[0].machine.image.clone()
    };
    assert_eq!(images(None), None);
    assert_eq!(images(Some("images/shop")).as_deref(), Some("images/shop"));
}

#[test]
fn each_pool_boots_the_image_that_was_brought_for_it_unless_it_names_one() {
    let mut surroundings = on_harvester();
    let image = |field: &str, image: &str| (field.to_owned(), Some(image.to_owned()));
    surroundings.images = [
        image("spec.workers.machineTemplate", "images/plain"),
        image("spec.nodePools[0].machineTemplate", "images/graphics"),
        image("spec.nodePools[1].machineTemplate", "images/unused"),
    ]
    .into();
    let own = json!({ "os": { "imageRef": "images/own" } });
    let shop = plain_shop(&json!({ "nodePools": [
        { "name": "graphics", "replicas": 1 },
        { "name": "own", "replicas": 1, "machineTemplate": own },
        { "name": "other", "replicas": 1 },
    ] }));
    let pools = drawn(&shop, &surroundings).pools;
    let images: Vec<_> = pools
        .iter()
        .map(|pool| pool.machine.image.as_deref().unwrap())
        .collect();
    assert_eq!(
        images,
        [
            "images/plain",
            "images/graphics",
            "images/own",
            "images/rocky-9"
        ]
    );
}

#[test]
fn credentials_are_where_their_provider_is_unless_it_says_otherwise() {
    let mut surroundings = on_harvester();
    let provider = &mut surroundings.provider;
    provider.metadata.namespace = Some("clouds".to_owned());
    let reference = provider.spec.credentials_ref.as_mut().unwrap();
    reference.namespace = None;
    let Infrastructure::Kubevirt(place) =
        drawn(&plain_shop(&json!({})), &surroundings).infrastructure
    else {
        panic!("harvester is reached through CAPK");
    };
    assert_eq!(place.credentials.namespace.as_deref(), Some("clouds"));
}

#[test]
fn ranges_names_and_overrides_that_cannot_be_are_all_told_at_once() {
    let mut cluster = plain_shop(&json!({
        "kubernetesVersion": "1.36",
        "networking": { "podCIDR": "172.30.0.0/16" },
        "nodePools": [{ "name": "machines-with-graphics-cards", "replicas": 1 }],
        "infrastructureOverride": { "nutanix": { "subnetUUID": "c7938dc6" } },
    }));
    let name = "a-shop-whose-name-leaves-no-room-for-that-of-its-pools";
    cluster.metadata.name = Some(name.to_owned());
    let surroundings = on(&json!({ "provider": "local", "local": { "cidr": "172.30.0.0/24" } }));
    assert_snapshot!(refusal(&cluster, &surroundings), @r#"
    ValidationFailed: spec.kubernetesVersion: Kubernetes version "v1.36" is not valid: write major, minor and patch version, for example v1.31.0
    ValidationFailed: spec.networking.podCIDR: 172.30.0.0/16 overlaps 172.30.0.0/24, where machines of the provider have their addresses; create the cluster with another range
    ValidationFailed: spec.infrastructureOverride.nutanix: the cluster runs on local; remove it, or name a ProviderConfig of nutanix
    ValidationFailed: spec.nodePools[0]: the name a-shop-whose-name-leaves-no-room-for-that-of-its-pools-machines-with-graphics-cards made for its machines would have more than 63 characters; give the pool a shorter name
    "#);
}

#[test]
fn kamaji_is_not_asked_for_what_it_has_no_words_for() {
    let platform = json!({
        "controlPlaneProvider": "kamaji",
        "controlPlaneExposure": { "mode": "Gateway", "hostname": "k8s.example.com", "gatewayRef": "public/tenants" },
    });
    let mut surroundings = with_config(on_this_host(), &platform);
    surroundings.exposure_address = Some("192.0.2.10".to_owned());
    assert_snapshot!(refusal(&plain_shop(&json!({})), &surroundings), @r#"
    ValidationFailed: Kamaji cannot give machines of this host the kube-proxy configuration that they need: set spec.controlPlaneProvider of the ButlerConfig to steward, or use another provider
    ValidationFailed: Kamaji knows no Gateway: set spec.controlPlaneProvider of the ButlerConfig to steward, or spec.controlPlaneExposure.mode to LoadBalancer or Ingress
    "#);
}

#[test]
fn machines_of_a_control_plane_must_be_large_enough_for_one() {
    let small = plain_shop(&json!({ "controlPlane": {
        "mode": "Standalone", "machineTemplate": { "cpu": 1, "memory": "1Gi" },
    } }));
    assert_snapshot!(refusal(&small, &on_this_host()), @r#"
    ValidationFailed: spec.controlPlane.machineTemplate.cpu: a control plane needs at least 2
    ValidationFailed: spec.controlPlane.machineTemplate.memory: a control plane needs at least 1700Mi; write for example 2Gi
    "#);
    let elsewhere = plain_shop(&json!({ "controlPlane": { "mode": "Standalone" } }));
    assert_snapshot!(refusal(&elsewhere, &on_nutanix()), @"NotYetImplemented: spec.controlPlane.mode: Standalone needs a load balancer of Butler's own provider, and the ProviderConfig has clusterAPIProvider CAPX; use Hosted, or a ProviderConfig without it");
}

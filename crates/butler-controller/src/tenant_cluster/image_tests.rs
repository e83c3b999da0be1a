//! Which images are brought for the machines of a cluster, and who waits for which.

use butler_runtime::plan::{Plan, Prune};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    wish::{LABEL_LENGTH, name},
    *,
};
use crate::{
    tenant_cluster::{
        Effect,
        blueprint::testing::{drawn, on_harvester, on_nutanix, plain_shop},
        build,
        facts::TemplateFacts,
        observe::ImageSight,
        plan::plan as plan_cluster,
        related::Related,
        scene::{after, condition, config, control_plane, provider, ready, shop, world},
    },
    testing::at,
};
use butler_api::butler::tenant_cluster::TenantClusterStatus;

/// The schematic of the platform, and another.
const USUAL: &str = "376567988ad370138ad8b2698212367b";
const GRAPHICS: &str = "ce4c980550dd2ab1b17bbf2b08801c7e";

/// Nutanix through CAPX, and a factory that makes images for it.
fn with_factory() -> World {
    let mut world = world(Related::default());
    let mut provider = provider(&json!({
        "provider": "nutanix",
        "clusterAPIProvider": "CAPX",
        "credentialsRef": { "name": "prism" },
        "nutanix": {
            "endpoint": "https://prism.example.com:9440/",
            "clusterUUID": "00061663-9fa0-28ca-185b-ac1f6b6f97e2",
            "subnetUUID": "c7938dc6-7659-453e-a688-e26020c68e43",
            "imageUUID": "9f7e1c2b-3d4e-4f5a-8b6c-7d8e9f0a1b2c",
        },
    }));
    provider.status.get_or_insert_default().validated = Some(true);
    world.provider = Some(provider);
    world.credentials.version = Some("7".to_owned());
    let factory = json!({ "url": "https://factory.example.com", "defaultSchematicID": USUAL });
    world.config = Some(config(&json!({ "imageFactory": factory })));
    world
}

/// An image arrives at the provider under a name.
fn arrives(world: &mut World, sync: &str, image: &str) {
    let mut arrived = ImageSight::default();
    arrived.status.phase = Some(ImageSyncPhase::Ready);
    arrived.status.provider_image_ref = Some(image.to_owned());
    world.images.insert(sync.to_owned(), arrived);
}

/// A cluster whose pools, named a, b and so on, have these systems.
fn with_pools(workers: &Value, pools: &[Value]) -> TenantCluster {
    let names = ('a'..='z').zip(pools);
    let pools: Vec<_> = names
        .map(|(name, os)| {
            let name = name.to_string();
            json!({ "name": name, "replicas": 1, "machineTemplate": { "os": os } })
        })
        .collect();
    let workers = json!({ "replicas": 2, "machineTemplate": { "os": workers } });
    shop(&json!({ "workers": workers, "nodePools": pools }))
}

fn bodies<'a>(plan: &'a Plan<TenantClusterStatus, Effect>, kind: &str) -> Vec<&'a Value> {
    let applied = plan.apply.iter();
    let applied = applied.filter(|manifest| manifest.kind.kind == kind);
    applied.map(|manifest| &manifest.body).collect()
}

/// What is asked of the factory, by the names of the wishes.
fn asked_for(plan: &Plan<TenantClusterStatus, Effect>) -> String {
    let lines: Vec<_> = bodies(plan, "ImageSync")
        .iter()
        .map(|body| {
            let wish = &body["spec"]["factoryRef"];
            let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (schematic, version) = (part(&wish["schematicID"]), part(&wish["version"]));
            let schematic: String = schematic.chars().take(8).collect();
            format!("{}: {schematic} {version}", part(&body["metadata"]["name"]))
        })
        .collect();
    lines.join("\n")
}

/// The deployments that are made, with the images that their machines boot.
fn made(plan: &Plan<TenantClusterStatus, Effect>) -> String {
    let templates = bodies(plan, "NutanixMachineTemplate");
    let lines: Vec<_> = bodies(plan, "MachineDeployment")
        .iter()
        .map(|body| {
            let machine = &body["spec"]["template"]["spec"]["infrastructureRef"]["name"];
            let mut templates = templates.iter();
            let template = templates.find(|template| template["metadata"]["name"] == *machine);
            let image = &template.unwrap()["spec"]["template"]["spec"]["image"]["uuid"];
            let name = body["metadata"]["name"].as_str().unwrap();
            format!("{name}: {}", image.as_str().unwrap())
        })
        .collect();
    lines.join("\n")
}

const PLAIN_IMAGE: &str = "5f1c2d3e-0a1b-4c5d-8e6f-7a8b9c0d1e2f";
const GRAPHICS_IMAGE: &str = "6a2d3e4f-1b2c-4d5e-9f70-8b9c0d1e2f3a";

#[test]
fn machines_wait_for_their_image_and_the_control_plane_does_not() {
    let mut world = with_factory();
    let plain = with_pools(&json!({}), &[]);
    let first = plan_cluster(&plain, &world, at(1));
    let kinds = |plan: &Plan<TenantClusterStatus, Effect>| {
        let kinds = plan.apply.iter();
        let kinds: Vec<_> = kinds.map(|manifest| manifest.kind.kind.clone()).collect();
        kinds.join(" ")
    };
    insta::assert_snapshot!(kinds(&first), @"Namespace ImageSync NutanixCluster StewardControlPlane Cluster");
    assert_eq!(first.prune, Prune::Keep);
    assert_eq!(
        condition(&first, "ImageReady"),
        "False ImageSyncPending: the ImageSync shop-37656798-9-5 is being made"
    );
    arrives(&mut world, "shop-37656798-9-5", PLAIN_IMAGE);
    let second = plan_cluster(&plain, &world, at(2));
    insta::assert_snapshot!(kinds(&second), @"Namespace ImageSync NutanixCluster StewardControlPlane Cluster NutanixMachineTemplate KubeadmConfigTemplate MachineDeployment MachineHealthCheck");
    assert_eq!(made(&second), format!("shop-workers: {PLAIN_IMAGE}"));
    assert_ne!(second.prune, Prune::Keep);
}

#[test]
fn pools_that_want_the_same_image_share_it_and_none_waits_for_that_of_another() {
    let mut world = with_factory();
    let graphics = json!({ "schematicID": GRAPHICS, "version": "9.6" });
    let shop = with_pools(&json!({}), &[graphics.clone(), json!({}), graphics]);
    let first = plan_cluster(&shop, &world, at(1));
    insta::assert_snapshot!(asked_for(&first), @r"
    shop-37656798-9-5: 37656798 9.5
    shop-ce4c9805-9-6: ce4c9805 9.6
    ");
    assert_eq!(made(&first), "");
    insta::assert_snapshot!(condition(&first, "ImageReady"), @"False ImageSyncPending: the ImageSync shop-37656798-9-5 is being made, the ImageSync shop-ce4c9805-9-6 is being made");

    arrives(&mut world, "shop-37656798-9-5", PLAIN_IMAGE);
    let second = plan_cluster(&shop, &world, at(2));
    insta::assert_snapshot!(made(&second), @r"
    shop-workers: 5f1c2d3e-0a1b-4c5d-8e6f-7a8b9c0d1e2f
    shop-b: 5f1c2d3e-0a1b-4c5d-8e6f-7a8b9c0d1e2f
    ");
    assert_eq!(second.prune, Prune::Keep, "what waits must not go");
    assert_eq!(
        condition(&second, "ImageReady"),
        "False ImageSyncPending: the ImageSync shop-ce4c9805-9-6 is being made"
    );

    arrives(&mut world, "shop-ce4c9805-9-6", GRAPHICS_IMAGE);
    let third = plan_cluster(&shop, &world, at(3));
    insta::assert_snapshot!(made(&third), @r"
    shop-workers: 5f1c2d3e-0a1b-4c5d-8e6f-7a8b9c0d1e2f
    shop-a: 6a2d3e4f-1b2c-4d5e-9f70-8b9c0d1e2f3a
    shop-b: 5f1c2d3e-0a1b-4c5d-8e6f-7a8b9c0d1e2f
    shop-c: 6a2d3e4f-1b2c-4d5e-9f70-8b9c0d1e2f3a
    ");
    assert_eq!(condition(&third, "ImageReady"), "True ImageReady: ");
    let named = third.status.image_sync_ref.map(|reference| reference.name);
    assert_eq!(named.as_deref(), Some("shop-37656798-9-5"));
}

#[test]
fn an_image_that_failed_is_told_beside_those_that_are_on_their_way() {
    let mut world = with_factory();
    let mut failed = ImageSight::default();
    failed.status.phase = Some(ImageSyncPhase::Failed);
    failed.status.failure_message = Some("the factory knows no such schematic".to_owned());
    let sync = "shop-ce4c9805-9-5".to_owned();
    world.images.insert(sync, failed);
    let shop = with_pools(&json!({}), &[json!({ "schematicID": GRAPHICS })]);
    let plan = plan_cluster(&shop, &world, at(1));
    insta::assert_snapshot!(condition(&plan, "ImageReady"), @"False ImageSyncFailed: the ImageSync shop-37656798-9-5 is being made, the ImageSync shop-ce4c9805-9-5: the factory knows no such schematic; correct what it says and delete the ImageSync, so that it is tried again");
}

#[test]
fn what_a_pool_leaves_out_is_as_for_workers_of_the_same_system() {
    let asks = |workers: Value, pool: Value| {
        let shop = with_pools(&workers, &[pool]);
        asked_for(&plan_cluster(&shop, &with_factory(), at(1)))
    };
    let workers = json!({ "schematicID": GRAPHICS, "version": "9.7" });
    assert_eq!(
        asks(workers.clone(), json!({})),
        "shop-ce4c9805-9-7: ce4c9805 9.7"
    );
    insta::assert_snapshot!(asks(workers.clone(), json!({ "version": "9.6" })), @r"
    shop-ce4c9805-9-7: ce4c9805 9.7
    shop-ce4c9805-9-6: ce4c9805 9.6
    ");
    insta::assert_snapshot!(asks(workers.clone(), json!({ "type": "kairos", "version": "3.5" })), @r"
    shop-ce4c9805-9-7: ce4c9805 9.7
    shop-37656798-3-5: 37656798 3.5
    ");
    // An image that is named needs no factory, neither for those that name it nor for those that leave it to the workers.
    let own = json!({ "imageRef": "4b0c1d2e-9f8a-4b7c-8d6e-5f4a3b2c1d0e" });
    assert_eq!(
        asks(workers, own.clone()),
        "shop-ce4c9805-9-7: ce4c9805 9.7"
    );
    assert_eq!(asks(own.clone(), json!({})), "");
    assert_eq!(
        asks(own, json!({ "version": "9.6" })),
        "shop-37656798-9-6: 37656798 9.6"
    );
}

#[test]
fn a_pool_whose_image_cannot_be_asked_for_is_named() {
    let refusal = |world: &World, pool: Value| {
        let plan = plan_cluster(&with_pools(&json!({}), &[pool]), world, at(1));
        assert_eq!(plan.apply, []);
        condition(&plan, "ImageReady")
    };
    let mut world = with_factory();
    insta::assert_snapshot!(refusal(&world, json!({ "type": "kairos" })), @"False ValidationFailed: spec.nodePools[0].machineTemplate.os.version: an image of a schematic needs a version; name the version of the operating system");
    world.config = None;
    insta::assert_snapshot!(refusal(&world, json!({ "schematicID": GRAPHICS })), @"False ValidationFailed: spec.nodePools[0].machineTemplate.os.schematicID: the platform has no image factory; set spec.imageFactory of the ButlerConfig");
}

#[test]
fn machines_of_a_control_plane_may_have_an_image_of_their_own() {
    let world = with_factory();
    let mut provider = world.provider.clone().unwrap();
    provider.spec.cluster_api_provider =
        butler_api::butler::provider_config::ClusterApiProvider::Butler;
    let os = json!({ "os": { "schematicID": GRAPHICS } });
    let shop = shop(&json!({
        "controlPlane": { "mode": "Standalone", "replicas": 1, "machineTemplate": os },
    }));
    let images = plan(&shop, &world, &provider).unwrap();
    assert!(images.are_awaited_by(None) && images.are_awaited_by(Some("workers")));
    let fields: Vec<_> = images.by_field().into_keys().collect();
    assert_eq!(
        fields,
        [
            "spec.controlPlane.machineTemplate",
            "spec.workers.machineTemplate"
        ]
    );
}

const OLD_IMAGE: &str = "4b0c1d2e-9f8a-4b7c-8d6e-5f4a3b2c1d0e";

/// Two workers that are made from that image, at a version.
fn standing(version: &str) -> Related {
    let mut related = ready();
    related.infrastructure.as_mut().unwrap().kind = "NutanixCluster".to_owned();
    related.control_plane.as_mut().unwrap().facts = control_plane(version, version);
    for machine in related.machines.values_mut() {
        machine.version = Some(version.to_owned());
    }
    let workers = related.deployments.get_mut("shop-workers").unwrap();
    workers.facts.version = Some(version.to_owned());
    workers.facts.template = Some("shop-worker-11111111".to_owned());
    let image = Some(OLD_IMAGE.to_owned());
    related.images = [("shop-worker-11111111".to_owned(), image)].into();
    related
}

/// A cluster that needs no addons, with this system on its workers, and as many of them.
fn bare(replicas: i32, os: &Value) -> TenantCluster {
    let none = json!({ "provider": "none" });
    shop(&json!({
        "addons": { "cni": none, "loadBalancer": none },
        "workers": { "replicas": replicas, "machineTemplate": { "os": os } },
    }))
}

/// Version, number and image of the workers.
fn workers(plan: &Plan<TenantClusterStatus, Effect>) -> String {
    let deployment = &bodies(plan, "MachineDeployment")[0]["spec"];
    let version = deployment["template"]["spec"]["version"].as_str().unwrap();
    format!("{} of {version}, {}", deployment["replicas"], made(plan))
}

#[test]
fn a_version_and_its_image_come_to_workers_together_and_after_the_control_plane() {
    let mut world = with_factory();
    world.config = None;
    world.related = standing("v1.35.4");
    let upgraded = bare(2, &json!({ "type": "kairos", "imageRef": GRAPHICS_IMAGE }));
    let first = plan_cluster(&upgraded, &world, at(1));
    assert_eq!(
        workers(&first),
        format!("2 of v1.35.4, shop-workers: {OLD_IMAGE}")
    );
    let control_plane = bodies(&first, "StewardControlPlane")[0];
    assert_eq!(control_plane["spec"]["version"], "v1.36.3");
    let facts = &mut world.related.control_plane.as_mut().unwrap().facts;
    *facts = self::control_plane("v1.36.3", "v1.36.3");
    let second = plan_cluster(&upgraded, &world, at(2));
    assert_eq!(
        workers(&second),
        format!("2 of v1.36.3, shop-workers: {GRAPHICS_IMAGE}")
    );
}

#[test]
fn a_platform_that_begins_to_make_images_takes_nothing_from_clusters_that_work() {
    let mut world = with_factory();
    let factory = world.config.take();
    world.related = standing("v1.36.3");
    let image = json!({ "imageRef": OLD_IMAGE });
    let before = plan_cluster(&bare(2, &image), &world, at(1));
    assert_eq!(condition(&before, "Ready"), "True Ready: ");

    // The image is not named any more, and one is to be made by the platform's schematic.
    world.config = factory;
    let sync = "shop-37656798-9-5";
    world.images = [(sync.to_owned(), ImageSight::default())].into();
    let plain = after(bare(2, &json!({})), &before);
    let waits = plan_cluster(&plain, &world, at(2));
    insta::assert_snapshot!(condition(&waits, "ImageReady"), @"False ImageSyncPending: no component has taken up the ImageSync shop-37656798-9-5; the image controller of the provider must be installed, which is no part of this release, or name an image that the provider has by machineTemplate.os.imageRef");
    assert_eq!(condition(&waits, "Ready"), "True Ready: ");
    assert_eq!(waits.status.phase, before.status.phase);
    assert_ne!(waits.prune, Prune::Keep, "what is not wished for goes");

    // It is scaled as ever.
    let more = after(bare(3, &json!({})), &before);
    let scaled = plan_cluster(&more, &world, at(3));
    assert_eq!(
        workers(&scaled),
        format!("3 of v1.36.3, shop-workers: {OLD_IMAGE}")
    );

    arrives(&mut world, sync, PLAIN_IMAGE);
    let rolls = plan_cluster(&plain, &world, at(4));
    assert_eq!(
        workers(&rolls),
        format!("2 of v1.36.3, shop-workers: {PLAIN_IMAGE}")
    );
}

#[test]
fn workers_whose_image_cannot_be_asked_for_keep_the_one_that_they_have() {
    let mut world = with_factory();
    world.related = standing("v1.36.3");
    let plan = plan_cluster(&bare(3, &json!({ "type": "kairos" })), &world, at(1));
    assert_eq!(
        workers(&plan),
        format!("3 of v1.36.3, shop-workers: {OLD_IMAGE}")
    );
    insta::assert_snapshot!(condition(&plan, "ImageReady"), @"False ValidationFailed: spec.workers.machineTemplate.os.version: an image of a schematic needs a version; name the version of the operating system");
}

#[test]
fn the_image_of_a_template_is_read_as_it_was_written() {
    for surroundings in [on_nutanix(), on_harvester()] {
        for image in [OLD_IMAGE, "images/rocky-9"] {
            let wish = json!({ "workers": {
                "replicas": 1, "machineTemplate": { "os": { "imageRef": image } },
            } });
            let blueprint = drawn(&plain_shop(&wish), &surroundings);
            let template = build::pool(&blueprint, &blueprint.pools[0]).swap_remove(0);
            let read = TemplateFacts::of(&template.body).image;
            assert_eq!(read.as_deref(), Some(image), "{template:?}");
        }
    }
}

fn request(schematic: &str, version: &str) -> Request {
    Request {
        schematic: schematic.to_owned(),
        version: version.to_owned(),
    }
}

#[test]
fn a_name_that_is_too_long_still_tells_versions_apart() {
    let mut cluster = plain_shop(&json!({}));
    let short = name(&cluster, &request("376567988ad370", "v9.5"));
    assert_eq!(short, "shop-37656798-9-5");
    cluster.metadata.name = Some("a".repeat(60));
    let names = ["9.5", "9.6"].map(|version| name(&cluster, &request("376567988ad370", version)));
    assert_ne!(names[0], names[1]);
    for name in names {
        assert_eq!(name.len(), LABEL_LENGTH, "{name}");
    }
}

#[test]
fn images_whose_names_would_be_the_same_are_told_apart_in_whatever_order_they_come() {
    let cluster = plain_shop(&json!({}));
    let alike = [
        request("376567988ad370138ad8", "9.5"),
        request("376567988ad370138ad9", "9.5"),
        request("ce4c980550dd2ab1b17b", "9.5"),
    ];
    let found = names(&cluster, alike.iter());
    let mut backwards = names(&cluster, alike.iter().rev());
    backwards.reverse();
    assert_eq!(found, backwards);
    assert_ne!(found[0], found[1]);
    assert!(found[0].starts_with("shop-37656798-9-5-"), "{}", found[0]);
    assert_eq!(found[2], "shop-ce4c9805-9-5");
}

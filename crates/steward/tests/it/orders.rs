//! Whatever the order of events and whatever goes wrong on the way: a control plane comes to serve, and stays as it is.

use butler_api::conditions::types;
use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{Deed, Failed, Moment, Operation, for_seeds};
use serde_json::{Value, json};
use steward::names::SecretRole;

use crate::{
    cast::{
        STEPS, assert_at_rest, assert_ready, create_deed, found, left, seeds, store_deed, world,
    },
    scene::{self, here},
};

/// A control plane that is reached by a name of its own, and so is its tunnel.
fn behind_an_ingress(host: &str) -> Value {
    json!({
        "controlPlane": {
            "service": { "serviceType": "ClusterIP" },
            "ingress": { "hostname": host },
        },
        "addons": { "konnectivity": {} },
    })
}

#[test]
fn control_planes_come_to_serve_whatever_happens_on_the_way() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, database) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        let behind = behind_an_ingress("web.k8s.example.com");
        simulation.user("bob", vec![create_deed("web", behind)]);
        simulation.run(STEPS)?;
        assert_ready(&simulation, "shop");
        assert_ready(&simulation, "web");
        assert_eq!(database.contents.lock().unwrap().len(), 2);
        let store = found(
            &simulation,
            &scene::stores(),
            &ObjectKey::cluster("default"),
        );
        assert_eq!(
            store["status"]["usedBy"],
            json!(["payments/shop", "payments/web"])
        );
        assert_eq!(scene::ready(&store), "True Ready");
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn whatever_secret_is_deleted_comes_back_and_the_pods_follow() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        // It has every Secret that there can be.
        let behind = behind_an_ingress("shop.k8s.example.com");
        simulation.user("alice", vec![create_deed("shop", behind)]);
        let mut roles = SecretRole::ALL.into_iter().cycle();
        let lost = roles.nth(usize::try_from(seed).unwrap()).unwrap();
        let key = here(&format!("shop-{lost}"));
        let again = key.clone();
        simulation.user(
            "meddler",
            vec![
                (Moment::Anytime, Deed::delete(scene::secrets(), key.clone())),
                (Moment::AtRest, Deed::delete(scene::secrets(), again)),
            ],
        );
        simulation.run(STEPS)?;
        found(&simulation, &scene::secrets(), &key);
        assert_ready(&simulation, "shop");
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

fn scale(replicas: i32) -> impl Fn(&mut Value) {
    move |body| body["spec"]["controlPlane"]["deployment"]["replicas"] = replicas.into()
}

/// The version that served last.
fn version_of(control_plane: &Value) -> &str {
    let version = &control_plane["status"]["kubernetesResources"]["version"]["version"];
    version.as_str().unwrap_or_default()
}

#[test]
fn a_control_plane_is_upgraded_put_to_sleep_and_woken() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        let older = json!({ "kubernetes": { "version": "v1.35.4", "kubelet": {} } });
        simulation.user("operator", vec![store_deed()]);
        let edit = |change: Box<dyn Fn(&mut Value)>| {
            Deed::edit(scene::control_planes(), here("shop"), change)
        };
        simulation.user(
            "alice",
            vec![
                create_deed("shop", older),
                (
                    Moment::AtRest,
                    edit(Box::new(|body| {
                        body["spec"]["kubernetes"]["version"] = "v1.36.3".into();
                    })),
                ),
                (Moment::Anytime, edit(Box::new(scale(0)))),
            ],
        );
        simulation.run(STEPS)?;
        let asleep = found(&simulation, &scene::control_planes(), &here("shop"));
        assert_eq!(
            asleep["status"]["kubernetesResources"]["version"]["status"],
            "Sleeping"
        );
        // That of the data: whoever was put to sleep on the way has not come to the new one.
        let served = version_of(&asleep);
        assert!(["v1.35.4", "v1.36.3"].contains(&served), "{served}");
        assert_eq!(scene::ready(&asleep), "False Sleeping");
        assert_at_rest(&mut simulation)?;
        simulation.user("bob", vec![(Moment::Anytime, edit(Box::new(scale(2))))]);
        simulation.run(STEPS)?;
        assert_ready(&simulation, "shop");
        let awake = found(&simulation, &scene::control_planes(), &here("shop"));
        assert_eq!(version_of(&awake), "v1.36.3");
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_store_with_new_certificates_is_followed() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        simulation.run(STEPS)?;
        let certificate = here("shop-datastore-certificate");
        let before = found(&simulation, &scene::secrets(), &certificate)["data"].clone();
        let validity = butler_pki::Validity::starting(
            simulation.store().now(),
            jiff::SignedDuration::from_hours(9000),
        );
        let authority = butler_pki::Authority::new("etcd-ca-2", validity).unwrap();
        let encoded = |text: &str| json!(k8s_openapi::ByteString(text.as_bytes().to_vec()));
        let patch = json!({ "data": {
            "ca.crt": encoded(authority.certificate_pem()),
            "ca.key": encoded(authority.key_pem().expose()),
        } });
        let key = ObjectKey::namespaced(scene::SYSTEM, "default-certs");
        let rotate = Operation::Merge(scene::secrets(), key, patch);
        simulation.store_mut().perform("operator", rotate).unwrap();
        simulation.run(STEPS)?;
        let after = found(&simulation, &scene::secrets(), &certificate)["data"].clone();
        assert_eq!(after["ca.crt"], encoded(authority.certificate_pem()));
        assert_ne!(after["server.crt"], before["server.crt"]);
        assert_ready(&simulation, "shop");
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn the_authority_of_a_cluster_is_replaced_while_it_serves() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        let annotation = "certs.steward.butlerlabs.dev/rotate";
        let rotate = Deed::annotate(scene::secrets(), here("shop-ca"), annotation, "");
        simulation.user("bob", vec![(Moment::AtRest, rotate)]);
        simulation.run(STEPS)?;
        assert_ready(&simulation, "shop");
        let data = found(&simulation, &scene::secrets(), &here("shop-ca"))["data"].clone();
        assert_ne!(
            data["ca.crt"], data["tls.crt"],
            "the old one is still trusted"
        );
        assert_eq!(data.get("next.key"), None);
        let retire = Deed::annotate(scene::secrets(), here("shop-ca"), annotation, "retire");
        simulation.user("carol", vec![(Moment::Anytime, retire)]);
        simulation.run(STEPS)?;
        let data = found(&simulation, &scene::secrets(), &here("shop-ca"))["data"].clone();
        assert_eq!(data["ca.crt"], data["tls.crt"]);
        assert_ready(&simulation, "shop");
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_paused_control_plane_is_left_alone_until_it_goes_on() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        let mut body = scene::control_plane(&here("shop"), json!({}));
        body["metadata"]["annotations"] = json!({ "steward.butlerlabs.dev/paused": "" });
        simulation.user(
            "alice",
            vec![(Moment::Anytime, Deed::create(scene::control_planes(), body))],
        );
        simulation.run(STEPS)?;
        assert_eq!(left(&simulation), ["TenantControlPlane payments/shop"]);
        let paused = found(&simulation, &scene::control_planes(), &here("shop"));
        assert_eq!(scene::condition(&paused, types::PAUSED), "True Paused");
        let go_on =
            json!({ "metadata": { "annotations": { "steward.butlerlabs.dev/paused": null } } });
        let go_on = Operation::Merge(scene::control_planes(), here("shop"), go_on);
        simulation.store_mut().perform("alice", go_on).unwrap();
        simulation.run(STEPS)?;
        assert_ready(&simulation, "shop");
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn kubeconfigs_follow_the_control_planes_that_are_selected() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        let generator = json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "KubeconfigGenerator",
            "metadata": { "name": "monitoring" },
            "spec": {
                "user": { "stringValue": "monitoring" }, "groups": [{ "fromDefinition": "metadata.name" }],
                "controlPlaneEndpointFrom": "admin.svc",
            },
        });
        simulation.user("bob", vec![(Moment::Anytime, Deed::create(scene::generators(), generator))]);
        simulation.run(STEPS)?;
        let key = ObjectKey::cluster("monitoring");
        let made = found(&simulation, &scene::generators(), &key);
        assert_eq!(scene::ready(&made), "True Ready", "{made}");
        assert_eq!(made["status"]["availableResources"], 1);
        found(&simulation, &scene::secrets(), &here("shop-monitoring"));
        assert_at_rest(&mut simulation)?;
        // With the generator its kubeconfigs go.
        let delete = Operation::delete(scene::generators(), key.clone());
        simulation.store_mut().perform("bob", delete).unwrap();
        simulation.run(STEPS)?;
        assert!(simulation.store().get(&scene::generators(), &key).is_none());
        assert!(simulation.store().get(&scene::secrets(), &here("shop-monitoring")).is_none());
        Ok::<(), Failed>(())
    })
    .unwrap();
}

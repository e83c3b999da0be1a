use pretty_assertions::assert_eq;

use super::*;

fn control_plane(metadata: &Value) -> KamajiTenantControlPlane {
    let mut body =
        json!({ "metadata": { "name": "shop-cp", "namespace": "payments", "uid": "1" } });
    for (name, value) in metadata.as_object().unwrap() {
        body["metadata"][name] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

fn kamaji_secret(kubeconfig: &str) -> KamajiSecret {
    let body = json!({ "metadata": {}, "data": { "admin.conf": kubeconfig } });
    KamajiSecret::project(body).unwrap()
}

fn cluster_secret(kubeconfig: &str, managed_by: &str) -> ClusterSecret {
    let labels = json!({
        "cluster.x-k8s.io/cluster-name": "shop", "app.kubernetes.io/managed-by": managed_by,
    });
    let body = json!({ "metadata": { "labels": labels }, "data": { "value": kubeconfig } });
    ClusterSecret::project(body).unwrap()
}

fn world(target: Option<ClusterSecret>) -> World {
    World {
        source: Some(kamaji_secret("one")),
        target,
    }
}

/// One whose cluster has another name than itself.
fn labelled() -> KamajiTenantControlPlane {
    control_plane(&json!({ "labels": { "cluster.x-k8s.io/cluster-name": "shop" } }))
}

#[test]
fn a_kubeconfig_is_translated_as_soon_as_kamaji_has_made_it() {
    assert_eq!(plan(&labelled(), &World::default()).effects, []);
    let here = |name: &str| ObjectKey::namespaced("payments", name);
    assert_eq!(
        plan(&labelled(), &world(None)).effects,
        [Effect::Translate {
            source: here("shop-cp-admin-kubeconfig"),
            target: here("shop-kubeconfig"),
            cluster: "shop".to_owned(),
        }]
    );
    let unlabelled = control_plane(&json!({}));
    let [Effect::Translate { target, .. }] = &plan(&unlabelled, &world(None)).effects[..] else {
        panic!("it is translated");
    };
    assert_eq!(*target, here("shop-cp-kubeconfig"));
}

#[test]
fn a_new_kubeconfig_takes_the_place_of_the_old_one_and_the_same_does_not() {
    let of = |kubeconfig| world(Some(cluster_secret(kubeconfig, "butler")));
    assert_eq!(plan(&labelled(), &of("one")).effects, []);
    assert_eq!(plan(&labelled(), &of("two")).effects.len(), 1);
    let moved = control_plane(&json!({ "labels": { "cluster.x-k8s.io/cluster-name": "store" } }));
    assert_eq!(plan(&moved, &of("one")).effects.len(), 1);
}

#[test]
fn what_somebody_else_made_is_left_alone() {
    let foreign = world(Some(cluster_secret("two", "kamaji")));
    assert_eq!(plan(&labelled(), &foreign).effects, []);
}

#[test]
fn a_control_plane_that_goes_gets_no_new_kubeconfig() {
    let leaving = control_plane(&json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }));
    assert_eq!(plan(&leaving, &world(None)).effects, []);
}

use pretty_assertions::assert_eq;

use super::*;

/// A control plane of Kamaji that is owned by an object of a kind.
fn control_plane(word: &str, ready: i32) -> KamajiTenantControlPlane {
    let deployment = json!({
        "name": "shop", "selector": "kamaji.clastix.io/name=shop", "replicas": 3, "readyReplicas": ready,
        "availableReplicas": ready, "updatedReplicas": 2, "unavailableReplicas": 3 - ready,
    });
    let resources = json!({
        "version": { "version": "v1.36.3", "status": word }, "deployment": deployment, "service": {},
    });
    let body = json!({
        "metadata": { "name": "shop", "namespace": "payments", "ownerReferences": [
            { "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "1" },
            { "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "KamajiControlPlane", "name": "shop", "uid": "2" },
        ] },
        "status": { "kubernetesResources": resources, "controlPlaneEndpoint": "192.0.2.1:6443" },
    });
    serde_json::from_value(body).unwrap()
}

fn owner(kind: &str, version: &str, status: Value) -> Owner {
    let (found, key, uid) = owner_of(&control_plane("Ready", 3)).unwrap();
    Owner {
        kind: Kind {
            kind: kind.to_owned(),
            version: version.to_owned(),
            ..found
        },
        key,
        uid,
        status,
    }
}

fn shown(control_plane: &KamajiTenantControlPlane, owner: &Owner) -> Option<Value> {
    let plan = plan(control_plane, Some(owner));
    plan.effects.into_iter().next().map(|effect| {
        let Effect::Show { status, .. } = effect;
        status
    })
}

#[test]
fn the_owner_is_the_control_plane_of_cluster_api() {
    let (kind, key, uid) = owner_of(&control_plane("Ready", 3)).unwrap();
    assert_eq!(kind.plural, "kamajicontrolplanes");
    assert_eq!(
        (key, uid.as_str()),
        (ObjectKey::namespaced("payments", "shop"), "2")
    );
    let alone = KamajiTenantControlPlane::default();
    assert_eq!(owner_of(&alone), None);
    assert_eq!(plan(&alone, None).effects, []);
}

#[test]
fn each_contract_has_its_own_fields() {
    let ready = control_plane("Ready", 3);
    let keys = |kind: &str, version: &str| {
        let shown = shown(&ready, &owner(kind, version, Value::Null)).unwrap();
        let keys = shown.as_object().unwrap().keys().cloned();
        keys.collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!(keys("KamajiControlPlane", "v1alpha1"), @"externalManagedControlPlane initialized ready readyReplicas replicas selector unavailableReplicas updatedReplicas version");
    insta::assert_snapshot!(keys("KamajiControlPlane", "v1alpha2"), @"availableReplicas externalManagedControlPlane initialization initialized readyReplicas replicas selector upToDateReplicas version");
    insta::assert_snapshot!(keys("StewardControlPlane", "v1alpha1"), @"availableReplicas externalManagedControlPlane initialization initialized ready readyReplicas replicas selector unavailableReplicas upToDateReplicas updatedReplicas version");
}

#[test]
fn what_is_shown_already_is_not_shown_again() {
    let ready = control_plane("Ready", 3);
    let before = owner(
        "KamajiControlPlane",
        "v1alpha1",
        json!({ "conditions": [] }),
    );
    let shown_first = shown(&ready, &before).unwrap();
    let after = owner("KamajiControlPlane", "v1alpha1", shown_first);
    assert_eq!(shown(&ready, &after), None);
}

#[test]
fn a_loss_of_readiness_is_shown_and_that_it_was_ready_once_stays() {
    let provisioning = control_plane("Provisioning", 0);
    let fresh = owner("StewardControlPlane", "v1alpha1", Value::Null);
    let status = shown(&provisioning, &fresh).unwrap();
    assert_eq!(
        (&status["ready"], &status["initialized"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(status["initialization"]["controlPlaneInitialized"], false);

    let status = shown(&control_plane("Ready", 3), &fresh).unwrap();
    assert_eq!(
        (&status["ready"], &status["initialized"]),
        (&json!(true), &json!(true))
    );
    let owner = owner("StewardControlPlane", "v1alpha1", status);
    for (word, ready) in [("NotReady", 0), ("Sleeping", 0), ("Upgrading", 0)] {
        let status = shown(&control_plane(word, ready), &owner).unwrap();
        assert_eq!(status["ready"], false, "{word}");
        assert_eq!(status["initialized"], true, "{word}");
        assert_eq!(status["readyReplicas"], 0, "{word}");
    }
    let status = shown(&control_plane("Upgrading", 2), &owner).unwrap();
    assert_eq!(
        (&status["ready"], &status["readyReplicas"]),
        (&json!(true), &json!(2))
    );
}

#[test]
fn one_that_kamaji_says_nothing_of_yet_is_waited_for() {
    let mut silent = control_plane("Ready", 3);
    silent.status = None;
    let owner = owner("StewardControlPlane", "v1alpha1", Value::Null);
    assert_eq!(plan(&silent, Some(&owner)).effects, []);
}

use butler_pki::{Authority, Validity, inspect};
use butler_runtime::object::ObjectKey;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{
    secrets::{KubeconfigWish, Pair},
    testing::{now, told},
};

fn generator() -> KubeconfigGenerator {
    let body = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "KubeconfigGenerator",
        "metadata": { "name": "monitoring", "uid": "1", "generation": 1 },
        "spec": { "user": { "stringValue": "monitoring" } },
    });
    serde_json::from_value(body).unwrap()
}

fn target() -> Target {
    let validity = Validity::starting(now(), SignedDuration::from_hours(9000));
    let authority = Authority::new("kubernetes", validity).unwrap();
    let certificate_pem = authority.certificate_pem().to_owned();
    Target {
        control_plane: ObjectKey::namespaced("payments", "shop"),
        wish: Ok(KubeconfigWish {
            user: "monitoring".to_owned(),
            groups: Vec::new(),
            servers: vec![(
                "value".to_owned(),
                "https://shop.payments.svc:6443".to_owned(),
            )],
        }),
        authority: Ok(Pair {
            facts: inspect(&certificate_pem).unwrap(),
            certificate_pem,
        }),
        secret: None,
    }
}

fn world(targets: Vec<Target>) -> World {
    World {
        targets: Ok(targets),
        leftovers: Vec::new(),
    }
}

#[test]
fn a_selected_control_plane_without_a_kubeconfig_gets_one() {
    let plan = plan(&generator(), &world(vec![target()]), now());
    insta::assert_snapshot!(told(&plan), @"Ready=False Creating: 0 of 1 control planes have their kubeconfig");
    let [Effect::Make { reason, guard, .. }] = plan.effects.as_slice() else {
        panic!("{:?}", plan.effects);
    };
    assert_eq!((reason.as_str(), guard), ("is missing", &Guard::Absent));
}

#[test]
fn a_control_plane_that_is_not_there_yet_is_told_and_does_not_hold_the_others_up() {
    let waiting = Target {
        authority: Err("its certificate authority is not there yet".to_owned()),
        ..target()
    };
    let plan = plan(&generator(), &world(vec![waiting, target()]), now());
    insta::assert_snapshot!(told(&plan), @"Ready=False WaitingForDependencies: 0 of 2 control planes have their kubeconfig");
    assert_eq!(plan.status.errors.len(), 1);
    assert_eq!(plan.effects.len(), 1);
}

#[test]
fn a_selector_that_cannot_be_read_takes_nothing_away() {
    let world = World {
        targets: Err("spec.namespaceSelector: what?".to_owned()),
        leftovers: Vec::new(),
    };
    let plan = plan(&generator(), &world, now());
    insta::assert_snapshot!(told(&plan), @"Ready=False ValidationFailed: spec.namespaceSelector: what?");
    assert_eq!(plan.effects, []);
}

use std::{sync::Arc, time::Duration};

use butler_api::keys::{annotations, labels, values};
use butler_pki::{Authority, Kubeconfig, LeafRequest, Usage, Validity, inspect};
use butler_runtime::{
    cache::{Cached, Facts, Projection as _},
    object::ObjectKey,
};
use k8s_openapi::ByteString;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::testing::{now, told};

const SERVER: &str = "https://shop.payments.svc:6443";
const TEN_MINUTES: SignedDuration = SignedDuration::from_mins(10);

fn generator() -> KubeconfigGenerator {
    generator_named("monitoring")
}

fn generator_named(name: &str) -> KubeconfigGenerator {
    let body = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "KubeconfigGenerator",
        "metadata": { "name": name, "uid": "1", "generation": 1 },
        "spec": { "user": { "stringValue": "monitoring" } },
    });
    serde_json::from_value(body).unwrap()
}

fn going(mut generator: KubeconfigGenerator) -> KubeconfigGenerator {
    generator.metadata.deletion_timestamp = Some(Time(now()));
    generator
}

fn later(minutes: i64) -> Timestamp {
    now()
        .checked_add(SignedDuration::from_mins(minutes))
        .unwrap()
}

fn authority() -> Authority {
    let validity = Validity::starting(now(), SignedDuration::from_hours(9000));
    Authority::new("kubernetes", validity).unwrap()
}

fn target() -> Target {
    target_of(&authority())
}

fn target_of(authority: &Authority) -> Target {
    let certificate_pem = authority.certificate_pem().to_owned();
    Target {
        control_plane: ObjectKey::namespaced("payments", "shop"),
        borrower: Ok(Borrower {
            entry: "monitoring".to_owned(),
            user: "monitoring".to_owned(),
            groups: Vec::new(),
            life: TEN_MINUTES,
            server: SERVER.to_owned(),
        }),
        authority: Ok(Pair {
            facts: inspect(&certificate_pem).unwrap(),
            certificate_pem,
        }),
        reserved_by: None,
        secret: None,
    }
}

/// A Secret as it is seen, in the namespace of the stories.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write them down in place"
)]
fn seen(name: &str, labels: Value, annotations: Value, data: Value) -> Seen {
    let body = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": name, "namespace": "payments", "uid": "2", "resourceVersion": "7",
            "labels": labels, "annotations": annotations,
        },
        "data": data,
    });
    let facts = Facts::of(&body);
    let value = KeptSecret::project(body).unwrap();
    Arc::new(Cached { facts, value })
}

fn labels_of(generator: &str, control_plane: &str) -> Value {
    json!({
        labels::STEWARD_PROJECT: values::STEWARD_PROJECT,
        labels::STEWARD_NAME: control_plane,
        labels::STEWARD_COMPONENT: "kubeconfig-generator",
        labels::STEWARD_MANAGED_BY: generator,
        labels::STEWARD_MANAGED_FOR: control_plane,
        labels::STEWARD_CERTIFICATE_LIFECYCLE: values::LIFECYCLE_KUBECONFIG,
    })
}

/// The data of a Secret with a kubeconfig that was made now.
fn kubeconfig(authority: &Authority, life: SignedDuration) -> Value {
    let request = LeafRequest {
        common_name: "monitoring".to_owned(),
        ..LeafRequest::new(Usage::Client, Validity::starting(now(), life))
    };
    let file = Kubeconfig {
        cluster: "shop",
        user: "monitoring",
        server: SERVER,
        authority_pem: authority.certificate_pem(),
        client: &authority.issue(&request).unwrap(),
    };
    let text = file.render().unwrap().expose().to_owned();
    json!({ "value": ByteString(text.into_bytes()) })
}

/// A control plane whose kubeconfig was made now, for ten minutes.
fn served() -> Target {
    let authority = authority();
    let data = kubeconfig(&authority, TEN_MINUTES);
    Target {
        secret: Some(seen(
            "shop-monitoring",
            labels_of("monitoring", "shop"),
            json!({}),
            data,
        )),
        ..target_of(&authority)
    }
}

fn errors(plan: &Plan<KubeconfigGeneratorStatus, Effect>) -> Vec<String> {
    let errors = plan.status.errors.iter();
    errors
        .map(|error| format!("{}: {}", error.resource, error.message))
        .collect()
}

/// What is made, and why.
fn made(plan: &Plan<KubeconfigGeneratorStatus, Effect>) -> Vec<&str> {
    let effects = plan.effects.iter();
    effects
        .map(|effect| match effect {
            Effect::Make { reason, .. } => reason.as_str(),
            Effect::Remove { .. } => panic!("{effect:?}"),
        })
        .collect()
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
fn a_paused_kubeconfig_is_not_made_anew_and_that_is_told() {
    let authority = authority();
    let paused = Target {
        secret: Some(seen(
            "shop-monitoring",
            labels_of("monitoring", "shop"),
            json!({ annotations::STEWARD_PAUSED: "" }),
            kubeconfig(&authority, TEN_MINUTES),
        )),
        ..target_of(&authority)
    };
    let due = plan(&generator(), &world(vec![paused]), later(9));
    assert_eq!(made(&due), [""; 0]);
    insta::assert_snapshot!(errors(&due).join("\n"), @"payments/shop: the Secret payments/shop-monitoring is due for renewal: it expires at 2026-01-01T00:10:00Z, and stays as it is: it is paused; remove its annotation steward.butlerlabs.dev/paused to have it made anew");
    assert_eq!(due.next, Next::AwaitChange, "nothing changes by itself");
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

#[test]
fn a_kubeconfig_for_ten_minutes_is_renewed_before_its_end() {
    let target = served();
    let world = world(vec![target]);
    let at = |time| plan(&generator(), &world, time);
    let fresh = at(now());
    insta::assert_snapshot!(told(&fresh), @r"
    Ready=True Ready: every selected control plane has its kubeconfig
    next: After(300s)
    ");
    assert_eq!(fresh.status.earliest_expiration, Some(Time(later(10))));
    assert_eq!(fresh.effects, []);
    let Next::After(wait) = fresh.next else {
        panic!("{:?}", fresh.next);
    };
    assert!(wait < Duration::from_mins(7), "{wait:?}");

    // When its hour comes, it is renewed, and still serves whoever has it.
    let due = now()
        .checked_add(SignedDuration::try_from(wait).unwrap())
        .unwrap();
    let due = at(due);
    insta::assert_snapshot!(told(&due), @"Ready=True Ready: every selected control plane has its kubeconfig");
    assert_eq!(
        made(&due),
        ["is due for renewal: it expires at 2026-01-01T00:10:00Z"]
    );
    assert_eq!(due.status.available_resources, 1);

    // If nobody came in time, it is of no use.
    let late = at(later(10));
    insta::assert_snapshot!(told(&late), @"Ready=False Creating: 0 of 1 control planes have their kubeconfig");
    assert_eq!(made(&late), ["expired at 2026-01-01T00:10:00Z"]);
}

#[test]
fn a_shorter_life_takes_effect_at_once() {
    let authority = authority();
    let data = kubeconfig(&authority, SignedDuration::from_hours(24 * 365));
    let target = Target {
        secret: Some(seen(
            "shop-monitoring",
            labels_of("monitoring", "shop"),
            json!({}),
            data,
        )),
        ..target_of(&authority)
    };
    let plan = plan(&generator(), &world(vec![target]), now());
    assert_eq!(made(&plan), ["lives longer than is asked for"]);
}

#[test]
fn a_generator_named_after_a_secret_of_control_planes_leaves_it_alone_and_says_so() {
    let pki = json!({
        labels::STEWARD_PROJECT: values::STEWARD_PROJECT,
        labels::STEWARD_NAME: "shop",
        labels::STEWARD_COMPONENT: "ca",
    });
    let target = Target {
        reserved_by: Some(ObjectKey::namespaced("payments", "shop")),
        secret: Some(seen("shop-ca", pki, json!({}), json!({}))),
        ..target()
    };
    let world = world(vec![target]);
    let kept = plan(&generator_named("ca"), &world, now());
    insta::assert_snapshot!(told(&kept), @r"
    Ready=False NameTaken: 0 of 1 control planes have their kubeconfig
    next: After(900s)
    ");
    insta::assert_snapshot!(errors(&kept).join("\n"), @"payments/shop: the Secret payments/shop-ca is one of the TenantControlPlane payments/shop's own and is left alone; give the generator another name");
    assert_eq!(kept.effects, []);
    // Nor does it take it away at its own end.
    assert_eq!(
        plan(&going(generator_named("ca")), &world, now()).effects,
        []
    );
}

#[test]
fn a_secret_of_control_planes_that_is_not_there_yet_is_not_made_by_a_generator() {
    let target = Target {
        reserved_by: Some(ObjectKey::namespaced("payments", "shop")),
        ..target()
    };
    let plan = plan(
        &generator_named("datastore-config"),
        &world(vec![target]),
        now(),
    );
    assert_eq!(plan.effects, []);
    assert_eq!(errors(&plan).len(), 1);
}

#[test]
fn a_secret_that_a_control_plane_took_for_its_own_is_not_taken_away() {
    // `shop-web` came after the generator `web-ca` had made that Secret for `shop`, and wrote over it.
    let mut labels = labels_of("web-ca", "shop");
    labels[labels::STEWARD_NAME] = "shop-web".into();
    labels[labels::STEWARD_COMPONENT] = "ca".into();
    let target = Target {
        secret: Some(seen("shop-web-ca", labels, json!({}), json!({}))),
        ..target()
    };
    let plan = plan(
        &going(generator_named("web-ca")),
        &world(vec![target]),
        now(),
    );
    assert_eq!(plan.effects, []);
}

#[test]
fn of_two_generators_that_reach_one_name_the_first_has_it() {
    // The generator `b-c` for the control plane `a`, and `c` for `a-b`.
    let theirs = seen("a-b-c", labels_of("c", "a-b"), json!({}), json!({}));
    let target = Target {
        control_plane: ObjectKey::namespaced("payments", "a"),
        secret: Some(theirs),
        ..target()
    };
    let world = world(vec![target]);
    let plan = plan(&generator_named("b-c"), &world, now());
    insta::assert_snapshot!(errors(&plan).join("\n"), @"payments/a: the Secret payments/a-b-c is the KubeconfigGenerator c's for the TenantControlPlane payments/a-b and is left alone; give one of the generators another name");
    assert_eq!(plan.effects, []);
    assert_eq!(
        super::plan(&going(generator_named("b-c")), &world, now()).effects,
        []
    );
}

#[test]
fn a_secret_that_somebody_made_by_hand_is_left_alone_and_looked_at_again() {
    let mut target = served();
    target.secret = Some(seen("shop-monitoring", json!({}), json!({}), json!({})));
    let plan = plan(&generator(), &world(vec![target, served()]), now());
    insta::assert_snapshot!(told(&plan), @r"
    Ready=False NameTaken: 1 of 2 control planes have their kubeconfig
    next: After(300s)
    ");
    insta::assert_snapshot!(errors(&plan).join("\n"), @"payments/shop: the Secret payments/shop-monitoring is somebody else's and is left alone; rename or remove it, or give the generator another name");
    assert_eq!(plan.effects, []);
}

#[test]
fn a_kubeconfig_that_is_asked_to_be_replaced_or_has_lost_its_labels_is_made_anew() {
    let authority = authority();
    let made_anew = |labels: Value, annotations: Value| {
        let data = kubeconfig(&authority, TEN_MINUTES);
        let target = Target {
            secret: Some(seen("shop-monitoring", labels, annotations, data)),
            ..target_of(&authority)
        };
        let plan = plan(&generator(), &world(vec![target]), now());
        made(&plan).join(", ")
    };
    let labels = labels_of("monitoring", "shop");
    assert_eq!(made_anew(labels.clone(), json!({})), "");
    assert_eq!(
        made_anew(labels.clone(), json!({ annotations::STEWARD_ROTATE: "" })),
        "is asked to be replaced"
    );
    let mut bare = labels;
    bare.as_object_mut().unwrap().remove(labels::STEWARD_NAME);
    assert_eq!(made_anew(bare, json!({})), "lacks labels");
}

#[test]
fn kubeconfigs_go_with_their_generator() {
    let world = World {
        leftovers: vec![seen(
            "web-monitoring",
            labels_of("monitoring", "web"),
            json!({}),
            json!({}),
        )],
        ..world(vec![served(), target()])
    };
    let plan = plan(&going(generator()), &world, now());
    let removed: Vec<_> = plan
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Remove {
                key,
                resource_version,
                ..
            } => format!("{key} {resource_version}"),
            Effect::Make { .. } => panic!("{effect:?}"),
        })
        .collect();
    assert_eq!(
        removed,
        ["payments/shop-monitoring 7", "payments/web-monitoring 7"]
    );
}

//! What the platform's settings mean, one setting at a time.

use butler_runtime::object::ObjectKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{at, told};

fn settings_named(name: &str, spec: Value) -> ButlerConfig {
    let mut body = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "ButlerConfig",
        "metadata": { "name": name, "generation": 1 },
    });
    body["spec"] = spec;
    serde_json::from_value(body).unwrap()
}

fn settings(spec: Value) -> ButlerConfig {
    settings_named(names::BUTLER_CONFIG, spec)
}

fn world() -> World {
    World {
        teams: 2,
        clusters: 3,
        namespace: NamespaceState::Present,
        missing: Vec::new(),
    }
}

#[test]
fn settings_nobody_wrote_make_the_namespace_and_count() {
    let world = World {
        namespace: NamespaceState::Absent,
        ..world()
    };
    let plan = plan(&settings(json!({})), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    NamespaceReady=False Creating: the namespace butler-tenants is being made
    Configured=True ConfigValid
    FeaturesAvailable=True Ready
    status.clusterCount: 3
    status.controlPlaneExposureMode: "LoadBalancer"
    status.tcpProxyRequired: false
    status.teamCount: 2
    apply Namespace butler-tenants
    "#);
}

#[test]
fn the_namespace_says_what_it_is_for_and_nothing_else() {
    let plan = plan(
        &settings(json!({ "defaultNamespace": "playground" })),
        &world(),
        at(1),
    );
    insta::assert_yaml_snapshot!(plan.apply, @r"
    - apiVersion: v1
      kind: Namespace
      metadata:
        annotations:
          butler.butlerlabs.dev/description: Tenant clusters that belong to no team
        name: playground
    ");
}

#[test]
fn enforced_teams_need_no_namespace() {
    let world = World {
        namespace: NamespaceState::Absent,
        ..world()
    };
    let plan = plan(
        &settings(json!({ "multiTenancy": { "mode": "Enforced" } })),
        &world,
        at(1),
    );
    insta::assert_snapshot!(told(&plan), @r#"
    NamespaceReady=True NotRequired: every cluster belongs to a team and lives in its namespace
    Configured=True ConfigValid
    FeaturesAvailable=True Ready
    status.clusterCount: 3
    status.controlPlaneExposureMode: "LoadBalancer"
    status.tcpProxyRequired: false
    status.teamCount: 2
    "#);
}

#[test]
fn optional_and_disabled_teams_keep_the_namespace() {
    for mode in ["Optional", "Disabled"] {
        let plan = plan(
            &settings(json!({ "multiTenancy": { "mode": mode } })),
            &world(),
            at(1),
        );
        assert_eq!(plan.apply.len(), 1, "{mode}");
        assert!(plan.notes.is_empty(), "{mode}");
        assert_eq!(
            plan.prune,
            butler_runtime::plan::Prune::Keep,
            "clusters may live in it"
        );
    }
}

#[test]
fn a_namespace_of_the_system_is_refused() {
    for namespace in [
        "kube-system",
        "kube-anything",
        "butler-system",
        "default",
        "cert-manager",
    ] {
        let plan = plan(
            &settings(json!({ "defaultNamespace": namespace })),
            &world(),
            at(1),
        );
        assert!(plan.apply.is_empty(), "{namespace}");
        assert_eq!(plan.notes[0].reason, reasons::NAME_RESERVED, "{namespace}");
    }
    let plan = plan(
        &settings(json!({ "defaultNamespace": "kube-public" })),
        &world(),
        at(1),
    );
    insta::assert_snapshot!(told(&plan), @r#"
    NamespaceReady=False NameReserved: spec.defaultNamespace: kube-public belongs to the system; choose a namespace of its own
    Configured=False NamespaceError: spec.defaultNamespace: kube-public belongs to the system; choose a namespace of its own
    FeaturesAvailable=True Ready
    status.clusterCount: 3
    status.controlPlaneExposureMode: "LoadBalancer"
    status.tcpProxyRequired: false
    status.teamCount: 2
    Warning NameReserved: spec.defaultNamespace: kube-public belongs to the system; choose a namespace of its own
    "#);
}

#[test]
fn a_namespace_that_cannot_be_one_names_the_rule() {
    let plan = plan(
        &settings(json!({ "defaultNamespace": "Not_A_Name" })),
        &world(),
        at(1),
    );
    insta::assert_snapshot!(told(&plan), @r#"
    NamespaceReady=False ValidationFailed: spec.defaultNamespace: namespace "Not_A_Name" is not valid: use 1 to 63 lower case letters, digits and dashes, with a letter or digit at both ends
    Configured=False NamespaceError: spec.defaultNamespace: namespace "Not_A_Name" is not valid: use 1 to 63 lower case letters, digits and dashes, with a letter or digit at both ends
    FeaturesAvailable=True Ready
    status.clusterCount: 3
    status.controlPlaneExposureMode: "LoadBalancer"
    status.tcpProxyRequired: false
    status.teamCount: 2
    Warning ValidationFailed: spec.defaultNamespace: namespace "Not_A_Name" is not valid: use 1 to 63 lower case letters, digits and dashes, with a letter or digit at both ends
    "#);
}

#[test]
fn a_namespace_that_goes_away_is_waited_for() {
    let world = World {
        namespace: NamespaceState::Terminating,
        ..world()
    };
    let plan = plan(&settings(json!({})), &world, at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    NamespaceReady=False NamespaceTerminating: the namespace butler-tenants is being deleted; it is made anew when it is gone
    Configured=False NamespaceError: the namespace butler-tenants is being deleted; it is made anew when it is gone
    FeaturesAvailable=True Ready
    status.clusterCount: 3
    status.controlPlaneExposureMode: "LoadBalancer"
    status.tcpProxyRequired: false
    status.teamCount: 2
    Warning NamespaceTerminating: the namespace butler-tenants is being deleted; it is made anew when it is gone
    "#);
}

#[test]
fn a_second_set_of_settings_has_no_effect_and_says_so() {
    let plan = plan(&settings_named("another", json!({})), &world(), at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    NamespaceReady=Unknown InvalidName: only the platform's own settings have a namespace
    Configured=False InvalidName: metadata.name: there is one ButlerConfig, named butler; this one has no effect
    FeaturesAvailable=True Ready
    status.clusterCount: 3
    status.controlPlaneExposureMode: "LoadBalancer"
    status.tcpProxyRequired: false
    status.teamCount: 2
    Warning InvalidName: metadata.name: there is one ButlerConfig, named butler; this one has no effect
    "#);
}

#[test]
fn a_reference_that_leads_nowhere_names_the_field_and_the_object() {
    let provider = ObjectKey::namespaced(names::SYSTEM_NAMESPACE, "rack");
    let world = World {
        missing: vec![("spec.defaultProviderConfigRef", provider)],
        ..world()
    };
    let plan = plan(
        &settings(json!({ "defaultProviderConfigRef": { "name": "rack" } })),
        &world,
        at(1),
    );
    insta::assert_snapshot!(told(&plan), @r#"
    NamespaceReady=True Ready
    Configured=False ConfigError: spec.defaultProviderConfigRef: butler-system/rack does not exist; create it or correct the reference
    FeaturesAvailable=True Ready
    status.clusterCount: 3
    status.controlPlaneExposureMode: "LoadBalancer"
    status.tcpProxyRequired: false
    status.teamCount: 2
    apply Namespace butler-tenants
    Warning ConfigError: spec.defaultProviderConfigRef: butler-system/rack does not exist; create it or correct the reference
    "#);
}

#[test]
fn an_image_factory_that_clusters_ask_nothing_of_is_told_to_have_no_effect() {
    let factory = json!({ "url": "https://factory.example.com", "autoSync": false });
    let finding = features(&settings(json!({ "imageFactory": factory })));
    insta::assert_snapshot!(finding.message, @"spec.imageFactory: without effect while autoSync is false; machines boot the images that os.imageRef or their ProviderConfig name");
}

#[test]
fn features_that_are_not_there_yet_are_named() {
    let spec = json!({
        "gitProvider": { "type": "github", "secretRef": { "name": "git" } },
        "imageFactory": { "url": "https://factory.example.com" },
        "defaultAddonVersions": { "cilium": "1.16.0" },
        "audit": {}, "notifications": {}, "observability": {},
    });
    let plan = plan(&settings(spec), &world(), at(1));
    insta::assert_snapshot!(told(&plan), @r#"
    NamespaceReady=True Ready
    Configured=True ConfigValid
    FeaturesAvailable=False NotYetImplemented: spec.defaultAddonVersions, spec.gitProvider, spec.audit, spec.notifications, spec.observability: kept, but without effect in this version; spec.imageFactory: clusters ask for its images by ImageSyncs and wait for them; to bring images to a provider, that provider's image controller must be installed, which is no part of this version
    status.clusterCount: 3
    status.controlPlaneExposureMode: "LoadBalancer"
    status.tcpProxyRequired: false
    status.teamCount: 2
    apply Namespace butler-tenants
    "#);
}

#[test]
fn clusters_behind_a_gateway_or_an_ingress_need_the_proxy() {
    for (mode, required) in [
        ("LoadBalancer", false),
        ("Ingress", true),
        ("Gateway", true),
    ] {
        let plan = plan(
            &settings(json!({ "controlPlaneExposure": { "mode": mode } })),
            &world(),
            at(1),
        );
        assert_eq!(plan.status.tcp_proxy_required, Some(required), "{mode}");
        assert_eq!(json!(plan.status.control_plane_exposure_mode), mode);
    }
}

#[test]
fn more_clusters_than_a_number_can_hold_are_as_many_as_it_can() {
    let plan = plan(
        &settings(json!({})),
        &World {
            clusters: usize::MAX,
            ..world()
        },
        at(1),
    );
    assert_eq!(plan.status.cluster_count, Some(i32::MAX));
}

fn any_settings() -> impl Strategy<Value = ButlerConfig> {
    let mode = prop::option::of(prop::sample::select(vec![
        "Enforced", "Optional", "Disabled",
    ]));
    let namespace = prop::sample::select(vec![
        "butler-tenants",
        "kube-system",
        "playground",
        "NO",
        "",
    ]);
    let name = prop::sample::select(vec!["butler", "another"]);
    let exposure = prop::option::of(prop::sample::select(vec![
        "LoadBalancer",
        "Ingress",
        "Gateway",
    ]));
    (name, mode, namespace, exposure, any::<bool>(), 1..4_i64).prop_map(
        |(name, mode, namespace, exposure, audit, generation)| {
            let mut spec = json!({ "defaultNamespace": namespace });
            if let Some(mode) = mode {
                spec["multiTenancy"] = json!({ "mode": mode });
            }
            if let Some(exposure) = exposure {
                spec["controlPlaneExposure"] = json!({ "mode": exposure });
            }
            if audit {
                spec["audit"] = json!({});
            }
            let mut config = settings_named(name, spec);
            config.metadata.generation = Some(generation);
            config
        },
    )
}

fn any_world() -> impl Strategy<Value = World> {
    let states = vec![
        NamespaceState::Absent,
        NamespaceState::Present,
        NamespaceState::Terminating,
    ];
    (
        0..3_usize,
        0..3_usize,
        prop::sample::select(states),
        any::<bool>(),
    )
        .prop_map(|(teams, clusters, namespace, missing)| {
            let missing = missing.then(|| {
                (
                    "spec.gitProvider.secretRef",
                    ObjectKey::namespaced("butler-system", "git"),
                )
            });
            World {
                teams,
                clusters,
                namespace,
                missing: missing.into_iter().collect(),
            }
        })
}

proptest! {
    #[test]
    fn planning_again_says_the_same(config in any_settings(), earlier in any_world(), now in any_world()) {
        let mut config = config;
        config.status = Some(plan(&config, &earlier, at(1)).status);
        let first = plan(&config, &now, at(100));
        config.status = Some(first.status.clone());
        prop_assert_eq!(plan(&config, &now, at(10_000)), first);
    }

    #[test]
    fn nothing_is_applied_for_settings_that_are_refused(config in any_settings(), world in any_world()) {
        let plan = plan(&config, &world, at(1));
        for manifest in &plan.apply {
            prop_assert!(!is_reserved(&manifest.key.name));
            prop_assert!(config.name_any() == names::BUTLER_CONFIG);
            prop_assert!(world.namespace != NamespaceState::Terminating);
        }
        for condition in plan.status.conditions.iter().filter(|condition| condition.status != "True") {
            prop_assert!(!condition.message.is_empty(), "{} says why", condition.type_);
        }
    }
}

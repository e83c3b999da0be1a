use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::tenant_port::TenantState;

/// What a look finds once the inside of the tenant is as it shall be.
fn in_step(control_plane: &TenantControlPlane, world: &World) -> World {
    let mut world = World {
        tenant: Some(TenantState::default()),
        ..world.clone()
    };
    let plan = look(control_plane, &world);
    let configured = plan.effects.iter().find_map(|effect| match effect {
        Effect::ConfigureTenant { fingerprint } => Some(fingerprint.clone()),
        _ => None,
    });
    world.tenant = Some(TenantState {
        configured: Some(configured.unwrap()),
        ..TenantState::default()
    });
    world
}

fn with_addons(addons: &Value) -> TenantControlPlane {
    control_plane_with(json!({ "addons": addons }))
}

/// Keys are new in each run, and so are fingerprints of what depends on them.
fn hide_checksums(value: &mut Value) {
    let Value::Object(members) = value else {
        return;
    };
    for (name, member) in members {
        if name == "checksum" {
            assert!(member.as_str().is_some_and(|text| !text.is_empty()));
            *member = "some".into();
        }
        hide_checksums(member);
    }
}

#[test]
fn addons_are_shown_when_they_are_in_the_tenant() {
    let all = json!({ "coreDNS": {}, "kubeProxy": {}, "konnectivity": {} });
    let (control_plane, world, _) = ready(with_addons(&all));
    let addons = control_plane.status.clone().unwrap().addons.unwrap();
    assert_eq!(addons.core_dns, None, "nobody has looked into the tenant");
    let world = in_step(&control_plane, &world);
    let plan = look(&control_plane, &world);
    let mut told = json!({
        "addons": plan.status.addons,
        "kubeadmconfig": plan.status.kubeadm_config,
        "kubeadmPhase": plan.status.kubeadm_phase,
    });
    hide_checksums(&mut told);
    insta::assert_yaml_snapshot!(told, @r#"
    addons:
      coreDNS:
        enabled: true
        lastUpdate: "2026-01-01T00:00:00Z"
      konnectivity:
        agent:
          lastUpdate: "2026-01-01T00:00:00Z"
          mode: DaemonSet
          name: konnectivity-agent
          namespace: kube-system
        clusterrolebinding:
          lastUpdate: "2026-01-01T00:00:00Z"
          name: "system:konnectivity-server"
        configMap:
          checksum: some
          name: shop-konnectivity-egress-selector-configuration
        enabled: true
        kubeconfig:
          checksum: some
          lastUpdate: "2026-01-01T00:00:00Z"
          secretName: shop-konnectivity-kubeconfig
        sa:
          lastUpdate: "2026-01-01T00:00:00Z"
          name: konnectivity-agent
          namespace: kube-system
        service:
          loadBalancer:
            ingress:
              - ip: 192.0.2.4
          name: shop
          namespace: payments
          port: 8132
      kubeProxy:
        enabled: true
        lastUpdate: "2026-01-01T00:00:00Z"
    kubeadmPhase:
      bootstrapToken:
        checksum: some
        lastUpdate: "2026-01-01T00:00:00Z"
    kubeadmconfig:
      checksum: some
      configmapName: kubeadm-config
      lastUpdate: "2026-01-01T00:00:00Z"
    "#);
}

#[test]
fn another_look_at_a_tenant_at_rest_shows_the_same() {
    let all = json!({ "coreDNS": {}, "kubeProxy": {}, "konnectivity": {} });
    let (control_plane, world, _) = ready(with_addons(&all));
    let world = in_step(&control_plane, &world);
    let control_plane = after(control_plane.clone(), &look(&control_plane, &world));
    let later = now() + SignedDuration::from_hours(1);
    let plan = plan(&control_plane, &world, &Settings::default(), later);
    assert_eq!(Some(&plan.status), control_plane.status.as_ref());
    // A new process has not looked yet, and what was shown stays.
    let world = World {
        tenant: Some(TenantState::default()),
        ..world
    };
    let plan = look(&control_plane, &world);
    let before = control_plane.status.unwrap();
    assert_eq!(plan.status.addons, before.addons);
    assert_eq!(plan.status.kubeadm_phase, before.kubeadm_phase);
}

#[test]
fn an_addon_that_is_gone_is_shown_as_gone_and_one_that_never_was_is_not_shown() {
    let (mut control_plane, world, _) = ready(with_addons(&json!({ "coreDNS": {} })));
    let known = in_step(&control_plane, &world);
    control_plane = after(control_plane.clone(), &look(&control_plane, &known));
    control_plane.spec.addons.core_dns = None;
    let later = now() + SignedDuration::from_hours(1);
    let known = in_step(&control_plane, &world);
    let plan = plan(&control_plane, &known, &Settings::default(), later);
    insta::assert_yaml_snapshot!(plan.status.addons, @r#"
    coreDNS:
      enabled: false
      lastUpdate: "2026-01-01T01:00:00Z"
    "#);
}

#[test]
fn the_service_shows_what_its_load_balancer_says() {
    let (control_plane, mut world, _) = ready(control_plane("LoadBalancer"));
    let condition = json!({
        "type": "LoadBalancerPortsError", "status": "False", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let condition: Condition = serde_json::from_value(condition).unwrap();
    world.service.as_mut().unwrap().conditions = vec![condition.clone()];
    let resources = look(&control_plane, &world).status.kubernetes_resources;
    assert_eq!(resources.unwrap().service.unwrap().conditions, [condition]);
}

#[test]
fn in_an_upgrade_addons_follow_the_last_api_server_and_rights_go_ahead_of_the_first() {
    let versions = json!({ "kubernetes": { "version": "v1.35.4", "kubelet": {} }, "addons": { "kubeProxy": {} } });
    let (mut control_plane, world, _) = ready(control_plane_with(versions));
    control_plane.spec.kubernetes.version = "v1.36.3".to_owned();
    let fingerprint = |control_plane: &TenantControlPlane| {
        let plan = look(control_plane, &in_step(control_plane, &world));
        assert_eq!(
            plan.effects
                .iter()
                .filter(|effect| matches!(effect, Effect::ConfigureTenant { .. }))
                .count(),
            0
        );
        let facts = crate::tenants::facts_of(
            control_plane,
            world.service.as_ref(),
            "192.0.2.4:6443".parse().unwrap(),
            "PEM",
            &Settings::default(),
        )
        .unwrap();
        (
            facts.version.to_string(),
            facts.serving_version.to_string(),
            in_step(control_plane, &world).tenant,
        )
    };
    let (version, serving, rolling) = fingerprint(&control_plane);
    assert_eq!((version.as_str(), serving.as_str()), ("v1.36.3", "v1.35.4"));
    let status = control_plane.status.as_mut().unwrap();
    let resources = status.kubernetes_resources.as_mut().unwrap();
    resources.version.as_mut().unwrap().version = Some("v1.36.3".to_owned());
    let (version, serving, rolled_out) = fingerprint(&control_plane);
    assert_eq!((version.as_str(), serving.as_str()), ("v1.36.3", "v1.36.3"));
    assert_ne!(rolling, rolled_out, "the tenant is looked at again");
}

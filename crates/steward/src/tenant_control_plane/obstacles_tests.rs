//! What is in the way of one part of a tenant, and what waits for that: nothing that does not need this part.

use std::collections::BTreeMap;

use butler_api::keys::annotations;
use pretty_assertions::assert_eq;
use serde_json::json;
use steward_tenant::TenantPart;

use super::*;
use crate::{
    secrets::{Recipe, Step},
    tenant_port::TenantState,
};

/// The pods run with what the Secrets hold.
fn roll_out(world: &mut World, memory: &Memory) {
    world.secrets = memory.seen();
    let checksum = |role| world.secrets[&role].value.checksum.clone();
    let trust =
        [SecretRole::Authority, SecretRole::AdminKubeconfig].map(|role| (role, checksum(role)));
    world.deployment.as_mut().unwrap().trust = trust.into();
}

/// The tenant is brought in step, as far as it goes.
fn in_step_but_for(
    control_plane: &TenantControlPlane,
    world: &mut World,
    obstacles: &[(TenantPart, &str)],
) {
    let effects = look(control_plane, world).effects;
    let wanted = effects.into_iter().find_map(|effect| match effect {
        Effect::ConfigureTenant { fingerprint } => Some(fingerprint),
        _ => None,
    });
    let known = world.tenant.clone().unwrap_or_default().configured;
    let obstacles = obstacles.iter();
    world.tenant = Some(TenantState {
        configured: wanted.or(known),
        obstacles: obstacles
            .map(|(part, why)| (*part, (*why).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        problem: None,
    });
}

fn steps(control_plane: &TenantControlPlane, world: &World) -> Vec<Step> {
    let effects = look(control_plane, world).effects;
    let orders = effects.into_iter().filter_map(|effect| match effect {
        Effect::Issue { orders, .. } => Some(orders),
        _ => None,
    });
    let steps = orders.flatten().filter_map(|order| match order.recipe {
        Recipe::Rotate(step) => Some(step),
        _ => None,
    });
    steps.collect()
}

#[test]
fn a_new_authority_waits_for_what_nodes_find_the_cluster_by_and_for_no_other_part() {
    let (control_plane, mut world, memory) = ready(control_plane("LoadBalancer"));
    world.tenant = Some(TenantState::default());
    let key = Names::of(&control_plane).secret(SecretRole::Authority);
    let mut body = memory.remove(&key).unwrap();
    body["metadata"]["annotations"][annotations::STEWARD_ROTATE] = "".into();
    memory.put(body);
    world.secrets = memory.seen();
    assert_eq!(steps(&control_plane, &world), [Step::Introduce]);
    for _ in 0..2 {
        issued(&control_plane, &look(&control_plane, &world), &memory);
        roll_out(&mut world, &memory);
    }
    assert_eq!(
        steps(&control_plane, &world),
        [],
        "the tenant knows nothing of it yet"
    );
    let own = (TenantPart::KubeProxy, "somebody else made it");
    let lost = (TenantPart::Bootstrap, "the tenant refuses it");
    in_step_but_for(&control_plane, &mut world, &[own, lost]);
    assert_eq!(
        steps(&control_plane, &world),
        [],
        "nodes would not find the cluster"
    );
    in_step_but_for(&control_plane, &mut world, &[own]);
    assert_eq!(steps(&control_plane, &world), [Step::Promote]);
    let plan = look(&control_plane, &world);
    let conditions = plan.status.conditions;
    let told = conditions
        .iter()
        .find(|told| told.type_ == types::TENANT_CONFIGURED);
    let told = told.map(|told| (told.status.as_str(), told.message.as_str()));
    assert_eq!(told, Some(("False", "kube-proxy: somebody else made it")));
}

#[test]
fn a_tenant_that_was_in_step_with_the_authorities_of_before_does_not_count_as_told() {
    let (control_plane, mut world, memory) = ready(control_plane("LoadBalancer"));
    world.tenant = Some(TenantState::default());
    in_step_but_for(&control_plane, &mut world, &[]);
    let key = Names::of(&control_plane).secret(SecretRole::Authority);
    let mut body = memory.remove(&key).unwrap();
    body["metadata"]["annotations"][annotations::STEWARD_ROTATE] = "".into();
    memory.put(body);
    world.secrets = memory.seen();
    for _ in 0..2 {
        issued(&control_plane, &look(&control_plane, &world), &memory);
        roll_out(&mut world, &memory);
    }
    // Nobody could enter it yet, so that what is known of it is what was known before.
    assert!(world.tenant.as_ref().unwrap().configured.is_some());
    assert_eq!(steps(&control_plane, &world), []);
}

#[test]
fn what_is_in_the_tenant_is_shown_but_for_the_part_that_has_an_obstacle() {
    let addons = json!({ "addons": { "coreDNS": {}, "kubeProxy": {} } });
    let (control_plane, mut world, _) = ready(control_plane_with(addons));
    world.tenant = Some(TenantState::default());
    let own = (TenantPart::KubeProxy, "somebody else made it");
    in_step_but_for(&control_plane, &mut world, &[own]);
    let status = look(&control_plane, &world).status;
    let addons = status.addons.unwrap();
    assert!(addons.core_dns.is_some_and(|addon| addon.enabled));
    assert_eq!(addons.kube_proxy, None, "it is not ours");
    assert!(status.kubeadm_config.is_some() && status.kubeadm_phase.is_some());
}

//! Time passes: certificates and authorities are renewed when their hour comes.

use butler_api::keys::{annotations, labels};
use butler_runtime::object::Kind;
use butler_testkit::simulator::{Deed, Failed, Moment, Simulation, for_seeds};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use steward::names::SecretRole;

use crate::{
    cast::{STEPS, assert_at_rest, assert_ready, create_deed, found, seeds, store_deed, world},
    scene::{self, here},
};

/// More than two thirds of a certificate's life.
const MONTHS: SignedDuration = SignedDuration::from_hours(24 * 250);
/// A little less is left of an authority's life than a year and a quarter.
const NEARLY_TEN_YEARS: SignedDuration = SignedDuration::from_hours(24 * (3650 - 450));
/// More than the life of a certificate.
const YEAR: SignedDuration = SignedDuration::from_hours(24 * 366);
/// What lives longer than certificates.
const ROOTS: [SecretRole; 3] = [
    SecretRole::Authority,
    SecretRole::FrontProxyAuthority,
    SecretRole::ServiceAccount,
];
/// What ends within a year and is in the pods.
const MOUNTED: [SecretRole; 6] = [
    SecretRole::ApiServer,
    SecretRole::KubeletClient,
    SecretRole::FrontProxyClient,
    SecretRole::ControllerManagerKubeconfig,
    SecretRole::SchedulerKubeconfig,
    SecretRole::StoreCertificate,
];

fn secret(simulation: &Simulation, role: SecretRole) -> Value {
    let key = here(&format!("shop-{role}"));
    found(simulation, &scene::secrets(), &key)
}

fn contents<const COUNT: usize>(
    simulation: &Simulation,
    roles: [SecretRole; COUNT],
) -> [Value; COUNT] {
    roles.map(|role| secret(simulation, role)["data"].clone())
}

#[test]
fn certificates_are_renewed_when_their_hour_comes_and_the_pods_follow() {
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        let generator = json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "KubeconfigGenerator",
            "metadata": { "name": "monitoring" },
            "spec": {
                "user": { "stringValue": "monitoring" }, "controlPlaneEndpointFrom": "admin.svc",
            },
        });
        let generator = Deed::create(scene::generators(), generator);
        simulation.user("bob", vec![(Moment::Anytime, generator)]);
        simulation.run(STEPS)?;
        let kubeconfig = here("shop-monitoring");
        let given = |simulation: &Simulation| {
            found(simulation, &scene::secrets(), &kubeconfig)["data"].clone()
        };
        let admin = [SecretRole::AdminKubeconfig];
        let before = (
            contents(&simulation, ROOTS),
            contents(&simulation, MOUNTED),
            contents(&simulation, admin),
            given(&simulation),
        );

        let later = simulation.store().now().checked_add(MONTHS).unwrap();
        simulation.store_mut().advance(later);
        simulation.run(STEPS)?;
        assert_eq!(contents(&simulation, ROOTS), before.0);
        for (new, old) in contents(&simulation, MOUNTED).iter().zip(&before.1) {
            assert_ne!(new, old, "{}", simulation.log().tail(60));
        }
        assert_ne!(contents(&simulation, admin), before.2);
        assert_ne!(given(&simulation), before.3);
        assert_ready(&simulation, "shop");
        let deployment = found(&simulation, &Kind::of::<Deployment>(), &here("shop"));
        let pods = &deployment["spec"]["template"]["metadata"]["labels"];
        for role in MOUNTED {
            let prefix = labels::STEWARD_COMPONENT_CHECKSUM_PREFIX;
            let label = format!("{prefix}{}", role.checksum_label());
            let notes = &secret(&simulation, role)["metadata"]["annotations"];
            assert_eq!(pods[label], notes[annotations::STEWARD_CHECKSUM], "{role}");
        }
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn authorities_are_replaced_before_they_end_and_nobody_has_to_ask() {
    const AUTHORITIES: [SecretRole; 2] = [SecretRole::Authority, SecretRole::FrontProxyAuthority];
    for_seeds(seeds(), |seed| {
        let (mut simulation, _) = world(seed);
        simulation.user("operator", vec![store_deed()]);
        simulation.user("alice", vec![create_deed("shop", json!({}))]);
        simulation.run(STEPS)?;
        let old = contents(&simulation, AUTHORITIES);
        let wait = |simulation: &mut Simulation, time: SignedDuration| {
            let later = simulation.store().now().checked_add(time).unwrap();
            simulation.store_mut().advance(later);
            simulation.run(STEPS)
        };
        wait(&mut simulation, NEARLY_TEN_YEARS)?;
        let new = contents(&simulation, AUTHORITIES);
        for (new, old) in new.iter().zip(&old) {
            assert_ne!(new, old, "{}", simulation.log().tail(60));
            assert_eq!(new.get("next.key"), None, "the new one signs");
        }
        assert_ready(&simulation, "shop");
        wait(&mut simulation, YEAR)?;
        for (last, new) in contents(&simulation, AUTHORITIES).iter().zip(&new) {
            assert_ne!(last, new, "the old one is no longer trusted");
        }
        assert_ready(&simulation, "shop");
        assert_at_rest(&mut simulation)?;
        Ok::<(), Failed>(())
    })
    .unwrap();
}

//! Machines whose systems cannot read bootstrap data as it is: Butler writes what they read, whatever the order of events.

use butler_api::{butler::machine_request::MachineRequest, keys::names};
use butler_runtime::object::ObjectKey;
use butler_testkit::simulator::{
    Deed, Failed, Moment, ObjectStore, Operation, Simulation, for_seeds,
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    orders::{
        STEPS, assert_at_rest, assert_nothing_left, cluster_deeds, delete_cluster, machine_deeds,
        ready, world,
    },
    scene::{self, here},
};
use crate::scene::{object, secret_kind};

const TOKEN: &str = "abcdef.0123456789abcdef";

/// What the kubeadm provider writes for a worker, as far as it matters here, and a command.
fn cloud_config(command: &str) -> String {
    format!(
        r"## template: jinja
#cloud-config
write_files:
-   path: /run/kubeadm/kubeadm-join-config.yaml
    content: |
      ---
      discovery:
        bootstrapToken:
          apiServerEndpoint: 192.0.2.10:6443
          token: {TOKEN}
      nodeRegistration:
        name: '{{{{ ds.meta_data.local_hostname }}}}'
        kubeletExtraArgs:
        - name: provider-id
          value: butler-local://{{{{ ds.meta_data.instance_id }}}}
runcmd:
  - {command}
"
    )
}

const JOIN: &str =
    "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > /run/done";

fn encoded(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

fn secret(name: &str, data: &Value) -> Value {
    object(&secret_kind(), &here(name), json!({ "data": data }))
}

fn bootstrap_data(command: &str) -> Value {
    json!({ "value": encoded(&cloud_config(command)), "format": encoded("cloud-config") })
}

/// Somebody makes a machine with Bottlerocket; its bootstrap data and the authority of its cluster come when they come.
fn deeds(name: &'static str, command: &str) -> Vec<(Moment, Deed)> {
    let mut deeds = machine_deeds(name);
    let mut machine = scene::butler_machine(name);
    machine["spec"]["userDataFormat"] = json!("bottlerocket");
    deeds[0].1 = Deed::create(scene::butler_machine_kind(), machine);
    let data = secret(&format!("{name}-data"), &bootstrap_data(command));
    deeds.push((Moment::Anytime, Deed::create(secret_kind(), data)));
    deeds
}

fn authority() -> (Moment, Deed) {
    let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let data = json!({ "tls.crt": encoded(certificate), "tls.key": encoded("hidden") });
    let create = Deed::create(secret_kind(), secret("shop-ca", &data));
    (Moment::Anytime, create)
}

/// A world in which no machine is asked for that could not be told what to do.
fn told_world(seed: u64) -> (Simulation, super::cast::Machines) {
    let (mut simulation, machines) = world(seed);
    simulation.invariant(
        "what a machine shall read is there before it is asked for",
        |store| {
            let requests = store.all::<MachineRequest>().unwrap();
            let untold = requests.iter().find(|request| {
                let named = request.spec.user_data_secret_ref.as_ref();
                let key = here(named.map_or("", |named| &named.name));
                request.metadata.deletion_timestamp.is_none()
                    && store.get(&secret_kind(), &key).is_none()
            });
            untold.map_or(Ok(()), |request| Err(request.name_any()))
        },
    );
    (simulation, machines)
}

fn user_data(store: &ObjectStore, name: &str) -> Option<String> {
    let key = here(&format!("{name}{}", names::USER_DATA_SUFFIX));
    let body = store.get(&secret_kind(), &key)?;
    let secret: Secret = serde_json::from_value(body.as_ref().clone()).unwrap();
    let value = secret.data.unwrap().remove("value").unwrap();
    Some(String::from_utf8(value.0).unwrap())
}

fn uid(store: &ObjectStore, key: &ObjectKey) -> String {
    let machine = store.get(&scene::butler_machine_kind(), key).unwrap();
    machine["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// The machine was told by Butler how to join and who it is, and Cluster API knows it by the same.
fn assert_told(simulation: &Simulation, name: &str) {
    let store = simulation.store();
    let log = || simulation.log().tail(60);
    assert_eq!(ready(store, name), "True Ready", "{}", log());
    let identity = format!("butler-local://{}", uid(store, &here(name)));
    let owner = store.get(&scene::machine_kind(), &here(name)).unwrap();
    assert_eq!(owner["spec"]["providerID"], identity, "{}", log());
    let settings = user_data(store, name).unwrap();
    for line in [
        format!("provider-id = \"{identity}\""),
        format!("hostname-override = \"{name}\""),
        format!("bootstrap-token = \"{TOKEN}\""),
    ] {
        assert!(settings.contains(&line), "{line}\n{settings}");
    }
    assert!(!log().to_string().contains(TOKEN), "{}", log());
}

#[test]
fn a_machine_is_told_in_its_own_language_before_it_is_asked_for_whatever_happens_on_the_way() {
    for_seeds(0..200, |seed| {
        let (mut simulation, machines) = told_world(seed);
        simulation.user("tenant", cluster_deeds());
        simulation.user("steward", vec![authority()]);
        simulation.user("first", deeds("shop-1", JOIN));
        let mut second = deeds("shop-2", JOIN);
        second.push((
            Moment::Anytime,
            Deed::delete(scene::machine_kind(), here("shop-2")),
        ));
        simulation.user("second", second);
        simulation.run(STEPS)?;
        assert_told(&simulation, "shop-1");
        assert_eq!(machines.borrow().len(), 1, "the second is gone");
        assert_eq!(user_data(simulation.store(), "shop-2"), None);
        assert_at_rest(&mut simulation)?;
        delete_cluster(&mut simulation);
        simulation.run(STEPS)?;
        assert_nothing_left(&simulation, &machines);
        assert_eq!(user_data(simulation.store(), "shop-1"), None);
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn a_machine_that_cannot_be_told_what_to_do_waits_until_somebody_corrects_it() {
    for_seeds(0..60, |seed| {
        let (mut simulation, machines) = told_world(seed);
        simulation.user("tenant", cluster_deeds());
        simulation.user("steward", vec![authority()]);
        simulation.user("first", deeds("shop-1", "reboot"));
        simulation.run(STEPS)?;
        let said = ready(simulation.store(), "shop-1");
        assert_eq!(said, "False BootstrapDataUnusable");
        assert!(machines.borrow().is_empty(), "no machine is made in vain");
        assert_at_rest(&mut simulation)?;
        let correct = json!({ "data": bootstrap_data(JOIN) });
        let correct = Operation::Merge(secret_kind(), here("shop-1-data"), correct);
        simulation.store_mut().perform("tenant", correct).unwrap();
        simulation.run(STEPS)?;
        assert_told(&simulation, "shop-1");
        Ok::<(), Failed>(())
    })
    .unwrap();
}

#[test]
fn user_data_of_the_same_name_that_is_somebody_elses_is_left_alone() {
    for_seeds(0..60, |seed| {
        let (mut simulation, _) = told_world(seed);
        let name = format!("shop-1{}", names::USER_DATA_SUFFIX);
        let theirs = secret(&name, &json!({ "value": encoded("theirs") }));
        let create = Operation::create(secret_kind(), theirs);
        simulation.store_mut().perform("meddler", create).unwrap();
        simulation.user("tenant", cluster_deeds());
        simulation.user("steward", vec![authority()]);
        simulation.user("first", deeds("shop-1", JOIN));
        simulation.run(STEPS)?;
        assert_eq!(ready(simulation.store(), "shop-1"), "False NameTaken");
        let kept = user_data(simulation.store(), "shop-1");
        assert_eq!(kept.as_deref(), Some("theirs"));
        let delete = Operation::delete(secret_kind(), here(&name));
        simulation.store_mut().perform("meddler", delete).unwrap();
        simulation.run(STEPS)?;
        assert_told(&simulation, "shop-1");
        Ok::<(), Failed>(())
    })
    .unwrap();
}

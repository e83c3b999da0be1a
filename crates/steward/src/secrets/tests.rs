use std::collections::BTreeSet;

use butler_api::{
    keys::{annotations, labels},
    steward::tenant_control_plane::TenantControlPlane,
    version::KubernetesVersion,
};
use butler_pki::{Authority, Validity, inspect};
use jiff::{SignedDuration, Timestamp};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Content, Order, Review, issue,
    issue::{bytes, files},
    review, wanted,
};
use crate::{
    names::{Names, SecretRole},
    settings::Settings,
    testing::{Memory, OneKey, control_plane, control_plane_with, now, service_at},
};

/// A control plane and its Secrets.
struct Place {
    control_plane: TenantControlPlane,
    address: &'static str,
    memory: Memory,
    time: Timestamp,
    settled: bool,
}

impl Place {
    fn new(control_plane: TenantControlPlane) -> Self {
        Self {
            control_plane,
            address: "192.0.2.4",
            memory: Memory::default(),
            time: now(),
            settled: true,
        }
    }

    fn look(&self) -> Review {
        let spoken: KubernetesVersion = self.control_plane.spec.kubernetes.version.parse().unwrap();
        let service = service_at(self.address);
        let wanted = wanted(
            &self.control_plane,
            &spoken,
            Some(&service),
            &Settings::default(),
        );
        review(&wanted, &self.memory.seen(), self.settled, self.time)
    }

    /// Does what one look asks for, and says what that was.
    async fn pass(&self) -> Vec<String> {
        let orders = self.look().orders;
        let names = Names::of(&self.control_plane);
        issue(&names, &orders, self.time, &OneKey, &self.memory)
            .await
            .unwrap();
        told(&orders)
    }

    fn key(&self, role: SecretRole) -> butler_runtime::object::ObjectKey {
        Names::of(&self.control_plane).secret(role)
    }

    fn later(&mut self, days: i64) {
        self.time = self
            .time
            .checked_add(SignedDuration::from_hours(24 * days))
            .unwrap();
    }

    fn annotate(&self, role: SecretRole, annotation: &str, value: &str) {
        let mut body = self.memory.remove(&self.key(role)).unwrap();
        body["metadata"]["annotations"][annotation] = value.into();
        self.memory.put(body);
    }

    fn certificate(&self, role: SecretRole) -> butler_pki::CertificateFacts {
        match &self.memory.seen()[&role].value.content {
            Content::Pair(Ok(pair)) => pair.facts.clone(),
            other => panic!("{role} holds {other:?}"),
        }
    }
}

fn told(orders: &[Order]) -> Vec<String> {
    orders
        .iter()
        .map(|order| format!("{} {}", order.role, order.reason))
        .collect()
}

#[tokio::test]
async fn a_new_control_plane_gets_every_secret_under_its_well_known_names() {
    let place = Place::new(control_plane_with(json!({
        "controlPlane": {
            "service": { "serviceType": "ClusterIP" },
            "ingress": { "hostname": "shop.k8s.example.com" },
        },
        "addons": { "konnectivity": {} },
    })));
    place.pass().await;
    let bodies = SecretRole::ALL
        .iter()
        .filter_map(|role| place.memory.body(&place.key(*role)));
    let keys: Vec<_> = bodies
        .map(|body| {
            let keys: Vec<_> = body["data"].as_object().unwrap().keys().cloned().collect();
            format!(
                "{}: {}",
                body["metadata"]["name"].as_str().unwrap(),
                keys.join(" ")
            )
        })
        .collect();
    insta::assert_snapshot!(keys.join("\n"), @"
    shop-ca: ca.crt ca.key tls.crt tls.key
    shop-front-proxy-ca-certificate: front-proxy-ca.crt front-proxy-ca.key
    shop-sa-certificate: sa.key sa.pub
    shop-api-server-certificate: apiserver.crt apiserver.key
    shop-api-server-kubelet-client-certificate: apiserver-kubelet-client.crt apiserver-kubelet-client.key
    shop-front-proxy-client-certificate: front-proxy-client.crt front-proxy-client.key
    shop-admin-kubeconfig: admin.conf admin.svc super-admin.conf super-admin.svc
    shop-controller-manager-kubeconfig: controller-manager.conf
    shop-scheduler-kubeconfig: scheduler.conf
    shop-konnectivity-certificate: tls.crt tls.key
    shop-konnectivity-kubeconfig: konnectivity-server.conf
    ");
    assert_eq!(place.pass().await, [""; 0], "what is good is left alone");
}

#[tokio::test]
async fn secrets_carry_the_labels_that_others_find_them_by() {
    let place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    let body = place
        .memory
        .body(&place.key(SecretRole::AdminKubeconfig))
        .unwrap();
    let metadata = &body["metadata"];
    insta::assert_yaml_snapshot!(metadata["labels"], @"
    steward.butlerlabs.dev/certificate_lifecycle_controller: kubeconfig
    steward.butlerlabs.dev/component: admin-kubeconfig
    steward.butlerlabs.dev/name: shop
    steward.butlerlabs.dev/project: steward
    ");
    assert_eq!(metadata["ownerReferences"][0]["kind"], "TenantControlPlane");
}

#[tokio::test]
async fn certificates_say_who_they_are_for_and_live_a_year_from_now() {
    let place = Place::new(control_plane_with(json!({
        "kubernetes": { "version": "v1.35.4", "kubelet": {} },
    })));
    place.pass().await;
    let kubelet = place.certificate(SecretRole::KubeletClient);
    assert_eq!(kubelet.common_name, "kube-apiserver-kubelet-client");
    assert_eq!(
        kubelet.organizations,
        BTreeSet::from(["kubeadm:cluster-admins".to_owned()])
    );
    let year = SignedDuration::from_hours(365 * 24);
    assert_eq!(kubelet.not_after, place.time.checked_add(year).unwrap());
    let serving = place.certificate(SecretRole::ApiServer);
    assert!(serving.ip_addresses.contains(&"192.0.2.4".parse().unwrap()));
    assert!(serving.dns_names.contains("shop.payments.svc"));
    let Content::Kubeconfigs(admin) = &place.memory.seen()[&SecretRole::AdminKubeconfig]
        .value
        .content
    else {
        panic!("no kubeconfigs");
    };
    let told: Vec<_> = admin
        .iter()
        .map(|(key, facts)| {
            let facts = facts.as_ref().unwrap();
            let groups: Vec<_> = facts.facts.organizations.iter().cloned().collect();
            format!(
                "{key}: {} of {} at {}",
                facts.facts.common_name,
                groups.join(","),
                facts.server
            )
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @"
    admin.conf: kubernetes-admin of kubeadm:cluster-admins at https://192.0.2.4:6443
    admin.svc: kubernetes-admin of kubeadm:cluster-admins at https://shop.payments.svc:6443
    super-admin.conf: kubernetes-super-admin of system:masters at https://192.0.2.4:6443
    super-admin.svc: kubernetes-super-admin of system:masters at https://shop.payments.svc:6443
    ");
}

#[tokio::test]
async fn from_1_36_on_kubelets_know_the_api_server_by_name_alone() {
    let place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    assert!(
        place
            .certificate(SecretRole::KubeletClient)
            .organizations
            .is_empty()
    );
}

#[tokio::test]
async fn a_deleted_secret_is_made_again() {
    for role in [
        SecretRole::ServiceAccount,
        SecretRole::ApiServer,
        SecretRole::KubeletClient,
        SecretRole::FrontProxyClient,
        SecretRole::AdminKubeconfig,
        SecretRole::ControllerManagerKubeconfig,
        SecretRole::SchedulerKubeconfig,
    ] {
        let place = Place::new(control_plane("LoadBalancer"));
        place.pass().await;
        place.memory.remove(&place.key(role));
        assert_eq!(place.pass().await, [format!("{role} is missing")]);
        assert_eq!(place.pass().await, [""; 0]);
    }
}

#[tokio::test]
async fn a_deleted_authority_takes_all_it_issued_with_it() {
    let place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    place.memory.remove(&place.key(SecretRole::Authority));
    insta::assert_snapshot!(place.pass().await.join("\n"), @"
    ca is missing
    api-server-kubelet-client-certificate gets a new authority
    controller-manager-kubeconfig gets a new authority
    scheduler-kubeconfig gets a new authority
    api-server-certificate gets a new authority
    admin-kubeconfig gets a new authority
    ");
    assert_eq!(place.pass().await, [""; 0], "one pass is enough");
}

#[tokio::test]
async fn certificates_are_renewed_before_they_expire_and_authorities_stay() {
    let mut place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    let renewal = place.look().renewal.unwrap();
    place.later(240);
    assert_eq!(place.pass().await, [""; 0]);
    place.later(5);
    assert!(renewal < place.time);
    let renewed: BTreeSet<_> = place
        .look()
        .orders
        .into_iter()
        .map(|order| order.role)
        .collect();
    place.pass().await;
    assert_eq!(renewed.len(), 6);
    assert!(!renewed.contains(&SecretRole::Authority));
    assert_eq!(place.pass().await, [""; 0]);
}

#[tokio::test]
async fn a_new_address_changes_what_speaks_of_it_and_nothing_else() {
    let mut place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    place.address = "192.0.2.5";
    insta::assert_snapshot!(place.pass().await.join("\n"), @"
    api-server-certificate lacks the names 192.0.2.5
    admin-kubeconfig leads to https://192.0.2.4:6443 instead of https://192.0.2.5:6443
    ");
    assert!(
        place
            .certificate(SecretRole::ApiServer)
            .ip_addresses
            .contains(&"192.0.2.5".parse().unwrap())
    );
}

#[tokio::test]
async fn what_is_asked_to_be_rotated_is_rotated_once() {
    let place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    let before = place.certificate(SecretRole::ApiServer).fingerprint;
    place.annotate(SecretRole::ApiServer, annotations::STEWARD_ROTATE, "");
    assert_eq!(
        place.pass().await,
        ["api-server-certificate is asked to be replaced"]
    );
    assert_ne!(place.certificate(SecretRole::ApiServer).fingerprint, before);
    let body = place
        .memory
        .body(&place.key(SecretRole::ApiServer))
        .unwrap();
    assert_eq!(
        body["metadata"]["annotations"][annotations::STEWARD_ROTATE],
        place.time.to_string()
    );
    assert_eq!(place.pass().await, [""; 0]);
}

#[tokio::test]
async fn a_paused_secret_stays_as_it_is_until_it_is_not_paused_any_more() {
    let mut place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    for role in [SecretRole::ApiServer, SecretRole::Authority] {
        place.annotate(role, annotations::STEWARD_PAUSED, "");
        place.annotate(role, annotations::STEWARD_ROTATE, "");
    }
    let before = place.memory.body(&place.key(SecretRole::ApiServer));
    place.address = "192.0.2.5";
    let review = place.look();
    assert_eq!(
        told(&review.orders),
        ["admin-kubeconfig leads to https://192.0.2.4:6443 instead of https://192.0.2.5:6443"],
        "what is not paused goes on, by the authority that stays"
    );
    insta::assert_snapshot!(review.paused.join("\n"), @"
    the Secret payments/shop-ca is due for the next step to another authority, and stays as it is: it is paused; remove its annotation steward.butlerlabs.dev/paused to have it made anew
    the Secret payments/shop-api-server-certificate is asked to be replaced, and stays as it is: it is paused; remove its annotation steward.butlerlabs.dev/paused to have it made anew
    ");
    place.pass().await;
    let after = place.memory.body(&place.key(SecretRole::ApiServer));
    assert_eq!(after, before);
    // What is not there cannot be left as it is.
    place.memory.remove(&place.key(SecretRole::ApiServer));
    assert_eq!(place.pass().await, ["api-server-certificate is missing"]);
}

#[tokio::test]
async fn the_authority_of_a_cluster_is_replaced_step_by_step() {
    let mut place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    let old = place.certificate(SecretRole::Authority).fingerprint;
    place.annotate(SecretRole::Authority, annotations::STEWARD_ROTATE, "");
    place.settled = false;
    assert_eq!(
        place.pass().await,
        ["ca gets one more authority, which is trusted from now on"]
    );
    assert_eq!(
        place.certificate(SecretRole::Authority).fingerprint,
        old,
        "the old one still signs"
    );
    insta::assert_snapshot!(place.pass().await.join("\n"), @"
    controller-manager-kubeconfig trusts another authority
    scheduler-kubeconfig trusts another authority
    admin-kubeconfig trusts another authority
    ");
    assert_eq!(
        place.pass().await,
        [""; 0],
        "it waits until all that runs trusts both"
    );
    place.settled = true;
    insta::assert_snapshot!(place.pass().await.join("\n"), @"
    ca signs with the new authority from now on
    api-server-kubelet-client-certificate gets a new authority
    controller-manager-kubeconfig gets a new authority
    scheduler-kubeconfig gets a new authority
    api-server-certificate gets a new authority
    admin-kubeconfig gets a new authority
    ");
    let new = place.certificate(SecretRole::Authority).fingerprint;
    assert_ne!(new, old);
    assert_eq!(
        place.pass().await,
        [""; 0],
        "the old one stays trusted for those it issued"
    );
    place.annotate(
        SecretRole::Authority,
        annotations::STEWARD_ROTATE,
        super::RETIRE,
    );
    assert_eq!(
        place.pass().await,
        ["ca no longer trusts the old authority"]
    );
    place.pass().await;
    assert_eq!(place.certificate(SecretRole::Authority).fingerprint, new);
    let body = place
        .memory
        .body(&place.key(SecretRole::Authority))
        .unwrap();
    let keys: Vec<_> = body["data"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, value)| !value.is_null())
        .collect();
    assert_eq!(
        keys.len(),
        5,
        "no key of a next one is left, and the old one vouches for it"
    );
    assert_eq!(place.pass().await, [""; 0]);
}

/// How many authorities a control plane's Secret trusts.
fn trusted(place: &Place) -> usize {
    place.memory.seen()[&SecretRole::Authority]
        .value
        .rotation
        .trusted
}

#[tokio::test]
async fn whoever_asks_for_a_new_authority_again_within_a_year_gets_one() {
    let mut place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    let mut seen = BTreeSet::from([place.certificate(SecretRole::Authority).fingerprint]);
    for count in [2, 3] {
        place.later(30);
        place.annotate(SecretRole::Authority, annotations::STEWARD_ROTATE, "");
        until_at_rest(&place).await;
        assert!(seen.insert(place.certificate(SecretRole::Authority).fingerprint));
        assert_eq!(trusted(&place), count, "nodes of the old ones go on");
    }
    // A third time is too much for now, and not forgotten.
    place.annotate(SecretRole::Authority, annotations::STEWARD_ROTATE, "");
    until_at_rest(&place).await;
    assert!(!seen.insert(place.certificate(SecretRole::Authority).fingerprint));
    place.later(366);
    let told = until_at_rest(&place).await;
    let of_authority: Vec<_> = told.iter().filter(|told| told.starts_with("ca ")).collect();
    assert_eq!(
        of_authority,
        [
            "ca no longer trusts the old authority",
            "ca gets one more authority, which is trusted from now on",
            "ca signs with the new authority from now on",
        ]
    );
    assert!(seen.insert(place.certificate(SecretRole::Authority).fingerprint));
    assert_eq!(trusted(&place), 2);
}

#[tokio::test]
async fn the_old_authority_is_forgotten_even_if_nobody_knows_any_more_when_it_was_replaced() {
    for lost in ["", "soon"] {
        let mut place = Place::new(control_plane("LoadBalancer"));
        place.pass().await;
        place.annotate(SecretRole::Authority, annotations::STEWARD_ROTATE, "");
        until_at_rest(&place).await;
        let signing = place.certificate(SecretRole::Authority).fingerprint;
        for annotation in [
            annotations::STEWARD_SIGNING_SINCE,
            annotations::STEWARD_ROTATE,
        ] {
            place.annotate(SecretRole::Authority, annotation, "soon");
        }
        assert_eq!(
            until_at_rest(&place).await,
            ["ca is marked anew with the time from which its authority signs"]
        );
        assert_eq!(trusted(&place), 2);
        // What people write where they ask takes nothing away from then on.
        place.annotate(SecretRole::Authority, annotations::STEWARD_ROTATE, lost);
        place.later(366);
        until_at_rest(&place).await;
        let is_same = place.certificate(SecretRole::Authority).fingerprint == signing;
        assert_eq!(
            (is_same, trusted(&place)),
            if lost.is_empty() {
                (false, 2)
            } else {
                (true, 1)
            }
        );
    }
}

#[tokio::test]
async fn the_year_of_an_authority_that_an_older_release_replaced_goes_on() {
    let mut place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    place.annotate(SecretRole::Authority, annotations::STEWARD_ROTATE, "");
    until_at_rest(&place).await;
    // It left the time in the annotation by which one asks, and nowhere else.
    place.annotate(
        SecretRole::Authority,
        annotations::STEWARD_SIGNING_SINCE,
        "",
    );
    place.later(364);
    until_at_rest(&place).await;
    assert_eq!(trusted(&place), 2);
    place.later(2);
    until_at_rest(&place).await;
    assert_eq!(trusted(&place), 1);
}

/// Goes on until nothing is left to do, and says what was done.
async fn until_at_rest(place: &Place) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let orders = place.pass().await;
        if orders.is_empty() {
            return told;
        }
        told.extend(orders);
    }
}

#[tokio::test]
async fn authorities_are_replaced_before_they_end_and_nobody_has_to_ask() {
    let mut place = Place::new(control_plane("LoadBalancer"));
    place.pass().await;
    let roles = [SecretRole::Authority, SecretRole::FrontProxyAuthority];
    let old = roles.map(|role| place.certificate(role).fingerprint);
    // They live for 3650 days, and are replaced 455 days before their end.
    place.later(3194);
    until_at_rest(&place).await;
    assert_eq!(roles.map(|role| place.certificate(role).fingerprint), old);
    let next = place.look().renewal.unwrap();
    place.later(2);
    assert!(next <= place.time, "it is looked at in time");
    place.settled = false;
    insta::assert_snapshot!(until_at_rest(&place).await.join("\n"), @"
    ca gets one more authority, which is trusted from now on
    front-proxy-ca-certificate gets one more authority, which is trusted from now on
    controller-manager-kubeconfig trusts another authority
    scheduler-kubeconfig trusts another authority
    admin-kubeconfig trusts another authority
    ");
    assert_eq!(
        roles.map(|role| place.certificate(role).fingerprint),
        old,
        "the old ones sign until the new ones are trusted"
    );
    place.settled = true;
    let told = until_at_rest(&place).await;
    assert!(
        told.contains(
            &"front-proxy-ca-certificate signs with the new authority from now on".to_owned()
        ),
        "{told:?}"
    );
    assert!(
        told.contains(&"front-proxy-client-certificate gets a new authority".to_owned()),
        "{told:?}"
    );
    let new = roles.map(|role| place.certificate(role));
    assert!(
        new.iter()
            .zip(&old)
            .all(|(new, old)| new.fingerprint != *old)
    );
    let names = new.map(|facts| facts.common_name);
    assert_eq!(names, ["kubernetes", "front-proxy-ca"]);
    place.later(366);
    let told = until_at_rest(&place).await;
    for role in roles {
        assert!(
            told.contains(&format!("{role} no longer trusts the old authority")),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn the_end_of_an_authority_that_somebody_brought_is_told_and_it_stays() {
    let mut place = Place::new(control_plane("LoadBalancer"));
    let life = SignedDuration::from_hours(24 * 1000);
    let own = Authority::new("our own", Validity::starting(now(), life)).unwrap();
    let data = files("ca", own.certificate_pem(), own.key_pem());
    place.memory.put(brought(&place, &json!(data)));
    place.pass().await;
    until_at_rest(&place).await;
    assert_eq!(place.look().ending, [""; 0]);
    place.later(546);
    until_at_rest(&place).await;
    insta::assert_snapshot!(place.look().ending.join("\n"), @"the authority in the Secret payments/shop-ca was brought by somebody else and ends at 2028-09-27T00:00:00Z; put the next one there in time, or give the Secret the annotation certs.steward.butlerlabs.dev/rotate with an empty value to have it replaced step by step");
    let fingerprint = inspect(own.certificate_pem()).unwrap().fingerprint;
    assert_eq!(
        place.certificate(SecretRole::Authority).fingerprint,
        fingerprint
    );
    // Whoever asks has it replaced as any other.
    place.annotate(SecretRole::Authority, annotations::STEWARD_ROTATE, "");
    until_at_rest(&place).await;
    assert_ne!(
        place.certificate(SecretRole::Authority).fingerprint,
        fingerprint
    );
    assert_eq!(place.look().ending, [""; 0]);
}

fn brought(place: &Place, data: &Value) -> Value {
    let key = place.key(SecretRole::Authority);
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": key.name, "namespace": key.namespace }, "data": data,
    })
}

#[tokio::test]
async fn an_authority_that_somebody_brings_is_used_as_it_is() {
    let place = Place::new(control_plane("LoadBalancer"));
    let year = Validity::starting(now(), SignedDuration::from_hours(9000));
    let own = Authority::new("our own", year).unwrap();
    // Under Cluster API's names alone.
    let data = files("tls", own.certificate_pem(), own.key_pem());
    place.memory.put(brought(&place, &json!(data)));
    place.pass().await;
    let fingerprint = inspect(own.certificate_pem()).unwrap().fingerprint;
    assert_eq!(
        place.certificate(SecretRole::Authority).fingerprint,
        fingerprint
    );
    // What was issued meanwhile, if anything, is of this authority.
    place.pass().await;
    assert_eq!(place.pass().await, [""; 0]);
    let body = place
        .memory
        .body(&place.key(SecretRole::Authority))
        .unwrap();
    assert_eq!(
        body["metadata"].get("ownerReferences"),
        None,
        "it does not go with the control plane"
    );
    assert_eq!(body["metadata"]["labels"][labels::STEWARD_NAME], "shop");
}

#[tokio::test]
async fn an_authority_that_cannot_be_used_is_told_and_not_overwritten() {
    let place = Place::new(control_plane("LoadBalancer"));
    let data = json!({ "ca.crt": bytes("no certificate"), "ca.key": bytes("no key") });
    place.memory.put(brought(&place, &data));
    let orders = place.look().orders;
    let names = Names::of(&place.control_plane);
    let failed = issue(&names, &orders, place.time, &OneKey, &place.memory).await;
    assert!(failed.is_err(), "nothing can be issued by it");
    let review = place.look();
    insta::assert_snapshot!(review.refused.join("\n"), @"the Secret payments/shop-ca was brought by somebody else and cannot be used: key ca.crt: cannot read the certificate: Parsing Error: MissingHeader; give a PEM block that begins with BEGIN CERTIFICATE; correct it, or delete it to have one made");
    assert!(
        !review
            .orders
            .iter()
            .any(|order| order.role == SecretRole::Authority)
    );
    let body = place
        .memory
        .body(&place.key(SecretRole::Authority))
        .unwrap();
    assert_eq!(body["data"]["ca.crt"], json!(bytes("no certificate")));
    assert_eq!(body["data"]["ca.key"], json!(bytes("no key")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whatever_is_lost_one_pass_brings_everything_back(lost in proptest::collection::btree_set(0..9_usize, 0..9)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let place = Place::new(control_plane("LoadBalancer"));
            place.pass().await;
            for index in lost {
                place.memory.remove(&place.key(SecretRole::ALL[index]));
            }
            place.pass().await;
            assert_eq!(place.pass().await, [""; 0]);
        });
    }
}

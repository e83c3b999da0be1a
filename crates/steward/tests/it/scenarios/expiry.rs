//! Certificates come to their end: those of people who were given a kubeconfig, and those of the control plane itself. The
//! clock of a real machine stays as it is; instead, certificates are dated as if it had moved.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_api::{
    conditions::types,
    keys::{annotations, labels},
    steward::kubeconfig_generator::KubeconfigGenerator,
};
use butler_pki::{Authority, Leaf, LeafRequest, SecretText, Usage, Validity, inspect};
use butler_runtime::conditions::holds;
use butler_testkit::{eventually, process};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Namespace, Secret},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
};
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use steward::names::SecretRole;

use super::{World, on_loopback};
use crate::{etcd::free_port, hosting::PATIENCE, real::create, scene};

/// Far more than what is left to a certificate before it is renewed, and less than a new one has.
const FRESH: SignedDuration = SignedDuration::from_hours(24 * 300);

fn from_now(seconds: i64) -> Timestamp {
    let offset = SignedDuration::from_secs(seconds);
    Timestamp::now().checked_add(offset).unwrap()
}

fn days(count: i64) -> i64 {
    count * 24 * 60 * 60
}

/// Of a year's life, ten months have passed.
fn nearly_over() -> Validity {
    Validity {
        not_before: from_now(days(-300)),
        not_after: from_now(days(65)),
    }
}

/// The same certificate at another time.
fn redated(certificate_pem: &str, usage: Usage, issuer: &Authority, validity: Validity) -> Leaf {
    let facts = inspect(certificate_pem).unwrap();
    let request = LeafRequest {
        common_name: facts.common_name,
        organizations: facts.organizations.into_iter().collect(),
        dns_names: facts.dns_names.into_iter().collect(),
        ip_addresses: facts.ip_addresses.into_iter().collect(),
        ..LeafRequest::new(usage, validity)
    };
    issuer.issue(&request).unwrap()
}

fn decoded(data: Option<&String>) -> String {
    String::from_utf8(STANDARD.decode(data.unwrap()).unwrap()).unwrap()
}

/// The certificate by which a kubeconfig logs in.
fn login(kubeconfig: &str) -> String {
    let file = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let user = file.auth_infos[0].auth_info.clone().unwrap();
    decoded(user.client_certificate_data.as_ref())
}

/// The same kubeconfig at another time.
fn redated_kubeconfig(kubeconfig: &str, issuer: &Authority, validity: Validity) -> String {
    let file = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let cluster = file.clusters[0].cluster.clone().unwrap();
    let client = redated(&login(kubeconfig), Usage::Client, issuer, validity);
    let rendered = butler_pki::Kubeconfig {
        cluster: &file.clusters[0].name,
        user: &file.auth_infos[0].name,
        server: cluster.server.as_deref().unwrap(),
        authority_pem: &decoded(cluster.certificate_authority_data.as_ref()),
        client: &client,
    };
    rendered.render().unwrap().expose().to_owned()
}

async fn client_of(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

async fn looks(client: &Client) -> Result<(), u16> {
    let found = Api::<Namespace>::all(client.clone())
        .list(&ListParams::default().limit(1))
        .await;
    match found {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

fn text(secret: &Secret, key: &str) -> String {
    let value = secret.data.as_ref().unwrap()[key].clone();
    String::from_utf8(value.0).unwrap()
}

impl World {
    async fn authority(&self, role: SecretRole, file: &str) -> Authority {
        let secret = self.secret(role).await;
        let key = SecretText::new(text(&secret, &format!("{file}.key")));
        Authority::from_pem(&text(&secret, &format!("{file}.crt")), &key).unwrap()
    }

    async fn secret(&self, role: SecretRole) -> Secret {
        let name = format!("shop-{}", role.as_str());
        self.secrets().get(&name).await.unwrap()
    }

    async fn write(&self, name: &str, data: &Value) {
        let patch = Patch::Merge(json!({ "data": data }));
        self.secrets()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Months pass: every certificate of the control plane is past the hour at which it is renewed.
    async fn let_months_pass(&self) {
        let bytes = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
        let cluster = self.authority(SecretRole::Authority, "ca").await;
        let front = SecretRole::FrontProxyAuthority;
        let front = self.authority(front, "front-proxy-ca").await;
        for (role, file, usage, issuer) in [
            (SecretRole::ApiServer, "apiserver", Usage::Server, &cluster),
            (
                SecretRole::KubeletClient,
                "apiserver-kubelet-client",
                Usage::Client,
                &cluster,
            ),
            (
                SecretRole::FrontProxyClient,
                "front-proxy-client",
                Usage::Client,
                &front,
            ),
            (
                SecretRole::StoreCertificate,
                "server",
                Usage::Client,
                self.etcd.authority(),
            ),
        ] {
            let secret = self.secret(role).await;
            let certificate = text(&secret, &format!("{file}.crt"));
            let old = redated(&certificate, usage, issuer, nearly_over());
            let data = json!({
                format!("{file}.crt"): bytes(&old.certificate_pem),
                format!("{file}.key"): bytes(old.key_pem.expose()),
            });
            self.write(&format!("shop-{}", role.as_str()), &data).await;
        }
        for role in KUBECONFIGS {
            let secret = self.secret(role).await;
            let keys = secret.data.as_ref().unwrap().keys();
            let data = keys.map(|key| {
                let kubeconfig = text(&secret, key);
                let old = redated_kubeconfig(&kubeconfig, &cluster, nearly_over());
                (key.clone(), bytes(&old))
            });
            let data = data.collect::<serde_json::Map<_, _>>();
            self.write(&format!("shop-{}", role.as_str()), &data.into())
                .await;
        }
    }
}

const KUBECONFIGS: [SecretRole; 3] = [
    SecretRole::AdminKubeconfig,
    SecretRole::ControllerManagerKubeconfig,
    SecretRole::SchedulerKubeconfig,
];

/// The first certificate of a Secret to end, whatever kind of Secret it is.
fn ends(secret: &Secret) -> Timestamp {
    let data = secret.data.as_ref().unwrap();
    let texts = data.keys().map(|key| (key, text(secret, key)));
    let certificates = texts.filter_map(|(key, text)| {
        if text.contains("client-certificate-data") {
            return Some(login(&text));
        }
        let is_leaf = key != "ca.crt" && key.strip_suffix(".crt").is_some();
        is_leaf.then_some(text)
    });
    let ends = certificates.map(|pem| inspect(&pem).unwrap().not_after);
    ends.min().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_renewed_before_they_end_and_end_when_they_must() {
    let world = World::start().await;
    world.ask("shop", on_loopback(free_port())).await;
    world.ready("shop").await;

    // A kubeconfig is made for those who watch over all control planes. It can do what their group may, and no more.
    let generator = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "KubeconfigGenerator",
        "metadata": { "name": "monitoring" },
        "spec": {
            "user": { "stringValue": "monitoring" }, "groups": [{ "stringValue": "watchers" }],
            "controlPlaneEndpointFrom": "admin.conf",
        },
    });
    let generators = Api::<KubeconfigGenerator>::all(world.client.clone());
    create(&generators, generator).await;
    let secrets = world.secrets();
    let made = eventually(&secrets, "shop-monitoring", "is made", PATIENCE, |found| {
        found.is_some()
    })
    .await;
    let kubeconfig = text(&made, "value");
    let watcher = client_of(&kubeconfig).await;
    assert_eq!(looks(&watcher).await, Err(403), "nobody allowed it yet");
    let tenant = world.administrator("shop").await;
    let role = json!({
        "metadata": { "name": "watchers" },
        "rules": [{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"] }],
    });
    create(&Api::<ClusterRole>::all(tenant.clone()), role).await;
    let binding = json!({
        "metadata": { "name": "watchers" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "watchers" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "watchers" }],
    });
    create(&Api::<ClusterRoleBinding>::all(tenant.clone()), binding).await;
    let allowed = process::until(PATIENCE, async || looks(&watcher).await.ok()).await;
    assert_eq!(allowed, Some(()));
    let mine = serde_json::from_value(scene::namespace("mine")).unwrap();
    let refused = Api::<Namespace>::all(watcher.clone())
        .create(&PostParams::default(), &mine)
        .await
        .unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));

    // It grows old: by itself another one takes its place in time, and then it is good for nothing.
    let authority = world.authority(SecretRole::Authority, "ca").await;
    let short = Validity {
        not_before: from_now(-5),
        not_after: from_now(15),
    };
    let old = redated_kubeconfig(&kubeconfig, &authority, short);
    let bytes = json!(ByteString(old.clone().into_bytes()));
    world
        .write("shop-monitoring", &json!({ "value": bytes }))
        .await;
    let late = client_of(&old).await;
    assert_eq!(looks(&late).await, Ok(()), "it is not over yet");
    let renewed = eventually(
        &secrets,
        "shop-monitoring",
        "is renewed",
        PATIENCE,
        |found| found.is_some_and(|found| text(found, "value") != old),
    )
    .await;
    let renewed = client_of(&text(&renewed, "value")).await;
    assert_eq!(looks(&renewed).await, Ok(()));
    let over = process::until(PATIENCE, async || looks(&late).await.err()).await;
    assert_eq!(over, Some(401));
    assert_eq!(looks(&renewed).await, Ok(()));

    // Months pass while nobody looks.
    let pause = |value: Value| {
        Patch::Merge(
            json!({ "metadata": { "annotations": { annotations::STEWARD_PAUSED: value } } }),
        )
    };
    let (control_planes, parameters) = (world.control_planes(), PatchParams::default());
    control_planes
        .patch("shop", &parameters, &pause("".into()))
        .await
        .unwrap();
    eventually(&control_planes, "shop", "is paused", PATIENCE, |found| {
        let status = found.and_then(|found| found.status.as_ref());
        status.is_some_and(|status| holds(&status.conditions, types::PAUSED))
    })
    .await;
    world.let_months_pass().await;
    control_planes
        .patch("shop", &parameters, &pause(Value::Null))
        .await
        .unwrap();

    // Every certificate is renewed, and the pods hold the new ones.
    let fresh = Timestamp::now().checked_add(FRESH).unwrap();
    let pairs = [
        SecretRole::ApiServer,
        SecretRole::KubeletClient,
        SecretRole::FrontProxyClient,
        SecretRole::StoreCertificate,
    ];
    for role in pairs.into_iter().chain(KUBECONFIGS) {
        let name = format!("shop-{}", role.as_str());
        let renewed = eventually(&secrets, &name, "is renewed", PATIENCE, |found| {
            found.is_some_and(|found| ends(found) > fresh)
        })
        .await;
        let notes = renewed.metadata.annotations.unwrap();
        let checksum = notes[annotations::STEWARD_CHECKSUM].clone();
        if role == SecretRole::AdminKubeconfig {
            continue;
        }
        let prefix = labels::STEWARD_COMPONENT_CHECKSUM_PREFIX;
        let label = format!("{prefix}{}", role.checksum_label());
        world
            .rolled_out("shop", "holds what is new", |found| {
                let template = &found.spec.as_ref().unwrap().template;
                let metadata = template.metadata.clone().unwrap_or_default();
                metadata.labels.unwrap_or_default().get(&label) == Some(&checksum)
            })
            .await;
    }
    world.ready("shop").await;
    // Pods of this world serve as soon as they listen, a moment before they have read who may do what.
    for client in [world.administrator("shop").await, renewed] {
        let allowed = process::until(PATIENCE, async || looks(&client).await.ok()).await;
        assert_eq!(allowed, Some(()), "kubeconfigs outlive the pods");
    }
}

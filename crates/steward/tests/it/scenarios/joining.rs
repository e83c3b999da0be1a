//! A machine joins a hosted control plane, as far as it goes without a kubelet: kubeadm finds the cluster, the machine is given
//! a certificate, and registers itself with it.

use std::path::Path;

use butler_assets::Component;
use butler_pki::public_key_digest;
use butler_testkit::{Supervisor, eventually};
use k8s_openapi::{
    ByteString,
    api::{
        certificates::v1::CertificateSigningRequest,
        core::v1::{ConfigMap, Node},
    },
};
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{World, on_loopback};
use crate::{
    etcd::{free_port, program},
    hosting::PATIENCE,
    real::create,
};

const NAME: &str = "joiner";

/// Runs kubeadm and returns what it says.
async fn kubeadm(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program(Component::Kubeadm).await)
        .args(arguments)
        .env("KUBEADM_JOIN_DRYRUN_DIR", directory)
        .output()
        .await
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    said
}

/// A client of the same cluster that logs in in another way.
async fn client_as(admin: &Value, user: Value) -> Client {
    let mut file = admin.clone();
    file["users"][0]["user"] = user;
    let kubeconfig: Kubeconfig = serde_json::from_value(file).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// The request for the certificate of a kubelet, and the key it is for.
fn signing_request() -> (String, KeyPair) {
    let mut parameters = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "system:nodes");
    subject.push(DnType::CommonName, format!("system:node:{NAME}"));
    parameters.distinguished_name = subject;
    let key = KeyPair::generate().unwrap();
    let request = parameters.serialize_request(&key).unwrap();
    (request.pem().unwrap(), key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_joins_with_a_token_of_kubeadm() {
    let world = World::start().await;
    world.ask("shop", on_loopback(free_port())).await;
    let ready = world.ready("shop").await;
    let deployment = world.deployments().get("shop").await.unwrap();
    world
        .node
        .run_controller_manager(&world.client, &deployment)
        .await;

    // The administrator makes a token, which the controller manager sees to.
    let secret = world.secrets().get("shop-admin-kubeconfig").await.unwrap();
    let text = String::from_utf8(secret.data.unwrap()["admin.conf"].0.clone()).unwrap();
    let files = Supervisor::start().unwrap();
    let kubeconfig = files.write("admin.conf", &text).unwrap();
    let kubeconfig = kubeconfig.display().to_string();
    let arguments = ["token", "create", "--kubeconfig", &kubeconfig];
    let token = kubeadm(files.directory(), &arguments).await;
    let token = token.trim();
    let (identifier, _) = token.split_once('.').unwrap();
    let tenant = world.administrator("shop").await;
    let public = Api::<ConfigMap>::namespaced(tenant.clone(), "kube-public");
    let signature = format!("jws-kubeconfig-{identifier}");
    let what = "is signed for the token";
    eventually(&public, "cluster-info", what, PATIENCE, |found| {
        let data = found.and_then(|found| found.data.as_ref());
        data.is_some_and(|data| data.contains_key(&signature))
    })
    .await;

    // With it kubeadm finds the cluster and what a kubelet needs to know.
    let authority = world.secrets().get("shop-ca").await.unwrap();
    let authority = String::from_utf8(authority.data.unwrap()["ca.crt"].0.clone()).unwrap();
    let configuration = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration", "dryRun": true,
        "discovery": { "bootstrapToken": {
            "apiServerEndpoint": ready.status.unwrap().control_plane_endpoint,
            "token": token, "caCertHashes": [public_key_digest(&authority).unwrap()],
        } },
        "nodeRegistration": {
            "name": NAME, "criSocket": "unix:///run/containerd/containerd.sock",
            "ignorePreflightErrors": ["all"],
        },
    });
    let file = files
        .write("join.yaml", &configuration.to_string())
        .unwrap();
    let file = file.display().to_string();
    kubeadm(files.directory(), &["join", "--config", &file]).await;
    let kubelet = std::fs::read_to_string(files.directory().join("config.yaml")).unwrap();
    assert!(kubelet.contains("10.96.0.10"), "{kubelet}");

    // And the machine asks for its certificate, which nobody has to approve by hand.
    let admin: Value = serde_saphyr::from_str(&text).unwrap();
    let newcomer = client_as(&admin, json!({ "token": token })).await;
    let (pem, key) = signing_request();
    let request = json!({
        "metadata": { "name": NAME },
        "spec": {
            "request": ByteString(pem.into_bytes()),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    });
    create(&Api::<CertificateSigningRequest>::all(newcomer), request).await;
    let requests = Api::<CertificateSigningRequest>::all(tenant.clone());
    let signed = eventually(&requests, NAME, "is signed", PATIENCE, |found| {
        let status = found.and_then(|found| found.status.as_ref());
        status.is_some_and(|status| status.certificate.is_some())
    })
    .await;
    let certificate = signed.status.unwrap().certificate.unwrap();

    // By that it is known, and gets its share of the pod network.
    let login = json!({
        "client-certificate-data": certificate,
        "client-key-data": ByteString(key.serialize_pem().into_bytes()),
    });
    let machine = client_as(&admin, login).await;
    let registration = json!({ "metadata": { "name": NAME } });
    create(&Api::<Node>::all(machine), registration).await;
    let nodes = Api::<Node>::all(tenant);
    let node = eventually(&nodes, NAME, "has a pod network", PATIENCE, |found| {
        let spec = found.and_then(|found| found.spec.as_ref());
        spec.is_some_and(|spec| spec.pod_cidr.is_some())
    })
    .await;
    let network = node.spec.unwrap().pod_cidr.unwrap();
    assert!(network.starts_with("10.244."), "{network}");
}

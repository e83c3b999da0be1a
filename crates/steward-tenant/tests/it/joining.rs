//! kubeadm joins, as far as it goes without a machine: it finds the cluster, checks the signature, and reads its configuration.

use std::path::Path;
use std::process::Output;

use butler_assets::Component;
use butler_testkit::{Controllers, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use x509_parser::pem::parse_x509_pem;

use crate::scene::{PATIENCE, Tenant, program};

/// `kubeadm join`, up to what would change this machine.
async fn join(tenant: &Tenant, directory: &Path, token: &str) -> Output {
    let configuration = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "dryRun": true,
        "discovery": { "bootstrapToken": {
            "apiServerEndpoint": tenant.facts.endpoint.to_string(),
            "token": token,
            "caCertHashes": [pin(&tenant.facts.authority_pem)],
        } },
        "nodeRegistration": {
            "name": "joiner",
            "criSocket": "unix:///run/containerd/containerd.sock",
            "ignorePreflightErrors": ["all"],
        },
        "timeouts": { "discovery": "5s" },
    });
    let file = directory.join("join.yaml");
    std::fs::write(&file, configuration.to_string()).unwrap();
    Command::new(program(Component::Kubeadm).await)
        .args(["join", "--config"])
        .arg(file)
        .env("KUBEADM_JOIN_DRYRUN_DIR", directory)
        .output()
        .await
        .unwrap()
}

/// By what kubeadm recognises an authority: the hash of its public key.
fn pin(authority_pem: &str) -> String {
    let (_, pem) = parse_x509_pem(authority_pem.as_bytes()).unwrap();
    let certificate = pem.parse_x509().unwrap();
    let digest = Sha256::digest(certificate.public_key().raw);
    digest.iter().fold("sha256:".to_owned(), |text, byte| {
        format!("{text}{byte:02x}")
    })
}

fn words(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

/// A token of kubeadm, once the tenant's controller manager has signed for it: both run beside what is tested.
async fn signed_token(tenant: &mut Tenant) -> String {
    let controllers = "bootstrap-signer-controller,token-cleaner-controller";
    let arguments = [
        format!("--kubeconfig={}", tenant.server.kubeconfig().display()),
        format!("--controllers={controllers}"),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    let path = program(Component::KubeControllerManager).await;
    tenant
        .server
        .run("kube-controller-manager", &path, &arguments)
        .unwrap();
    let created = Command::new(program(Component::Kubeadm).await)
        .args(["token", "create", "--kubeconfig"])
        .arg(tenant.server.kubeconfig())
        .output()
        .await
        .unwrap();
    assert!(created.status.success(), "{}", words(&created));
    let token = String::from_utf8(created.stdout).unwrap().trim().to_owned();
    until_signed(tenant, &key(&token), |_| true).await;
    token
}

/// Under which key the cluster information is signed for a token.
fn key(token: &str) -> String {
    let (identifier, _) = token.split_once('.').unwrap();
    format!("jws-kubeconfig-{identifier}")
}

/// Waits for a signature.
async fn until_signed(tenant: &Tenant, key: &str, is_it: impl Fn(&str) -> bool) -> String {
    let api: Api<ConfigMap> = Api::namespaced(tenant.server.client(), "kube-public");
    let what = "is signed for the token";
    let signed = eventually(&api, "cluster-info", what, PATIENCE, |found| {
        let data = found.and_then(|map| map.data.as_ref());
        let signature = data.and_then(|data| data.get(key));
        signature.is_some_and(|signature| is_it(signature))
    })
    .await;
    signed.data.unwrap()[key].clone()
}

#[tokio::test]
async fn kubeadm_joins_with_a_token_that_the_controller_manager_signs_for() {
    let mut tenant = Tenant::start(Controllers::None).await;
    tenant.furnish().await;
    let token = signed_token(&mut tenant).await;
    tenant.assert_at_rest("beside the controller manager").await;
    let directory = tempfile::tempdir().unwrap();
    // Without kube-proxy there is no configuration of it to read, which must not keep anybody out.
    for with_kube_proxy in [true, false] {
        if !with_kube_proxy {
            tenant.facts.kube_proxy = None;
            tenant.furnish().await;
        }
        let output = join(&tenant, directory.path(), &token).await;
        assert!(output.status.success(), "{}", words(&output));
        let kubelet = std::fs::read_to_string(directory.path().join("config.yaml")).unwrap();
        assert!(kubelet.contains("10.96.0.10"), "{kubelet}");
    }
}

#[tokio::test]
async fn kubeadm_joins_again_when_somebody_has_led_nodes_astray() {
    let mut tenant = Tenant::start(Controllers::None).await;
    tenant.furnish().await;
    let token = signed_token(&mut tenant).await;
    let key = key(&token);
    let before = until_signed(&tenant, &key, |_| true).await;

    // Somebody sends nodes elsewhere, and the controller manager signs that too.
    let api: Api<ConfigMap> = Api::namespaced(tenant.server.client(), "kube-public");
    let patch = Patch::Merge(json!({ "data": { "kubeconfig": "apiVersion: v1\nkind: Config\n" } }));
    api.patch("cluster-info", &PatchParams::default(), &patch)
        .await
        .unwrap();
    until_signed(&tenant, &key, |signature| signature != before).await;
    let directory = tempfile::tempdir().unwrap();
    let output = join(&tenant, directory.path(), &token).await;
    assert!(!output.status.success(), "{}", words(&output));

    // Put right, it is signed as before, and nodes join.
    tenant.reconcile().await;
    until_signed(&tenant, &key, |signature| signature == before).await;
    let output = join(&tenant, directory.path(), &token).await;
    assert!(output.status.success(), "{}", words(&output));
}

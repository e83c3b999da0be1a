//! kubeadm joins, as far as it goes without a machine: it finds the cluster, checks the signature, and reads its configuration.

use std::path::Path;
use std::process::Output;

use butler_assets::Component;
use butler_testkit::{Controllers, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use steward_tenant::{BootstrapToken, signature};
use tokio::process::Command;
use x509_parser::pem::parse_x509_pem;

use crate::scene::{PATIENCE, TOKEN, Tenant, program};

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

#[tokio::test]
async fn kubeadm_joins_with_our_token() {
    let mut tenant = Tenant::start(Controllers::None).await;
    let directory = tempfile::tempdir().unwrap();
    // Without kube-proxy there is no configuration of it to read, which must not keep anybody out.
    for with_kube_proxy in [true, false] {
        if !with_kube_proxy {
            tenant.facts.kube_proxy = None;
        }
        tenant.furnish().await;
        let output = join(&tenant, directory.path(), TOKEN).await;
        assert!(output.status.success(), "{}", words(&output));
        let kubelet = std::fs::read_to_string(directory.path().join("config.yaml")).unwrap();
        assert!(kubelet.contains("10.96.0.10"), "{kubelet}");
    }
}

#[tokio::test]
async fn kubeadm_does_not_join_what_the_token_has_not_signed() {
    let mut tenant = Tenant::start(Controllers::None).await;
    tenant.furnish().await;
    let directory = tempfile::tempdir().unwrap();
    let api: Api<ConfigMap> = Api::namespaced(tenant.server.client(), "kube-public");
    let token: BootstrapToken = TOKEN.parse().unwrap();
    let other = signature::sign("another cluster", &token);
    let patch = Patch::Merge(json!({ "data": { "jws-kubeconfig-abcdef": other } }));
    api.patch("cluster-info", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let output = join(&tenant, directory.path(), TOKEN).await;
    assert!(!output.status.success(), "{}", words(&output));
    assert!(words(&output).contains("JWS"), "{}", words(&output));
    // Put right, it joins.
    tenant.reconcile().await;
    let output = join(&tenant, directory.path(), TOKEN).await;
    assert!(output.status.success(), "{}", words(&output));
}

#[tokio::test]
async fn the_controller_manager_signs_as_we_do() {
    let mut tenant = Tenant::start(Controllers::None).await;
    tenant.furnish().await;
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

    let theirs = "fedcba.fedcba9876543210";
    let created = Command::new(program(Component::Kubeadm).await)
        .args(["token", "create", theirs, "--kubeconfig"])
        .arg(tenant.server.kubeconfig())
        .output()
        .await
        .unwrap();
    assert!(created.status.success(), "{}", words(&created));
    let api: Api<ConfigMap> = Api::namespaced(tenant.server.client(), "kube-public");
    let signed = eventually(
        &api,
        "cluster-info",
        "is signed for the other token",
        PATIENCE,
        |found| {
            found
                .and_then(|map| map.data.as_ref())
                .is_some_and(|data| data.contains_key("jws-kubeconfig-fedcba"))
        },
    )
    .await;
    let data = signed.data.unwrap();
    for token in [TOKEN, theirs] {
        let token: BootstrapToken = token.parse().unwrap();
        let key = format!("{}{}", signature::KEY_PREFIX, token.id());
        assert_eq!(data[&key], signature::sign(&data["kubeconfig"], &token));
    }
    tenant.assert_at_rest("beside the controller manager").await;
    let directory = tempfile::tempdir().unwrap();
    let output = join(&tenant, directory.path(), theirs).await;
    assert!(output.status.success(), "{}", words(&output));
}

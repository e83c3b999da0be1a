use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use butler_pki::{Authority, LeafRequest, SecretText, Usage, Validity, inspect, is_issued_by};
use butler_runtime::admission::{Reach, Review, Validate, ValidateWithReads, Verdict, Webhooks};
use butler_runtime::serve::Listener;
use butler_runtime::task;
use butler_testkit::{ApiServer, eventually};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{LimitRange, PodTemplate, Secret};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::http::{PATIENCE, any_port};
use crate::running::Running;

/// Lets everything through and counts it.
#[derive(Clone, Default)]
struct Everything {
    reviewed: Arc<AtomicUsize>,
}

impl ValidateWithReads<PodTemplate> for Everything {
    async fn validate(&self, _: &Review<'_, PodTemplate>) -> Verdict {
        tokio::task::yield_now().await;
        self.reviewed.fetch_add(1, Ordering::Relaxed);
        Ok(Vec::new())
    }
}

impl Validate<LimitRange> for Everything {
    fn validate(&self, _: &Review<'_, LimitRange>) -> Verdict {
        Ok(Vec::new())
    }
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

/// An authority that has lived for nine and a half years, and a leaf of it.
fn old_certificates(host: &str) -> (Authority, BTreeMap<String, ByteString>) {
    let day = SignedDuration::from_hours(24);
    let now = Timestamp::now();
    let old = Validity {
        not_before: now - 3468 * day,
        not_after: now + 182 * day,
    };
    let authority = Authority::new("old", old).expect("created");
    let leaf = authority.issue(&LeafRequest {
        common_name: "old".to_owned(),
        ip_addresses: vec![host.parse().expect("an address")],
        ..LeafRequest::new(Usage::Server, Validity::starting(now, 90 * day))
    });
    let leaf = leaf.expect("issued");
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = BTreeMap::from([
        ("ca.crt".to_owned(), bytes(authority.certificate_pem())),
        (
            "ca.key".to_owned(),
            bytes(SecretText::expose(authority.key_pem())),
        ),
        ("tls.crt".to_owned(), bytes(&leaf.certificate_pem)),
        ("tls.key".to_owned(), bytes(leaf.key_pem.expose())),
    ]);
    (authority, data)
}

fn text(secret: &Secret, key: &str) -> String {
    let data = secret
        .data
        .as_ref()
        .and_then(|data| data.get(key))
        .expect("the key is there");
    String::from_utf8(data.0.clone()).expect("text")
}

/// The fingerprint of the certificate that the server shows, if it is one of the bundle's.
async fn shown(address: SocketAddr, bundle: &str) -> String {
    use rustls_pki_types::pem::PemObject as _;
    use rustls_pki_types::{CertificateDer, ServerName};
    use sha2::Digest as _;

    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots
            .add(root.expect("a certificate"))
            .expect("an authority");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocols")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("connects");
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
    let stream = connector
        .connect(ServerName::from(address.ip()), stream)
        .await
        .expect("trusted");
    let certificates = stream
        .get_ref()
        .1
        .peer_certificates()
        .expect("a certificate");
    let digest = sha2::Sha256::digest(certificates.first().expect("a leaf"));
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn certificates_and_their_authority_are_replaced_while_requests_go_on() {
    const COMPONENT: &str = "butler-templates";
    let server = ApiServer::shared().await;
    let namespace = server.namespace("rotation").await;
    let secrets: Api<Secret> = namespace.api(server.client());
    let name = format!("{COMPONENT}-webhook-certificate");
    let (old_authority, data) = old_certificates("127.0.0.1");
    let secret = Secret {
        metadata: metadata(&name),
        data: Some(data),
        ..Secret::default()
    };
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .expect("created");

    let everything = Everything::default();
    let webhooks = Webhooks::new().validating_with_reads::<PodTemplate, _>(everything.clone());
    let mut running = Running::start(server, &namespace, COMPONENT, webhooks).await;
    let first = running.leaf_after(None).await;

    let templates: Api<PodTemplate> = namespace.api(server.client());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let requests = task::spawn("requests", async move {
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let template = json!({
            "metadata": {"name": "probe"},
            "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}},
        });
        let template: PodTemplate = serde_json::from_value(template).expect("a template");
        while !stopped.is_cancelled() {
            templates
                .create(&parameters, &template)
                .await
                .expect("never refused");
        }
    });
    let reviewed_more = || async {
        let before = everything.reviewed.load(Ordering::Relaxed);
        let more = async {
            while everything.reviewed.load(Ordering::Relaxed) < before + 20 {
                assert!(!requests.is_finished(), "a request failed");
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, more)
            .await
            .expect("the webhook is called");
    };
    reviewed_more().await;

    // First phase: the authority near its end has company, and its leaf is still shown.
    let both = eventually(&secrets, &name, "two authorities", PATIENCE, |secret| {
        secret.is_some_and(|secret| text(secret, "ca.crt").matches("BEGIN").count() == 2)
    })
    .await;
    let bundle = text(&both, "ca.crt");
    assert_eq!(shown(running.address, &bundle).await, first);
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(server.client());
    let registered = |found: Option<&ValidatingWebhookConfiguration>| {
        let hooks = found.and_then(|found| found.webhooks.as_ref());
        let registered = hooks.and_then(|hooks| hooks[0].client_config.ca_bundle.as_ref());
        registered.is_some_and(|registered| registered.0 == bundle.as_bytes())
    };
    let what = "trusts both authorities";
    eventually(&configurations, COMPONENT, what, PATIENCE, registered).await;
    reviewed_more().await;

    // Second phase: the leaf is lost, and the next one comes from the new authority.
    let broken = json!({"stringData": {"tls.crt": ""}});
    let broken = secrets
        .patch(&name, &PatchParams::default(), &Patch::Merge(&broken))
        .await;
    broken.expect("patched");
    let second = running.leaf_after(Some(&first)).await;
    assert_eq!(shown(running.address, &bundle).await, second);
    let secret = secrets.get(&name).await.expect("exists");
    let leaf = text(&secret, "tls.crt");
    assert_eq!(inspect(&leaf).expect("a leaf").fingerprint, second);
    assert!(!is_issued_by(&leaf, old_authority.certificate_pem()).expect("readable"));
    assert!(is_issued_by(&leaf, &text(&secret, "ca.crt")).expect("readable"));

    reviewed_more().await;

    stop.cancel();
    requests.await.expect("no request failed");
    running.stop(server, COMPONENT).await;
}

#[tokio::test]
async fn replicas_agree_on_one_certificate_and_write_nothing_at_rest() {
    const COMPONENT: &str = "butler-ranges";
    let server = ApiServer::shared().await;
    let namespace = server.namespace("replicas").await;
    let start = || async {
        let webhooks = Webhooks::new().validating::<LimitRange, _>(Everything::default());
        let listener = Listener::bind("admission", any_port())
            .await
            .expect("a free port");
        let reach = Reach::Service {
            namespace: namespace.name().to_owned(),
            name: COMPONENT.to_owned(),
            port: 443,
        };
        Running::start_at(listener, reach, server, &namespace, COMPONENT, webhooks)
    };
    let (mut first, mut second) = tokio::join!(start(), start());
    let (one, other) = tokio::join!(first.leaf_after(None), second.leaf_after(None));
    let secrets: Api<Secret> = namespace.api(server.client());
    let name = format!("{COMPONENT}-webhook-certificate");
    let secret = secrets.get(&name).await.expect("exists");
    let fingerprint = inspect(&text(&secret, "tls.crt"))
        .expect("a leaf")
        .fingerprint;
    assert_eq!([&one, &other], [&fingerprint, &fingerprint]);

    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(server.client());
    let registered = configurations.get(COMPONENT).await.expect("exists");
    let mut third = start().await;
    assert_eq!(third.leaf_after(None).await, fingerprint);
    let version = |metadata: &ObjectMeta| metadata.resource_version.clone();
    let untouched = secrets.get(&name).await.expect("exists");
    assert_eq!(version(&untouched.metadata), version(&secret.metadata));
    let untouched = configurations.get(COMPONENT).await.expect("exists");
    assert_eq!(version(&untouched.metadata), version(&registered.metadata));

    // Taken away by somebody, and brought back by whoever is there.
    third.stop(server, COMPONENT).await;
    let what = "is registered again";
    let there = |found: Option<&ValidatingWebhookConfiguration>| found.is_some();
    eventually(&configurations, COMPONENT, what, PATIENCE, there).await;
    second.shutdown.cancel();
    second.run.await.expect("no panic").expect("no error");
    first.stop(server, COMPONENT).await;
}

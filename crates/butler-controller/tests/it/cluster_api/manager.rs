//! The real manager of Cluster API, outside of a pod: its definitions, its webhooks and its controllers.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    time::Duration,
};

use butler_assets::{Asset, Component, Resolver, Settings};
use butler_pki::{Authority, LeafRequest, Usage, Validity};
use butler_testkit::{ApiServer, Controllers, Options, process::until};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, api::PostParams};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;

/// The label, and its value, of all that belongs to this manager and not to one of its friends.
const PROVIDER: (&str, &str) = ("cluster.x-k8s.io/provider", "cluster-api");
/// How long the manager may take until its webhooks answer.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// An API server with Butler's definitions and Cluster API's, and the manager of Cluster API beside it.
pub(super) async fn start() -> ApiServer {
    let mut manifests = manifests().await;
    let (label, value) = PROVIDER;
    manifests.retain(|document| document["metadata"]["labels"][label] == value);
    let options = Options::default();
    let mut custom_resources = options.custom_resources.clone();
    custom_resources.extend(definitions(&manifests));
    let options = Options {
        custom_resources,
        controllers: Controllers::Housekeeping,
        ..options
    };
    let mut server = ApiServer::start(options).await.unwrap();
    let port = free_port();
    let authority = write_certificate(server.directory());
    run(&mut server, port).await;
    register(&server, &manifests, port, &authority).await;
    server
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// All that an installation has of Cluster API, from where an installation takes it.
pub(crate) async fn manifests() -> Vec<Value> {
    let resolver = Resolver::new(Settings::from_env().unwrap());
    let text = resolver.cluster_api_manifests().await.unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// The definitions among manifests. There is no Service by which the API server could ask for another version of an object.
pub(crate) fn definitions(manifests: &[Value]) -> Vec<CustomResourceDefinition> {
    let mut definitions: Vec<CustomResourceDefinition> =
        read(manifests, "CustomResourceDefinition");
    for definition in &mut definitions {
        definition.spec.conversion = None;
    }
    definitions
}

/// The objects of a kind.
fn read<K: DeserializeOwned>(manifests: &[Value], kind: &str) -> Vec<K> {
    let objects: Vec<K> = manifests
        .iter()
        .filter(|document| document["kind"] == kind)
        .map(|document| serde_json::from_value(document.clone()).unwrap())
        .collect();
    assert!(!objects.is_empty(), "Cluster API comes without a {kind}");
    objects
}

/// Writes the certificate of the webhooks, and returns that of its authority.
fn write_certificate(directory: &Path) -> String {
    let validity = Validity::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let authority = Authority::new("webhooks", validity).unwrap();
    let leaf = authority
        .issue(&LeafRequest {
            common_name: "webhooks".to_owned(),
            ip_addresses: vec![Ipv4Addr::LOCALHOST.into()],
            ..LeafRequest::new(Usage::Server, validity)
        })
        .unwrap();
    fs::write(directory.join("tls.crt"), &leaf.certificate_pem).unwrap();
    fs::write(directory.join("tls.key"), leaf.key_pem.expose()).unwrap();
    authority.certificate_pem().to_owned()
}

async fn run(server: &mut ApiServer, port: u16) {
    let resolver = Resolver::new(Settings::from_env().unwrap());
    let asset = Asset::default_of(Component::ClusterApiCore);
    let program = resolver.resolve(&asset).await.unwrap();
    let arguments = [
        "POD_NAMESPACE=capi-system".to_owned(),
        "POD_NAME=capi".to_owned(),
        "POD_UID=capi".to_owned(),
        program.display().to_string(),
        format!("--kubeconfig={}", server.kubeconfig().display()),
        format!("--webhook-cert-dir={}", server.directory().display()),
        format!("--webhook-port={port}"),
        format!("--health-addr=127.0.0.1:{}", free_port()),
        format!("--diagnostics-address=127.0.0.1:{}", free_port()),
        "--insecure-diagnostics".to_owned(),
        "--leader-elect=false".to_owned(),
        // Classes are on in what Butler installs, too.
        "--feature-gates=ClusterTopology=true,ReconcilerRateLimiting=false".to_owned(),
        // The definitions are new, and so are all objects.
        "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields".to_owned(),
    ];
    let env = Path::new("/usr/bin/env");
    server.run("cluster-api-core", env, &arguments).unwrap();
}

/// Registers the webhooks, by address instead of by Service, as soon as the manager answers them.
async fn register(server: &ApiServer, manifests: &[Value], port: u16, authority: &str) {
    let reach = |config: &mut WebhookClientConfig| {
        let service = config.service.take();
        let path = service.and_then(|service| service.path).unwrap_or_default();
        config.url = Some(format!("https://127.0.0.1:{port}{path}"));
        config.ca_bundle = Some(ByteString(authority.as_bytes().to_vec()));
    };
    let client = server.client_as("cluster-api-installer");
    // Before the manager listens, a webhook that must answer would refuse everything.
    let listens = until(READY_WITHIN, async || {
        let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
        connected.ok()
    });
    assert!(
        listens.await.is_some(),
        "the webhooks of Cluster API are not served:\n{}",
        log(server)
    );
    for mut found in read::<MutatingWebhookConfiguration>(manifests, "MutatingWebhookConfiguration")
    {
        let webhooks = found.webhooks.iter_mut().flatten();
        webhooks.for_each(|webhook| reach(&mut webhook.client_config));
        let api = Api::all(client.clone());
        api.create(&PostParams::default(), &found).await.unwrap();
    }
    for mut found in
        read::<ValidatingWebhookConfiguration>(manifests, "ValidatingWebhookConfiguration")
    {
        let webhooks = found.webhooks.iter_mut().flatten();
        webhooks.for_each(|webhook| reach(&mut webhook.client_config));
        let api = Api::all(client.clone());
        api.create(&PostParams::default(), &found).await.unwrap();
    }
}

/// What the manager wrote.
pub(super) fn log(server: &ApiServer) -> String {
    fs::read_to_string(server.directory().join("cluster-api-core.log")).unwrap_or_default()
}

//! Which Secrets are credentials, and that their values stay where they are.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};

use butler_testkit::simulator::{ObjectStore, Operation, SimulatedApiServer};
use serde_json::json;

use super::*;

const SECRET_VALUE: &str = "correct-horse-battery-staple";

fn provider(kind: &str) -> ProviderConfig {
    serde_json::from_value(json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "ProviderConfig",
        "metadata": { "name": "rack", "namespace": "butler-system" },
        "spec": { "provider": kind, "credentialsRef": { "name": "rack" } },
    }))
    .unwrap()
}

fn secret(data: &[(&str, &str)]) -> Secret {
    let data = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
    Secret {
        data: Some(data.collect()),
        ..Secret::default()
    }
}

fn defects(provider: &ProviderConfig, data: &[(&str, &str)]) -> Vec<String> {
    let shape = shape(&secret(data), &needs(provider));
    assert!(
        !format!("{shape:?}").contains(SECRET_VALUE),
        "a value got out"
    );
    shape.defects
}

#[test]
fn each_provider_needs_its_own_keys() {
    let of = |kind| defects(&provider(kind), &[]).join(", ");
    insta::assert_snapshot!(
        ["harvester", "nutanix", "proxmox", "azure", "aws", "gcp", "local"].map(|kind| format!("{kind}: {}", of(kind))).join("\n"),
        @r"
    harvester: key kubeconfig is missing
    nutanix: key username is missing, key password is missing
    proxmox: key username is missing, key password is missing
    azure: key clientID is missing, key clientSecret is missing, key tenantID is missing
    aws: key accessKeyID is missing, key secretAccessKey is missing
    gcp: key serviceAccountKey is missing
    local:
    "
    );
}

#[test]
fn complete_credentials_have_no_defect() {
    let nutanix = [
        ("username", "admin"),
        ("password", SECRET_VALUE),
        ("note", "ours"),
    ];
    assert_eq!(
        defects(&provider("nutanix"), &nutanix),
        Vec::<String>::new()
    );
    let kubeconfig = "clusters: [{ name: rack, cluster: { server: 'https://10.0.0.1:6443' } }]";
    assert_eq!(
        defects(&provider("harvester"), &[("kubeconfig", kubeconfig)]),
        Vec::<String>::new()
    );
    let key = json!({ "client_email": "a@b.example", "private_key": SECRET_VALUE }).to_string();
    assert_eq!(
        defects(&provider("gcp"), &[("serviceAccountKey", &key)]),
        Vec::<String>::new()
    );
}

#[test]
fn every_missing_and_every_empty_key_is_named_at_once() {
    let data = [("clientID", "  \n"), ("tenantID", "")];
    assert_eq!(
        defects(&provider("azure"), &data),
        [
            "key clientID is empty",
            "key clientSecret is missing",
            "key tenantID is empty"
        ]
    );
}

#[test]
fn a_reference_may_name_the_key_of_a_single_value_but_not_of_one_among_several() {
    let mut harvester = provider("harvester");
    harvester.spec.credentials_ref.as_mut().unwrap().key = Some("admin.conf".to_owned());
    assert_eq!(defects(&harvester, &[]), ["key admin.conf is missing"]);
    let mut nutanix = provider("nutanix");
    nutanix.spec.credentials_ref.as_mut().unwrap().key = Some("admin.conf".to_owned());
    assert_eq!(
        defects(&nutanix, &[("username", "admin")]),
        ["key password is missing"]
    );
}

#[test]
fn what_is_no_kubeconfig_is_told_without_its_content() {
    let malformed = [
        SECRET_VALUE.to_owned(),
        format!("token: {SECRET_VALUE}\n  bad: [indent"),
        format!("clusters: {SECRET_VALUE}"),
        "clusters: []".to_owned(),
        format!("clusters: [{{ name: {SECRET_VALUE} }}]"),
        "clusters: [{ cluster: { server: '' } }]".to_owned(),
        "clusters: [{ cluster: { server: 7 } }]".to_owned(),
    ];
    for content in malformed {
        let found = defects(&provider("harvester"), &[("kubeconfig", &content)]);
        assert_eq!(
            found,
            ["key kubeconfig is not a kubeconfig that names a server"],
            "{content}"
        );
    }
    let bytes = [("kubeconfig".to_owned(), ByteString(vec![0xff, 0xfe, 0x00]))];
    let binary = Secret {
        data: Some(bytes.into()),
        ..Secret::default()
    };
    assert_eq!(
        shape(&binary, &needs(&provider("harvester"))).defects.len(),
        1
    );
}

#[test]
fn a_kubeconfig_that_unfolds_without_end_is_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = format!("*a{}, ", level - 1).repeat(10);
        writeln!(bomb, "a{level}: &a{level} [{inner}]").unwrap();
    }
    assert_eq!(
        defects(&provider("harvester"), &[("kubeconfig", &bomb)]).len(),
        1
    );
}

#[test]
fn what_is_no_service_account_key_is_told_without_its_content() {
    let malformed = [
        SECRET_VALUE.to_owned(),
        json!({ "private_key": SECRET_VALUE }).to_string(),
        json!({ "client_email": 1, "private_key": SECRET_VALUE }).to_string(),
        json!([SECRET_VALUE]).to_string(),
    ];
    for content in malformed {
        let found = defects(&provider("gcp"), &[("serviceAccountKey", &content)]);
        assert_eq!(
            found,
            ["key serviceAccountKey is not a service account key in JSON"]
        );
    }
}

#[tokio::test]
async fn a_secret_is_remembered_by_its_version_and_without_its_values() {
    let store = Arc::new(Mutex::new(ObjectStore::new()));
    let api = SimulatedApiServer::direct("test", Arc::clone(&store));
    let key = ObjectKey::namespaced("default", "rack");
    let encoded = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
    let body = |password: &str| {
        json!({
            "metadata": { "name": "rack", "namespace": "default" },
            "data": { "username": encoded("admin"), "password": encoded(password) },
        })
    };
    let write = |operation| {
        let written = store
            .lock()
            .unwrap()
            .perform("admin", operation)
            .unwrap()
            .into_object()
            .unwrap();
        written["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = write(Operation::create(Kind::of::<Secret>(), body(SECRET_VALUE)));
    let (shapes, provider) = (Shapes::default(), provider("nutanix"));
    let shape = shapes.of(&provider, &key, &first, &api).await.unwrap();
    assert_eq!(shape, CredentialsShape::default());
    assert!(!format!("{shapes:?}").contains(SECRET_VALUE));
    assert!(shapes.recall(&key, &first, &needs(&provider)).is_some());

    // The cache is behind: it still speaks of the first version, but the Secret is another already.
    let second = write(Operation::apply(Kind::of::<Secret>(), "admin", body("")));
    let shape = shapes.of(&provider, &key, "0", &api).await.unwrap();
    assert_eq!(shape.defects, ["key password is empty"]);
    assert!(
        shapes.recall(&key, &second, &needs(&provider)).is_some(),
        "known when the cache catches up"
    );
    assert!(shapes.recall(&key, &first, &needs(&provider)).is_none());

    shapes.forget(&key);
    assert!(shapes.recall(&key, &second, &needs(&provider)).is_none());
}

#[tokio::test]
async fn a_secret_deleted_while_we_look_is_not_taken_for_valid() {
    let api = SimulatedApiServer::direct("test", Arc::default());
    let key = ObjectKey::namespaced("default", "rack");
    let shape = Shapes::default()
        .of(&provider("nutanix"), &key, "1", &api)
        .await
        .unwrap();
    assert_eq!(shape.defects, ["it was deleted a moment ago"]);
}

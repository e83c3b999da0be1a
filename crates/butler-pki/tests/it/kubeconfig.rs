use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use butler_pki::{Kubeconfig, LeafRequest, Usage};
use pretty_assertions::assert_eq;
use serde::Deserialize;

use crate::{authority, thirty_days};

#[derive(Deserialize)]
struct File {
    #[serde(rename = "current-context")]
    current_context: String,
    clusters: Vec<Entry>,
    users: Vec<Entry>,
    contexts: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    #[serde(alias = "cluster", alias = "user", alias = "context")]
    content: BTreeMap<String, String>,
}

#[test]
fn kubeconfig_holds_the_way_to_the_cluster() {
    let authority = authority();
    let request = LeafRequest {
        common_name: "kubernetes-admin".to_owned(),
        ..LeafRequest::new(Usage::Client, thirty_days())
    };
    let client = authority.issue(&request).unwrap();
    let rendered = Kubeconfig {
        cluster: "demo",
        user: "yes",
        server: "https://10.0.0.1:6443",
        authority_pem: authority.certificate_pem(),
        client: &client,
    }
    .render()
    .unwrap();

    let file: File = serde_saphyr::from_str(rendered.expose()).unwrap();
    let decode = |text: &str| String::from_utf8(STANDARD.decode(text).unwrap()).unwrap();
    assert_eq!(file.current_context, "yes@demo");
    assert_eq!(file.clusters[0].name, "demo");
    let cluster = &file.clusters[0].content;
    assert_eq!(cluster["server"], "https://10.0.0.1:6443");
    assert_eq!(
        decode(&cluster["certificate-authority-data"]),
        authority.certificate_pem()
    );
    assert_eq!(file.users[0].name, "yes");
    let user = &file.users[0].content;
    assert_eq!(
        decode(&user["client-certificate-data"]),
        client.certificate_pem
    );
    assert_eq!(decode(&user["client-key-data"]), client.key_pem.expose());
    assert_eq!(file.contexts[0].name, "yes@demo");
    assert_eq!(file.contexts[0].content["user"], "yes");
    assert_eq!(file.contexts[0].content["cluster"], "demo");
}

//! Settings that come from manifests and Secrets.

use butler_api::steward::data_store::{
    BasicAuthentication, CertificateAuthority, CertificateKeyPair, DataStoreTls, InlineContent,
};
use k8s_openapi::ByteString;
use pretty_assertions::assert_eq;

use super::*;

fn inline(text: &str) -> ContentReference {
    ContentReference {
        content: Some(InlineContent(ByteString(text.as_bytes().to_vec()))),
        secret_reference: None,
    }
}

fn from_secret(key: &str) -> ContentReference {
    ContentReference {
        content: None,
        secret_reference: Some(SecretKeyReference {
            name: "certificates".to_owned(),
            namespace: Some("steward-system".to_owned()),
            key_path: key.to_owned(),
        }),
    }
}

fn etcd() -> DataStoreSpec {
    DataStoreSpec {
        driver: DataStoreDriver::Etcd,
        endpoints: vec!["etcd-0.etcd:2379".to_owned(), "[fd00::1]:2379".to_owned()],
        basic_auth: None,
        tls_config: Some(DataStoreTls {
            certificate_authority: CertificateAuthority {
                certificate: from_secret("ca.crt"),
                private_key: Some(from_secret("ca.key")),
            },
            client_certificate: Some(CertificateKeyPair {
                certificate: inline("the certificate"),
                private_key: from_secret("tls.key"),
            }),
        }),
    }
}

#[test]
fn values_come_from_the_manifest_and_from_secrets() {
    let connection = Connection::resolve(&etcd(), |named| {
        Some(format!("the {}", named.key_path).into_bytes())
    })
    .unwrap();
    assert_eq!(connection.place(), "etcd-0.etcd:2379, [fd00::1]:2379");
    assert_eq!(
        connection.tls,
        Some(Tls {
            authority_pem: "the ca.crt".to_owned(),
            authority_key_pem: Some(SecretText::new("the ca.key")),
            client: Some(ClientCertificate {
                certificate_pem: "the certificate".to_owned(),
                key_pem: SecretText::new("the tls.key"),
            }),
        })
    );
}

#[test]
fn what_must_be_watched_is_what_is_not_in_the_manifest() {
    let spec = etcd();
    let keys: Vec<&str> = secret_references(&spec)
        .into_iter()
        .map(|named| named.key_path.as_str())
        .collect();
    assert_eq!(keys, ["ca.crt", "ca.key", "tls.key"]);
}

#[test]
fn a_missing_secret_is_named_with_its_key() {
    let error = Connection::resolve(&etcd(), |named| {
        (named.key_path != "ca.key").then(|| b"x".to_vec())
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.tlsConfig.certificateAuthority.privateKey names the key \"ca.key\" of the Secret \
         steward-system/certificates, which is not there: create it"
    );
    assert_eq!(error.reason(), "SecretMissing");
}

#[test]
fn bytes_that_are_no_text_are_not_shown() {
    let mut spec = etcd();
    spec.basic_auth = Some(BasicAuthentication {
        username: inline("steward"),
        password: from_secret("password"),
    });
    let error = Connection::resolve(&spec, |_| Some(vec![0xff, b'h', b'i'])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.basicAuth.password is not text: give it in UTF-8, certificates and keys as PEM"
    );
}

#[test]
fn a_password_is_not_shown_by_debug() {
    let mut spec = etcd();
    spec.basic_auth = Some(BasicAuthentication {
        username: inline("steward"),
        password: inline("hunter2"),
    });
    let shown = format!(
        "{:?}",
        Connection::resolve(&spec, |_| Some(b"hunter3".to_vec())).unwrap()
    );
    assert!(
        shown.contains("steward") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn endpoints_are_a_host_and_a_port() {
    for text in ["etcd:2379", "10.0.0.1:2379", "[::1]:2379", "my_db.svc:1"] {
        assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "etcd",
        "https://etcd:2379",
        "etcd:0",
        "etcd:99999",
        "::1:2379",
        "[etcd]:2379",
        "a/b:1",
        "a@b:1",
        "a)b:1",
        ":1",
        "a b:1",
        "a?b:1",
    ] {
        text.parse::<Endpoint>().unwrap_err();
    }
}

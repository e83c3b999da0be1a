//! What the values of a Secret say, as far as it may be known: certificates, servers, whether keys fit. No key stays.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_pki::{CertificateFacts, SecretText, inspect, is_key_of, public_key_of};
use k8s_openapi::ByteString;
use serde_json::Value;

/// The data of a Secret.
pub(crate) type Data = BTreeMap<String, ByteString>;

/// A certificate whose key is there and fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate; of an authority that is being replaced, several.
    pub certificate_pem: String,
    /// What the first certificate says.
    pub facts: CertificateFacts,
}

/// A kubeconfig with a client certificate whose key fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigFacts {
    /// The URL of the API server.
    pub server: String,
    /// The authorities it trusts.
    pub authority_pem: String,
    /// The client certificate.
    pub client_pem: String,
    /// What the client certificate says.
    pub facts: CertificateFacts,
}

/// A value as text; none if it is absent, empty or no text.
pub(crate) fn text(data: &Data, key: &str) -> Option<String> {
    let ByteString(bytes) = data.get(key)?;
    let text = String::from_utf8(bytes.clone()).ok()?;
    (!text.trim().is_empty()).then_some(text)
}

/// Reads a pair of files. The error says what is wrong, without any value.
pub(crate) fn pair(data: &Data, certificate: &str, key: &str) -> Result<Pair, String> {
    let certificate_pem =
        text(data, certificate).ok_or_else(|| format!("key {certificate} is missing or empty"))?;
    let key_pem = text(data, key).ok_or_else(|| format!("key {key} is missing or empty"))?;
    let facts = inspect(&certificate_pem).map_err(|error| format!("key {certificate}: {error}"))?;
    match is_key_of(&SecretText::new(key_pem), &certificate_pem) {
        Ok(true) => Ok(Pair {
            certificate_pem,
            facts,
        }),
        Ok(false) => Err(format!("{key} does not belong to {certificate}")),
        Err(error) => Err(format!("key {key}: {error}")),
    }
}

/// Whether a key pair of service account tokens is complete: what is wrong with it, if anything.
pub(super) fn service_account(data: &Data) -> Result<(), String> {
    let private = text(data, "sa.key").ok_or("key sa.key is missing or empty")?;
    let public = text(data, "sa.pub").ok_or("key sa.pub is missing or empty")?;
    let derived =
        public_key_of(&SecretText::new(private)).map_err(|error| format!("key sa.key: {error}"))?;
    // The older form of a public key is as good, and is not worth a parser.
    let same = derived.trim() == public.trim() || public.contains("BEGIN RSA PUBLIC KEY");
    if same {
        Ok(())
    } else {
        Err("sa.pub does not belong to sa.key".to_owned())
    }
}

/// All kubeconfigs among the values, each with what is wrong with it, if anything.
pub(super) fn kubeconfigs(data: &Data) -> BTreeMap<String, Result<KubeconfigFacts, String>> {
    data.keys()
        .map(|key| {
            let read = text(data, key).ok_or_else(|| "it is empty".to_owned());
            (key.clone(), read.and_then(|text| kubeconfig(&text)))
        })
        .collect()
}

/// Reads one kubeconfig.
pub(crate) fn kubeconfig(text: &str) -> Result<KubeconfigFacts, String> {
    let file: Value =
        serde_saphyr::from_str(text).map_err(|_| "it is not a kubeconfig in YAML".to_owned())?;
    let at = |pointer: &str| {
        let found = file.pointer(pointer).and_then(Value::as_str);
        found.ok_or_else(|| format!("it has no {pointer}"))
    };
    let decoded = |pointer: &str| {
        let bytes = STANDARD.decode(at(pointer)?).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| format!("{pointer} is not base64 of a PEM text"))
    };
    let client_pem = decoded("/users/0/user/client-certificate-data")?;
    let key = SecretText::new(decoded("/users/0/user/client-key-data")?);
    let facts = inspect(&client_pem).map_err(|error| error.to_string())?;
    if !is_key_of(&key, &client_pem).map_err(|error| error.to_string())? {
        return Err("its key does not belong to its certificate".to_owned());
    }
    Ok(KubeconfigFacts {
        server: at("/clusters/0/cluster/server")?.to_owned(),
        authority_pem: decoded("/clusters/0/cluster/certificate-authority-data")?,
        client_pem,
        facts,
    })
}

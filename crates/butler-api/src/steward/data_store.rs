//! `DataStore`: a database that keeps the state of hosted control planes.
//!
//! Owns the spelling of drivers, endpoints and credentials. Must not connect anywhere: that is the work of the datastore
//! adapters.

use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

const ETCD_AUTHORITY_KEY: &str = "self.driver != 'etcd' || (has(self.tlsConfig) \
    && has(self.tlsConfig.certificateAuthority.privateKey) \
    && (has(self.tlsConfig.certificateAuthority.privateKey.content) \
    || has(self.tlsConfig.certificateAuthority.privateKey.secretReference)))";

const ETCD_CLIENT_CERTIFICATE: &str = "self.driver != 'etcd' || (has(self.tlsConfig) \
    && has(self.tlsConfig.clientCertificate) \
    && (has(self.tlsConfig.clientCertificate.certificate.content) \
    || has(self.tlsConfig.clientCertificate.certificate.secretReference)))";

const ETCD_CLIENT_KEY: &str = "self.driver != 'etcd' || (has(self.tlsConfig) \
    && has(self.tlsConfig.clientCertificate) \
    && (has(self.tlsConfig.clientCertificate.privateKey.content) \
    || has(self.tlsConfig.clientCertificate.privateKey.secretReference)))";

const SQL_CLIENT_CERTIFICATE: &str = "self.driver == 'etcd' || !has(self.tlsConfig) \
    || !has(self.tlsConfig.clientCertificate) \
    || has(self.tlsConfig.clientCertificate.certificate.content) \
    || has(self.tlsConfig.clientCertificate.certificate.secretReference)";

const SQL_USERNAME: &str = "self.driver == 'etcd' || !has(self.basicAuth) \
    || has(self.basicAuth.username.content) || has(self.basicAuth.username.secretReference)";

const SQL_PASSWORD: &str = "self.driver == 'etcd' || !has(self.basicAuth) \
    || has(self.basicAuth.password.content) || has(self.basicAuth.password.secretReference)";

const SQL_AUTHENTICATION: &str =
    "self.driver == 'etcd' || has(self.tlsConfig) || has(self.basicAuth)";

/// Where a database is and how to log in to it.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "steward.butlerlabs.dev",
    version = "v1alpha1",
    kind = "DataStore",
    plural = "datastores",
    status = "DataStoreStatus",
    derive = "PartialEq",
    doc = "A database that keeps the state of hosted control planes. Many control planes share one; each sees only its own keys.",
    printcolumn(name = "Driver", type_ = "string", json_path = ".spec.driver"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(ETCD_AUTHORITY_KEY).message("etcd needs tlsConfig.certificateAuthority.privateKey with content or secretReference: Steward issues a client certificate per control plane with it"),
    validation = Rule::new(ETCD_CLIENT_CERTIFICATE).message("etcd needs tlsConfig.clientCertificate.certificate with content or secretReference"),
    validation = Rule::new(ETCD_CLIENT_KEY).message("etcd needs tlsConfig.clientCertificate.privateKey with content or secretReference"),
    validation = Rule::new(SQL_CLIENT_CERTIFICATE).message("tlsConfig.clientCertificate.certificate needs content or secretReference"),
    validation = Rule::new(SQL_USERNAME).message("basicAuth.username needs content or secretReference"),
    validation = Rule::new(SQL_PASSWORD).message("basicAuth.password needs content or secretReference"),
    validation = Rule::new(SQL_AUTHENTICATION).message("MySQL, PostgreSQL and NATS need tlsConfig or basicAuth")
)]
pub struct DataStoreSpec {
    /// Which protocol the database speaks. Fixed once the store exists: make another store and migrate to it.
    #[x_kube(validation = Rule::new("self == oldSelf").message("the driver of a DataStore cannot be changed"))]
    pub driver: DataStoreDriver,
    /// Members of the database as `host:port`, without a scheme. At least one. Steward uses the first that works, of PostgreSQL
    /// the one that takes writes. Control planes use all members of etcd, PostgreSQL and NATS, and the first of MySQL alone, because
    /// kine connects to one server of it: name one address there that leads to whichever server works.
    #[schemars(length(min = 1))]
    pub endpoints: Vec<String>,
    /// User and password of an account that may create databases and users. Not used by etcd, which knows people by
    /// their client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuthentication>,
    /// Certificates for an encrypted connection. Required by etcd; if absent the connection is not encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<DataStoreTls>,
}

/// The databases Steward can keep a control plane in.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum DataStoreDriver {
    /// etcd, spoken to by the API server itself.
    #[serde(rename = "etcd")]
    Etcd,
    /// MySQL or `MariaDB` behind kine.
    #[serde(rename = "MySQL")]
    MySql,
    /// PostgreSQL behind kine.
    #[serde(rename = "PostgreSQL")]
    PostgreSql,
    /// NATS with `JetStream` behind kine.
    #[serde(rename = "NATS")]
    Nats,
}

/// A user name and a password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuthentication {
    /// Name of the account.
    pub username: ContentReference,
    /// Password of the account.
    pub password: ContentReference,
}

/// Certificates for the connection to a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataStoreTls {
    /// The authority that signed the certificates of the database's servers.
    pub certificate_authority: CertificateAuthority,
    /// The certificate Steward shows when it administers the database. Required by etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<CertificateKeyPair>,
}

/// A certificate authority, with its key where Steward has to sign with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateAuthority {
    /// Certificate of the authority, PEM.
    pub certificate: ContentReference,
    /// Private key of the authority, PEM. Required by etcd: each control plane gets a client certificate of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<ContentReference>,
}

/// A certificate and the key that belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateKeyPair {
    /// Certificate, PEM.
    pub certificate: ContentReference,
    /// Private key, PEM.
    pub private_key: ContentReference,
}

/// A value, given here or kept in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentReference {
    /// The value itself, base64. Wins over `secretReference`. Whoever can read the object can read it: prefer a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<InlineContent>,
    /// The Secret that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_reference: Option<SecretKeyReference>,
}

/// One key of a Secret, as a cluster-scoped object names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.name) && self.name != ''").message("secretReference needs the name of the Secret"))]
pub struct SecretKeyReference {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace of the Secret; the namespace Steward runs in if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Key in the Secret's data that holds the value.
    #[schemars(length(min = 1))]
    pub key_path: String,
}

/// Bytes written into a manifest. They may be a password or a key, so they are never shown by `Debug`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InlineContent(pub ByteString);

impl fmt::Debug for InlineContent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "InlineContent({} bytes)", self.0.0.len())
    }
}

impl JsonSchema for InlineContent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "InlineContent".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "byte" })
    }
}

/// What is known about a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataStoreStatus {
    /// Control planes that keep their state here, as `namespace/name`, sorted. A store in use is not let go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready` says whether Steward can reach the store and log in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::testing;

    const ETCD: &str = include_str!("../../../../examples/data-store-etcd.yaml");
    const POSTGRESQL: &str = include_str!("../../../../examples/data-store-postgresql.yaml");

    #[test]
    fn a_users_manifests_are_kept_as_written() {
        let etcd: DataStore = testing::read(ETCD);
        assert_eq!(etcd.spec.driver, DataStoreDriver::Etcd);
        let postgresql: DataStore = testing::read(POSTGRESQL);
        assert_eq!(postgresql.spec.driver, DataStoreDriver::PostgreSql);
    }

    #[test]
    fn the_crd_says_what_kubectl_needs() {
        assert_eq!(
            testing::crd_part::<DataStore>("spec/names/plural"),
            "datastores"
        );
        assert_eq!(testing::crd_part::<DataStore>("spec/scope"), "Cluster");
        assert_eq!(testing::columns::<DataStore>(), ["Driver", "Age"]);
        let driver = testing::field::<DataStore>("spec.driver");
        assert_eq!(driver["type"], "string");
        assert_eq!(
            driver["enum"],
            json!(["etcd", "MySQL", "PostgreSQL", "NATS"])
        );
    }

    #[test]
    fn a_password_in_the_manifest_is_not_shown_by_debug() {
        let content = InlineContent(ByteString(b"hunter2".to_vec()));
        assert_eq!(format!("{content:?}"), "InlineContent(7 bytes)");
    }
}

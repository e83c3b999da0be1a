//! How a store is reached, with everything at hand: no Secret is left to be looked up.
//!
//! Owns: turning the spec of a `DataStore` and the contents of the Secrets it names into typed settings, or into words
//! about what is missing.
//!
//! Must not: read Secrets (the caller hands in their contents) or connect.

use std::fmt;
use std::str::FromStr;

use butler_api::steward::data_store::{
    ContentReference, DataStoreDriver, DataStoreSpec, SecretKeyReference,
};
use butler_pki::SecretText;

/// Where a store is and how to log in to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Which protocol it speaks.
    pub driver: DataStoreDriver,
    /// Its members; at least one.
    pub endpoints: Vec<Endpoint>,
    /// The account that may make databases and users.
    pub administrator: Option<Credentials>,
    /// Certificates; without them the connection is not encrypted.
    pub tls: Option<Tls>,
}

/// One member of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// A user name and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the account.
    pub user: String,
    /// Its password.
    pub password: SecretText,
}

/// Certificates for the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The authority that signed the certificates of the servers.
    pub authority_pem: String,
    /// Its key, where there is one: clients of an etcd get their certificates signed with it.
    pub authority_key_pem: Option<SecretText>,
    /// What Steward itself shows.
    pub client: Option<ClientCertificate>,
}

/// A client certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, with those between it and the authority.
    pub certificate_pem: String,
    /// Its private key.
    pub key_pem: SecretText,
}

/// Settings that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Neither a value nor a Secret is named.
    #[error("spec.{field} is empty: give content or secretReference")]
    Empty {
        /// Which field.
        field: &'static str,
    },
    /// The Secret, or the key in it, is not there.
    #[error(
        "spec.{field} names the key \"{key}\" of the Secret {secret}, which is not there: create it"
    )]
    SecretMissing {
        /// Which field.
        field: &'static str,
        /// The Secret, as `namespace/name` or `name`.
        secret: String,
        /// The key.
        key: String,
    },
    /// The value holds bytes that are no text.
    #[error("spec.{field} is not text: give it in UTF-8, certificates and keys as PEM")]
    NotText {
        /// Which field.
        field: &'static str,
    },
    /// An endpoint is not `host:port`.
    #[error(
        "spec.endpoints has \"{endpoint}\": write host:port without a scheme, such as etcd-0.etcd:2379 or [::1]:2379"
    )]
    Endpoint {
        /// What was written.
        endpoint: String,
    },
    /// There are no endpoints.
    #[error("spec.endpoints is empty: name at least one member as host:port")]
    NoEndpoints,
    /// etcd is spoken to with certificates only.
    #[error(
        "spec.tlsConfig.clientCertificate is missing: etcd knows its clients by their certificates"
    )]
    NoClientCertificate,
    /// A certificate or key cannot be used.
    #[error("spec.{field} cannot be used: {problem}")]
    Certificate {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl SettingsError {
    /// The reason in one word, for conditions and metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::SecretMissing { .. } => "SecretMissing",
            Self::Empty { .. }
            | Self::NotText { .. }
            | Self::Endpoint { .. }
            | Self::NoEndpoints
            | Self::NoClientCertificate
            | Self::Certificate { .. } => "InvalidSettings",
        }
    }
}

pub(crate) const AUTHORITY: &str = "tlsConfig.certificateAuthority.certificate";
const AUTHORITY_KEY: &str = "tlsConfig.certificateAuthority.privateKey";
pub(crate) const CLIENT: &str = "tlsConfig.clientCertificate.certificate";
const CLIENT_KEY: &str = "tlsConfig.clientCertificate.privateKey";
const USERNAME: &str = "basicAuth.username";
const PASSWORD: &str = "basicAuth.password";

impl Connection {
    /// The settings of a store. `secret` gives the value of a key of a Secret, or nothing if either is not there.
    pub fn resolve(
        spec: &DataStoreSpec,
        secret: impl Fn(&SecretKeyReference) -> Option<Vec<u8>>,
    ) -> Result<Self, SettingsError> {
        let text = |field, reference| text(field, reference, &secret);
        let endpoints = spec
            .endpoints
            .iter()
            .map(|endpoint| endpoint.parse())
            .collect::<Result<Vec<Endpoint>, _>>()?;
        if endpoints.is_empty() {
            return Err(SettingsError::NoEndpoints);
        }
        let administrator = match &spec.basic_auth {
            Some(account) => Some(Credentials {
                user: text(USERNAME, &account.username)?,
                password: SecretText::new(text(PASSWORD, &account.password)?),
            }),
            None => None,
        };
        let tls = match &spec.tls_config {
            Some(tls) => Some(Tls {
                authority_pem: text(AUTHORITY, &tls.certificate_authority.certificate)?,
                authority_key_pem: match &tls.certificate_authority.private_key {
                    Some(key) => Some(SecretText::new(text(AUTHORITY_KEY, key)?)),
                    None => None,
                },
                client: match &tls.client_certificate {
                    Some(pair) => Some(ClientCertificate {
                        certificate_pem: text(CLIENT, &pair.certificate)?,
                        key_pem: SecretText::new(text(CLIENT_KEY, &pair.private_key)?),
                    }),
                    None => None,
                },
            }),
            None => None,
        };
        Ok(Self {
            driver: spec.driver,
            endpoints,
            administrator,
            tls,
        })
    }

    /// The members in words, for messages.
    pub(crate) fn place(&self) -> String {
        let endpoints: Vec<String> = self.endpoints.iter().map(ToString::to_string).collect();
        endpoints.join(", ")
    }
}

/// The keys of Secrets that [`Connection::resolve`] will ask for: what to read, and what to watch.
pub fn secret_references(spec: &DataStoreSpec) -> Vec<&SecretKeyReference> {
    let account = spec
        .basic_auth
        .iter()
        .flat_map(|account| [&account.username, &account.password]);
    let tls = spec.tls_config.iter().flat_map(|tls| {
        let authority = &tls.certificate_authority;
        let client = tls.client_certificate.iter();
        [Some(&authority.certificate), authority.private_key.as_ref()]
            .into_iter()
            .flatten()
            .chain(client.flat_map(|pair| [&pair.certificate, &pair.private_key]))
    });
    account
        .chain(tls)
        .filter(|reference| reference.content.is_none())
        .filter_map(|reference| reference.secret_reference.as_ref())
        .collect()
}

fn text(
    field: &'static str,
    reference: &ContentReference,
    secret: impl Fn(&SecretKeyReference) -> Option<Vec<u8>>,
) -> Result<String, SettingsError> {
    let bytes = match (&reference.content, &reference.secret_reference) {
        (Some(content), _) => content.0.0.clone(),
        (None, Some(named)) => secret(named).ok_or_else(|| SettingsError::SecretMissing {
            field,
            secret: named.namespace.as_ref().map_or_else(
                || named.name.clone(),
                |namespace| format!("{namespace}/{}", named.name),
            ),
            key: named.key_path.clone(),
        })?,
        (None, None) => return Err(SettingsError::Empty { field }),
    };
    if bytes.is_empty() {
        return Err(SettingsError::Empty { field });
    }
    String::from_utf8(bytes).map_err(|_not_text| SettingsError::NotText { field })
}

impl FromStr for Endpoint {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || SettingsError::Endpoint {
            endpoint: text.to_owned(),
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let port = port.parse().map_err(|_not_a_port| refused())?;
        let bracketed = host
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
            None if is_host(host) => host,
            _ => return Err(refused()),
        };
        if port == 0 {
            return Err(refused());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

/// Letters of DNS names and IPv4 addresses; what is left out could end the host in a connection string.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_'))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;

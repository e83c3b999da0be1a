//! How a store is reached, with everything at hand: no Secret is left to be looked up.
//!
//! Owns: the typed settings of a store, and the words about what is wrong with them.
//!
//! Must not: read `DataStore`s or Secrets (the caller has done so) or connect.

use std::fmt;
use std::str::FromStr;

use butler_api::steward::data_store::DataStoreDriver;
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
            Self::Endpoint { .. }
            | Self::NoEndpoints
            | Self::NoClientCertificate
            | Self::Certificate { .. } => "InvalidSettings",
        }
    }
}

pub(crate) const AUTHORITY: &str = "tlsConfig.certificateAuthority.certificate";
pub(crate) const CLIENT: &str = "tlsConfig.clientCertificate.certificate";

impl Connection {
    /// The members in words, for messages.
    pub(crate) fn place(&self) -> String {
        let endpoints: Vec<String> = self.endpoints.iter().map(ToString::to_string).collect();
        endpoints.join(", ")
    }
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

//! TLS of both ends, out of files that may change: a new certificate or authority is used by the next connection.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    server::WebPkiClientVerifier,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::sync::Mutex;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::protocol::{APPLICATION_PROTOCOL, PASSAGE_PROTOCOL};

/// TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}; is it mounted, and readable by this user?")]
    Read {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{path} holds no {what} in PEM form")]
    Content {
        /// Which.
        path: String,
        /// What it should hold.
        what: &'static str,
    },
    /// The files do not fit together.
    #[error("the certificate in {path} cannot be used")]
    Unusable {
        /// The certificate.
        path: String,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// Clients cannot be verified by the authority.
    #[error("clients cannot be verified by the authority in {path}: {problem}")]
    Authority {
        /// The authority.
        path: String,
        /// Why.
        problem: String,
    },
}

/// A certificate and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate, with those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What is asked of those who connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// No certificate.
    NotAsked,
    /// One of this authority, or none.
    Welcome(PathBuf),
    /// One of this authority.
    Required(PathBuf),
}

impl ClientCertificates {
    fn authority(&self) -> Option<&Path> {
        match self {
            Self::NotAsked => None,
            Self::Welcome(path) | Self::Required(path) => Some(path),
        }
    }
}

/// Which protocol is spoken inside of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// That of the tunnel's ends, or a passage to the API server.
    Tunnel,
    /// HTTP/1.1, as the API server speaks it to a proxy.
    Proxy,
}

/// Whom a verified certificate names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The common name.
    pub common_name: String,
    /// The organizations.
    pub organizations: Vec<String>,
    /// Until when it is valid.
    pub not_after: Timestamp,
}

impl PeerCertificate {
    /// Reads a certificate that TLS has verified; none if it says nothing we can use.
    pub(crate) fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let subject = certificate.subject();
        let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute.as_str().ok().map(ToOwned::to_owned)
        };
        Some(Self {
            common_name: subject.iter_common_name().find_map(text)?,
            organizations: subject.iter_organization().filter_map(text).collect(),
            not_after: Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?,
        })
    }
}

/// The TLS of the end that is connected to.
#[derive(Debug)]
pub struct ServerTls {
    identity: IdentityFiles,
    clients: ClientCertificates,
    cache: Cache<ServerConfig>,
}

impl ServerTls {
    /// TLS out of these files, which are read when they are needed.
    pub fn new(identity: IdentityFiles, clients: ClientCertificates) -> Self {
        Self {
            identity,
            clients,
            cache: Cache::default(),
        }
    }

    /// What accepts the next connection.
    pub(crate) async fn acceptor(&self, inside: Inside) -> Result<TlsAcceptor, TlsError> {
        let mut files = Files::default();
        files.read(&self.identity.certificate).await?;
        files.read(&self.identity.key).await?;
        if let Some(authority) = self.clients.authority() {
            files.read(authority).await?;
        }
        let config = self
            .cache
            .get(files, |files| self.config(files, inside))
            .await?;
        Ok(TlsAcceptor::from(config))
    }

    fn config(&self, files: &Files, inside: Inside) -> Result<ServerConfig, TlsError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = match inside {
            Inside::Tunnel => builder.with_protocol_versions(&[&rustls::version::TLS13]),
            Inside::Proxy => builder.with_safe_default_protocol_versions(),
        }
        .map_err(|source| self.unusable(source))?;
        let builder = match self.clients.authority() {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(files.authorities(path)?);
                let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                if matches!(self.clients, ClientCertificates::Welcome(_)) {
                    verifier = verifier.allow_unauthenticated();
                }
                let verifier = verifier.build().map_err(|error| TlsError::Authority {
                    path: path.display().to_string(),
                    problem: error.to_string(),
                })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let (chain, key) = files.identity(&self.identity)?;
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|source| self.unusable(source))?;
        config.alpn_protocols = match inside {
            Inside::Tunnel => vec![APPLICATION_PROTOCOL.to_vec(), PASSAGE_PROTOCOL.to_vec()],
            Inside::Proxy => vec![b"http/1.1".to_vec()],
        };
        Ok(config)
    }

    fn unusable(&self, source: rustls::Error) -> TlsError {
        unusable(&self.identity.certificate, source)
    }
}

/// The TLS of the end that connects.
#[derive(Debug)]
pub struct ClientTls {
    authority: PathBuf,
    identity: Option<IdentityFiles>,
    protocol: &'static [u8],
    cache: Cache<ClientConfig>,
}

impl ClientTls {
    /// TLS that trusts servers of this authority, and shows a certificate if there is one.
    pub fn new(authority: PathBuf, identity: Option<IdentityFiles>) -> Self {
        Self {
            authority,
            identity,
            protocol: APPLICATION_PROTOCOL,
            cache: Cache::default(),
        }
    }

    /// TLS of a passage to the API server, through servers of this authority.
    pub fn of_passage(authority: PathBuf) -> Self {
        Self {
            protocol: PASSAGE_PROTOCOL,
            ..Self::new(authority, None)
        }
    }

    /// What makes the next connection.
    pub(crate) async fn connector(&self) -> Result<TlsConnector, TlsError> {
        let mut files = Files::default();
        files.read(&self.authority).await?;
        if let Some(identity) = &self.identity {
            files.read(&identity.certificate).await?;
            files.read(&identity.key).await?;
        }
        let config = self.cache.get(files, |files| self.config(files)).await?;
        Ok(TlsConnector::from(config))
    }

    fn config(&self, files: &Files) -> Result<ClientConfig, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|source| unusable(&self.authority, source))?
            .with_root_certificates(files.authorities(&self.authority)?);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = files.identity(identity)?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|source| unusable(&identity.certificate, source))?
            }
        };
        config.alpn_protocols = vec![self.protocol.to_vec()];
        Ok(config)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn unusable(path: &Path, source: rustls::Error) -> TlsError {
    TlsError::Unusable {
        path: path.display().to_string(),
        source,
    }
}

/// Contents of files, in the order in which they were read.
#[derive(Default, PartialEq, Eq)]
struct Files(Vec<(PathBuf, Vec<u8>)>);

impl Files {
    async fn read(&mut self, path: &Path) -> Result<(), TlsError> {
        let content = tokio::fs::read(path).await;
        let content = content.map_err(|source| TlsError::Read {
            path: path.display().to_string(),
            source,
        })?;
        self.0.push((path.to_owned(), content));
        Ok(())
    }

    fn of(&self, path: &Path) -> &[u8] {
        let found = self.0.iter().find(|(read, _)| read == path);
        found.map_or(&[], |(_, content)| content)
    }

    fn certificates(&self, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.of(path)).collect();
        let parsed = parsed.unwrap_or_default();
        if parsed.is_empty() {
            return Err(TlsError::Content {
                path: path.display().to_string(),
                what: "certificate",
            });
        }
        Ok(parsed)
    }

    fn authorities(&self, path: &Path) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates(path)? {
            roots
                .add(certificate)
                .map_err(|source| unusable(path, source))?;
        }
        Ok(roots)
    }

    fn identity(
        &self,
        files: &IdentityFiles,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let chain = self.certificates(&files.certificate)?;
        // What is wrong with a key is not told: the words could hold a part of it.
        let key = PrivateKeyDer::from_pem_slice(self.of(&files.key));
        let key = key.map_err(|_| TlsError::Content {
            path: files.key.display().to_string(),
            what: "private key",
        })?;
        Ok((chain, key))
    }
}

/// The configuration made of the last contents; it keeps the sessions that TLS can resume.
struct Cache<Config>(Mutex<Option<(Files, Arc<Config>)>>);

impl<Config> Default for Cache<Config> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<Config> std::fmt::Debug for Cache<Config> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Cache")
    }
}

impl<Config> Cache<Config> {
    async fn get(
        &self,
        files: Files,
        make: impl FnOnce(&Files) -> Result<Config, TlsError>,
    ) -> Result<Arc<Config>, TlsError> {
        let mut cache = self.0.lock().await;
        match cache.as_ref() {
            Some((known, config)) if *known == files => return Ok(Arc::clone(config)),
            _ => {}
        }
        match (make(&files), cache.as_ref()) {
            (Ok(config), _) => {
                let config = Arc::new(config);
                *cache = Some((files, Arc::clone(&config)));
                Ok(config)
            }
            // Files that change together are not read together: the next connection will find them complete.
            (Err(error), Some((_, config))) => {
                tracing::warn!(%error, "the new certificate cannot be used; the old one still is");
                Ok(Arc::clone(config))
            }
            (Err(error), None) => Err(error),
        }
    }
}

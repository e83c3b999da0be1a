//! What can go wrong with keys and certificates, in words for the person who holds them.

use jiff::Timestamp;

/// A failure to make or read a key or certificate. Never contains key material.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The validity ends before it starts, or a bound cannot be written into a certificate.
    #[error(
        "a certificate cannot be valid from {not_before} to {not_after}: \
         the end must come after the start, and both must lie between 1970 and 9999"
    )]
    Validity {
        /// The asked first moment.
        not_before: Timestamp,
        /// The asked last moment.
        not_after: Timestamp,
    },
    /// A DNS name holds characters that a certificate cannot carry.
    #[error(
        "\"{name}\" cannot be a DNS name of a certificate: use ASCII letters, digits, '-' and '.'"
    )]
    DnsName {
        /// The refused name.
        name: String,
    },
    /// The key could not be generated.
    #[error("cannot generate a private key")]
    GenerateKey(#[source] rcgen::Error),
    /// The private key of an authority could not be read.
    #[error(
        "cannot read the private key of the certificate authority: \
         give one unencrypted PEM block (PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY)"
    )]
    ReadKey(#[source] rcgen::Error),
    /// The text is not a certificate.
    #[error(
        "cannot read the certificate: {problem}; give a PEM block that begins with BEGIN CERTIFICATE"
    )]
    ReadCertificate {
        /// What the parser stumbled over.
        problem: String,
    },
    /// The certificate was given as an authority, but is none.
    #[error(
        "the certificate of \"{common_name}\" is no certificate authority and cannot issue others: \
         give one with the basic constraint CA"
    )]
    NotAnAuthority {
        /// Whom the certificate names.
        common_name: String,
    },
    /// The private key belongs to another certificate.
    #[error(
        "the private key does not belong to the certificate authority \"{common_name}\": \
         give the pair that was made together"
    )]
    KeyMismatch {
        /// Whom the certificate names.
        common_name: String,
    },
    /// The certificate could not be signed.
    #[error("cannot sign the certificate of \"{common_name}\"")]
    Sign {
        /// Whom the certificate was for.
        common_name: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// The kubeconfig could not be written as YAML.
    #[error("cannot write the kubeconfig for \"{server}\" as YAML: {problem}")]
    RenderKubeconfig {
        /// The server the kubeconfig points to.
        server: String,
        /// What the serialiser said.
        problem: String,
    },
}

impl Error {
    /// The reason in one word, for conditions and metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Validity { .. } => "InvalidValidity",
            Self::DnsName { .. } => "InvalidDNSName",
            Self::GenerateKey(_) => "KeyGenerationFailed",
            Self::ReadKey(_) => "InvalidPrivateKey",
            Self::ReadCertificate { .. } => "InvalidCertificate",
            Self::NotAnAuthority { .. } => "NotACertificateAuthority",
            Self::KeyMismatch { .. } => "KeyMismatch",
            Self::Sign { .. } => "SigningFailed",
            Self::RenderKubeconfig { .. } => "KubeconfigFailed",
        }
    }
}

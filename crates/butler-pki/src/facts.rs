//! Reading certificates back.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{GeneralName, X509Certificate};
use x509_parser::x509::X509Name;

use crate::Error;

/// What a certificate says; safe to show and to store in a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The whole subject, as text.
    pub subject: String,
    /// Whom it names.
    pub common_name: String,
    /// The organizations of the subject, which Kubernetes reads as groups.
    pub organizations: BTreeSet<String>,
    /// The DNS names it is good for.
    pub dns_names: BTreeSet<String>,
    /// The addresses it is good for.
    pub ip_addresses: BTreeSet<IpAddr>,
    /// The first moment of validity.
    pub not_before: Timestamp,
    /// The last moment of validity.
    pub not_after: Timestamp,
    /// SHA-256 over the certificate, in lower-case hexadecimal digits.
    pub fingerprint: String,
    /// Whether it may issue other certificates.
    pub is_ca: bool,
}

/// Reads the first certificate of a PEM text.
pub fn inspect(certificate_pem: &str) -> Result<CertificateFacts, Error> {
    with_certificate(certificate_pem, |certificate| {
        let (dns_names, ip_addresses) = alternative_names(certificate)?;
        let validity = certificate.validity();
        Ok(CertificateFacts {
            subject: certificate.subject().to_string(),
            common_name: common_name(certificate.subject()),
            organizations: certificate
                .subject()
                .iter_organization()
                .filter_map(|attribute| attribute.as_str().ok())
                .map(ToOwned::to_owned)
                .collect(),
            dns_names,
            ip_addresses,
            not_before: timestamp(validity.not_before.timestamp())?,
            not_after: timestamp(validity.not_after.timestamp())?,
            fingerprint: hexadecimal(&Sha256::digest(certificate.as_raw())),
            is_ca: certificate.is_ca(),
        })
    })?
}

/// SHA-256 over the public key, as `kubeadm join` wants to know an authority: `sha256:` and hexadecimal digits.
pub fn public_key_digest(certificate_pem: &str) -> Result<String, Error> {
    with_certificate(certificate_pem, |certificate| {
        let digest = Sha256::digest(certificate.public_key().raw);
        format!("sha256:{}", hexadecimal(&digest))
    })
}

/// Whether the authority signed the certificate; says nothing about the time.
pub fn is_issued_by(certificate_pem: &str, authority_pem: &str) -> Result<bool, Error> {
    with_certificate(authority_pem, |authority| {
        with_certificate(certificate_pem, |certificate| {
            certificate.issuer().as_raw() == authority.subject().as_raw()
                && certificate
                    .verify_signature(Some(authority.public_key()))
                    .is_ok()
        })
    })?
}

/// The public key inside a certificate, in the form its algorithm defines.
pub(crate) fn public_key(certificate_pem: &str) -> Result<Vec<u8>, Error> {
    with_certificate(certificate_pem, |certificate| {
        certificate.public_key().subject_public_key.data.to_vec()
    })
}

/// Parses the first certificate of a PEM text and hands it to `read`.
pub(crate) fn with_certificate<T>(
    certificate_pem: &str,
    read: impl FnOnce(&X509Certificate<'_>) -> T,
) -> Result<T, Error> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate_pem.as_bytes())
        .map_err(|problem| unreadable(&problem))?;
    let certificate = pem.parse_x509().map_err(|problem| unreadable(&problem))?;
    Ok(read(&certificate))
}

fn unreadable(problem: &impl ToString) -> Error {
    Error::ReadCertificate {
        problem: problem.to_string(),
    }
}

fn common_name(name: &X509Name<'_>) -> String {
    name.iter_common_name()
        .find_map(|attribute| attribute.as_str().ok())
        .unwrap_or_default()
        .to_owned()
}

fn alternative_names(
    certificate: &X509Certificate<'_>,
) -> Result<(BTreeSet<String>, BTreeSet<IpAddr>), Error> {
    let extension = certificate
        .subject_alternative_name()
        .map_err(|problem| unreadable(&problem))?;
    let names = extension.map_or(&[][..], |extension| &extension.value.general_names);
    let dns_names = names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    let ip_addresses = names
        .iter()
        .filter_map(|name| match name {
            GeneralName::IPAddress(octets) => address(octets),
            _ => None,
        })
        .collect();
    Ok((dns_names, ip_addresses))
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(octets).ok().map(IpAddr::from))
}

fn timestamp(second: i64) -> Result<Timestamp, Error> {
    Timestamp::from_second(second).map_err(|problem| unreadable(&problem))
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing into a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

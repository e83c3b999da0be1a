//! The certificates of the admission server: what they are, and the pure decision when to make new
//! ones. The Secret that holds them is read and written by `keeper`.
//!
//! A new authority comes in two phases, so that the API server trusts it before a server shows a
//! leaf of it: first the new authority joins the bundle in front of the old one, and the leaf
//! stays; the leaf's next renewal is then issued by the new one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use butler_pki::{
    Authority, CertificateFacts, LeafRequest, LifeFraction, SecretText, Usage, Validity, inspect,
    is_issued_by, renewal_due, renewal_time,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
const LEAF_LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);

const AUTHORITY_CERTIFICATE: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const LEAF_CERTIFICATE: &str = "tls.crt";
const LEAF_KEY: &str = "tls.key";

const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----";

/// Under which names the API server calls the admission server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNames {
    /// Names.
    pub dns_names: Vec<String>,
    /// Addresses.
    pub ip_addresses: Vec<IpAddr>,
}

impl ServerNames {
    fn covered_by(&self, leaf: &CertificateFacts) -> bool {
        self.dns_names
            .iter()
            .all(|name| leaf.dns_names.contains(name))
            && self
                .ip_addresses
                .iter()
                .all(|address| leaf.ip_addresses.contains(address))
    }
}

/// What the Secret holds, without the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFacts {
    /// The authority that issues, whose key fits.
    pub authority: CertificateFacts,
    /// The leaf, if its key fits and an authority of the bundle issued it.
    pub leaf: Option<CertificateFacts>,
}

/// What to do about the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificatePlan {
    /// Nothing until then.
    Keep {
        /// When the next renewal is due.
        until: Timestamp,
    },
    /// Issue a new leaf by the authority we have.
    IssueLeaf,
    /// Put a new authority beside the old one.
    RotateAuthority,
    /// Begin anew.
    CreateAll,
}

/// Decides what to do about the certificates. `None` means that there is nothing usable.
pub fn plan_certificates(
    observed: Option<&SecretFacts>,
    names: &ServerNames,
    now: Timestamp,
) -> CertificatePlan {
    let Some(SecretFacts { authority, leaf }) = observed else {
        return CertificatePlan::CreateAll;
    };
    if now >= authority.not_after {
        return CertificatePlan::CreateAll;
    }
    let usable = leaf
        .as_ref()
        .filter(|leaf| names.covered_by(leaf) && leaf.not_before <= now && now < leaf.not_after);
    let Some(leaf) = usable else {
        return CertificatePlan::IssueLeaf;
    };
    if renewal_due(authority, now, authority_fraction()) {
        return CertificatePlan::RotateAuthority;
    }
    if renewal_due(leaf, now, LifeFraction::TWO_THIRDS) {
        return CertificatePlan::IssueLeaf;
    }
    let leaf = renewal_time(leaf, LifeFraction::TWO_THIRDS);
    CertificatePlan::Keep {
        until: leaf.min(renewal_time(authority, authority_fraction())),
    }
}

/// An authority is replaced when a tenth of its life, a year, is left: several lives of a leaf.
fn authority_fraction() -> LifeFraction {
    LifeFraction::new(9, 10).unwrap_or(LifeFraction::TWO_THIRDS)
}

/// Certificates and keys as the Secret holds them.
#[derive(Clone, Debug)]
pub(super) struct Material {
    /// Trusted authorities, the issuing one first.
    pub(super) bundle: String,
    authority_key: SecretText,
    leaf: String,
    leaf_key: SecretText,
}

impl Material {
    /// Takes the material from a Secret's data; `None` if a part is missing.
    pub(super) fn from_data(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let text = |key| String::from_utf8(data.get(key)?.0.clone()).ok();
        Some(Self {
            bundle: text(AUTHORITY_CERTIFICATE)?,
            authority_key: SecretText::new(text(AUTHORITY_KEY)?),
            leaf: text(LEAF_CERTIFICATE)?,
            leaf_key: SecretText::new(text(LEAF_KEY)?),
        })
    }

    /// The material as a Secret's data.
    pub(super) fn into_data(self) -> BTreeMap<String, ByteString> {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        BTreeMap::from([
            (AUTHORITY_CERTIFICATE.to_owned(), bytes(&self.bundle)),
            (AUTHORITY_KEY.to_owned(), bytes(self.authority_key.expose())),
            (LEAF_CERTIFICATE.to_owned(), bytes(&self.leaf)),
            (LEAF_KEY.to_owned(), bytes(self.leaf_key.expose())),
        ])
    }

    /// What the material is; `None` if it cannot issue certificates.
    pub(super) fn facts(&self) -> Option<SecretFacts> {
        let authority = inspect(&self.bundle).ok()?;
        Authority::from_pem(&self.bundle, &self.authority_key).ok()?;
        let trusted = certificates(&self.bundle)
            .any(|authority| is_issued_by(&self.leaf, authority).unwrap_or(false));
        let usable = trusted && self.certified_key().is_some();
        let leaf = inspect(&self.leaf).ok().filter(|_| usable);
        Some(SecretFacts { authority, leaf })
    }

    /// The leaf as the TLS server needs it; `None` if its parts do not fit together.
    pub(super) fn certified_key(&self) -> Option<CertifiedKey> {
        let chain = CertificateDer::pem_slice_iter(self.leaf.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().ok()?;
        let key = PrivateKeyDer::from_pem_slice(self.leaf_key.expose().as_bytes()).ok()?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        CertifiedKey::from_der(chain, key, &provider).ok()
    }

    /// A new authority and a leaf of it.
    pub(super) fn create(
        common_name: &str,
        names: &ServerNames,
        now: Timestamp,
    ) -> Result<Self, butler_pki::Error> {
        let authority = new_authority(common_name, now)?;
        let leaf = issue(&authority, names, now)?;
        Ok(Self {
            bundle: authority.certificate_pem().to_owned(),
            authority_key: authority.key_pem().clone(),
            leaf: leaf.certificate_pem,
            leaf_key: leaf.key_pem,
        })
    }

    /// The same authorities with a new leaf; authorities that are past their end are dropped.
    pub(super) fn with_new_leaf(
        &self,
        names: &ServerNames,
        now: Timestamp,
    ) -> Result<Self, butler_pki::Error> {
        let authority = Authority::from_pem(&self.bundle, &self.authority_key)?;
        let leaf = issue(&authority, names, now)?;
        Ok(Self {
            bundle: valid(&self.bundle, now),
            authority_key: self.authority_key.clone(),
            leaf: leaf.certificate_pem,
            leaf_key: leaf.key_pem,
        })
    }

    /// The same leaf with a new authority in front of those that are there.
    pub(super) fn with_new_authority(
        &self,
        common_name: &str,
        now: Timestamp,
    ) -> Result<Self, butler_pki::Error> {
        let authority = new_authority(common_name, now)?;
        let mut bundle = with_line_end(authority.certificate_pem());
        bundle.push_str(&valid(&self.bundle, now));
        Ok(Self {
            bundle,
            authority_key: authority.key_pem().clone(),
            ..self.clone()
        })
    }
}

fn new_authority(common_name: &str, now: Timestamp) -> Result<Authority, butler_pki::Error> {
    Authority::new(common_name, Validity::starting(now, AUTHORITY_LIFETIME))
}

fn issue(
    authority: &Authority,
    names: &ServerNames,
    now: Timestamp,
) -> Result<butler_pki::Leaf, butler_pki::Error> {
    let end = inspect(authority.certificate_pem())?.not_after;
    let validity = Validity::starting(now, LEAF_LIFETIME);
    let common_name = names.dns_names.first().cloned();
    authority.issue(&LeafRequest {
        common_name: common_name.unwrap_or_else(|| "admission".to_owned()),
        dns_names: names.dns_names.clone(),
        ip_addresses: names.ip_addresses.clone(),
        ..LeafRequest::new(
            Usage::Server,
            Validity {
                not_after: validity.not_after.min(end),
                ..validity
            },
        )
    })
}

fn certificates(bundle: &str) -> impl Iterator<Item = &str> {
    bundle
        .split_inclusive(END_OF_CERTIFICATE)
        .filter(|part| part.contains(END_OF_CERTIFICATE))
}

/// The certificates of a bundle that are not past their end.
fn valid(bundle: &str, now: Timestamp) -> String {
    certificates(bundle)
        .filter(|part| inspect(part).is_ok_and(|facts| now < facts.not_after))
        .map(|part| with_line_end(part.trim_start()))
        .collect()
}

fn with_line_end(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;

//! Certificate authorities: made new or read back, and issuing leaves.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256,
};

use crate::{Error, Leaf, LeafRequest, SecretText, Validity, facts, subject};

/// A certificate authority with its private key.
pub struct Authority {
    common_name: String,
    certificate_pem: String,
    key_pem: SecretText,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new self-signed authority with an ECDSA P-256 key.
    pub fn new(common_name: &str, validity: Validity) -> Result<Self, Error> {
        let parameters = parameters(common_name, validity)?;
        let key = generate_key()?;
        let certificate_pem = parameters
            .self_signed(&key)
            .map_err(|source| Error::Sign {
                common_name: common_name.to_owned(),
                source,
            })?
            .pem();
        Ok(Self {
            common_name: common_name.to_owned(),
            certificate_pem,
            key_pem: SecretText::new(key.serialize_pem()),
            issuer: Issuer::new(parameters, key),
        })
    }

    /// An authority read back from its PEM files, of any key type that TLS knows. Of a bundle, the first certificate counts.
    pub fn from_pem(certificate_pem: &str, key_pem: &SecretText) -> Result<Self, Error> {
        let facts = facts::inspect(certificate_pem)?;
        let common_name = facts.common_name;
        if !facts.is_ca {
            return Err(Error::NotAnAuthority { common_name });
        }
        let key = KeyPair::from_pem(key_pem.expose()).map_err(Error::ReadKey)?;
        if facts::public_key(certificate_pem)? != key.public_key_raw() {
            return Err(Error::KeyMismatch { common_name });
        }
        let issuer = Issuer::from_ca_cert_pem(certificate_pem, key).map_err(|source| {
            Error::ReadCertificate {
                problem: source.to_string(),
            }
        })?;
        Ok(Self {
            common_name,
            certificate_pem: certificate_pem.to_owned(),
            key_pem: key_pem.clone(),
            issuer,
        })
    }

    /// Vouches for another authority: a certificate of the other's name and key, signed by this one. Whoever trusts only this
    /// one trusts what the other issues, if it is shown with this certificate.
    pub fn vouch_for(&self, other: &Self, validity: Validity) -> Result<String, Error> {
        let mut parameters = parameters(&other.common_name, validity)?;
        // Both may have one name: the identifier tells who signed.
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters
            .signed_by(other.issuer.key(), &self.issuer)
            .map_err(|source| Error::Sign {
                common_name: other.common_name.clone(),
                source,
            })?;
        Ok(certificate.pem())
    }

    /// The certificate to be trusted.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The private key, to be kept in one place.
    pub const fn key_pem(&self) -> &SecretText {
        &self.key_pem
    }

    /// Issues a leaf with a new ECDSA P-256 key.
    pub fn issue(&self, request: &LeafRequest) -> Result<Leaf, Error> {
        let refused = |source| Error::Sign {
            common_name: request.common_name.clone(),
            source,
        };
        let key = generate_key()?;
        let mut certificate_pem = request
            .parameters()?
            .signed_by(&key, &self.issuer)
            .map_err(refused)?
            .pem();
        if request.organizations.len() > 1 {
            certificate_pem = subject::replace(&certificate_pem, request, self.issuer.key())?;
        }
        Ok(Leaf {
            certificate_pem,
            key_pem: SecretText::new(key.serialize_pem()),
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Authority")
            .field("common_name", &self.common_name)
            .finish_non_exhaustive()
    }
}

/// What the certificate of every authority says.
fn parameters(common_name: &str, validity: Validity) -> Result<CertificateParams, Error> {
    let mut parameters = CertificateParams::default();
    validity.write_into(&mut parameters)?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, common_name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    Ok(parameters)
}

fn generate_key() -> Result<KeyPair, Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(Error::GenerateKey)
}

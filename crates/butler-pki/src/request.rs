//! Requests for client certificates that somebody else signs, such as a cluster.

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SigningKey as _};

use crate::{
    Error, SecretText,
    subject::{TAG_BIT_STRING, TAG_SEQUENCE, element, pem, subject},
};

/// The version of a request, which is 0, encoded.
const VERSION: [u8; 3] = [0x02, 0x01, 0x00];
/// No attributes, encoded.
const NO_ATTRIBUTES: [u8; 2] = [0xa0, 0x00];
/// The algorithm ecdsa-with-SHA256 (1.2.840.10045.4.3.2), encoded.
const ECDSA_WITH_SHA256: [u8; 12] = [
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02,
];

/// A request, and the private key that the certificate will belong to. The subject of `rcgen` holds one organization, and a
/// user may be in several groups, so it is put together here.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    /// The request, PKCS #10.
    pub pem: String,
    /// The private key, PKCS #8.
    pub key_pem: SecretText,
}

impl CertificateRequest {
    /// Asks for a certificate that names a user (the common name) in groups (the organizations), with a new key.
    pub fn for_user(user: &str, groups: &[String]) -> Result<Self, Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(Error::GenerateKey)?;
        let content = [
            VERSION.as_slice(),
            &subject(user, groups),
            &key.subject_public_key_info(),
            &NO_ATTRIBUTES,
        ];
        let content = element(TAG_SEQUENCE, &content.concat());
        let signature = key.sign(&content).map_err(|source| Error::Sign {
            common_name: user.to_owned(),
            source,
        })?;
        // The first octet of a bit string counts its unused bits.
        let signature = element(TAG_BIT_STRING, &[&[0], signature.as_slice()].concat());
        let request = [content.as_slice(), &ECDSA_WITH_SHA256, &signature].concat();
        Ok(Self {
            pem: pem("CERTIFICATE REQUEST", &element(TAG_SEQUENCE, &request)),
            key_pem: SecretText::new(key.serialize_pem()),
        })
    }
}

#[cfg(test)]
mod tests {
    use x509_parser::{certification_request::X509CertificationRequest, prelude::FromDer as _};

    use super::*;

    #[test]
    fn a_request_names_the_user_and_all_groups_and_is_signed_with_its_key() {
        let groups = ["developers".to_owned(), "on-call".to_owned()];
        let request = CertificateRequest::for_user("jane", &groups).unwrap();
        let (_, parsed) = x509_parser::pem::parse_x509_pem(request.pem.as_bytes()).unwrap();
        let (rest, read) = X509CertificationRequest::from_der(&parsed.contents).unwrap();
        assert!(rest.is_empty());
        let subject = &read.certification_request_info.subject;
        assert_eq!(subject.to_string(), "O=developers, O=on-call, CN=jane");
        read.verify_signature().unwrap();
    }
}

//! The key with which a control plane signs service account tokens.

use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};

use crate::{Error, SecretText};

/// An RSA 2048 key pair: RS256 is the one signature that every reader of service account tokens knows.
#[derive(Clone, Debug)]
pub struct ServiceAccountKey {
    /// The key that signs, PKCS #8.
    pub private_pem: SecretText,
    /// The key that verifies.
    pub public_pem: String,
}

impl ServiceAccountKey {
    /// A new pair. Finding two primes takes a noticeable fraction of a second: keep it off the threads that serve requests.
    pub fn generate() -> Result<Self, Error> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)
            .map_err(Error::GenerateKey)?;
        Ok(Self {
            private_pem: SecretText::new(key.serialize_pem()),
            public_pem: key.public_key_pem(),
        })
    }
}

//! Whether a private key and what is public belong together.

use rcgen::KeyPair;

use crate::{Error, SecretText, facts};

/// Whether the private key belongs to the certificate; of a bundle, to its first certificate.
pub fn is_key_of(key_pem: &SecretText, certificate_pem: &str) -> Result<bool, Error> {
    let key = KeyPair::from_pem(key_pem.expose()).map_err(Error::ReadKey)?;
    Ok(facts::public_key(certificate_pem)? == key.public_key_raw())
}

/// The public key that belongs to a private one, PEM.
pub fn public_key_of(key_pem: &SecretText) -> Result<String, Error> {
    KeyPair::from_pem(key_pem.expose())
        .map(|key| key.public_key_pem())
        .map_err(Error::ReadKey)
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::{Authority, LeafRequest, ServiceAccountKey, Usage, Validity};

    #[test]
    fn a_key_belongs_to_the_certificate_it_was_made_with_and_to_no_other() {
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        let year = Validity::starting(now, SignedDuration::from_hours(8760));
        let authority = Authority::new("kubernetes", year).unwrap();
        let leaf = authority
            .issue(&LeafRequest::new(Usage::Client, year))
            .unwrap();
        assert!(is_key_of(authority.key_pem(), authority.certificate_pem()).unwrap());
        assert!(is_key_of(&leaf.key_pem, &leaf.certificate_pem).unwrap());
        assert!(!is_key_of(&leaf.key_pem, authority.certificate_pem()).unwrap());
    }

    #[test]
    fn the_public_key_of_a_service_account_key_is_the_one_it_came_with() {
        let key = ServiceAccountKey::generate().unwrap();
        assert_eq!(public_key_of(&key.private_pem).unwrap(), key.public_pem);
    }
}

//! Encryption of connections, the same for all drivers: the store's own authority is trusted, and no other.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::connection::{AUTHORITY, CLIENT, SettingsError, Tls};

/// The settings for rustls.
pub(crate) fn client_config(tls: &Tls) -> Result<ClientConfig, SettingsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(AUTHORITY, &tls.authority_pem)? {
        roots
            .add(certificate)
            .map_err(|error| refused(AUTHORITY, &error))?;
    }
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(AUTHORITY, &error))?
        .with_root_certificates(roots);
    match &tls.client {
        None => Ok(builder.with_no_client_auth()),
        Some(client) => {
            let key = PrivateKeyDer::from_pem_slice(client.key_pem.expose().as_bytes()).map_err(
                // What the parser says could quote the key.
                |_unreadable| refused(CLIENT, "its private key is no unencrypted PEM key"),
            )?;
            builder
                .with_client_auth_cert(certificates(CLIENT, &client.certificate_pem)?, key)
                .map_err(|error| refused(CLIENT, &error))
        }
    }
}

fn certificates(
    field: &'static str,
    pem: &str,
) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refused(field, &error))?;
    if certificates.is_empty() {
        return Err(refused(field, "there is no PEM certificate in it"));
    }
    Ok(certificates)
}

fn refused(field: &'static str, problem: &(impl ToString + ?Sized)) -> SettingsError {
    SettingsError::Certificate {
        field,
        problem: problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use butler_pki::SecretText;

    use super::*;
    use crate::connection::ClientCertificate;

    #[test]
    fn text_that_is_no_certificate_is_refused_without_showing_it() {
        let tls = Tls {
            authority_pem: "hunter2".to_owned(),
            authority_key_pem: None,
            client: None,
        };
        assert_eq!(
            client_config(&tls).unwrap_err().to_string(),
            "spec.tlsConfig.certificateAuthority.certificate cannot be used: there is no PEM certificate in it"
        );
    }

    #[test]
    fn a_key_that_cannot_be_read_is_not_shown() {
        let year = butler_pki::Validity::starting(
            "2026-01-01T00:00:00Z".parse().unwrap(),
            jiff::SignedDuration::from_hours(1),
        );
        let authority = butler_pki::Authority::new("ca", year).unwrap();
        let tls = Tls {
            authority_pem: authority.certificate_pem().to_owned(),
            authority_key_pem: None,
            client: Some(ClientCertificate {
                certificate_pem: authority.certificate_pem().to_owned(),
                key_pem: SecretText::new("hunter2"),
            }),
        };
        assert_eq!(
            client_config(&tls).unwrap_err().to_string(),
            "spec.tlsConfig.clientCertificate.certificate cannot be used: its private key is no unencrypted PEM key"
        );
    }
}

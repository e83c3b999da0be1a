//! What is asked of an authority, and what it hands out.

use std::net::IpAddr;

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType,
    string::Ia5String,
};

use crate::{Error, SecretText, Validity};

/// What a leaf certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// To prove the identity of a server.
    Server,
    /// To prove the identity of a client.
    Client,
    /// Both, as etcd peers need.
    Both,
}

impl Usage {
    fn extended_key_usages(self) -> Vec<ExtendedKeyUsagePurpose> {
        match self {
            Self::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Self::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Self::Both => {
                vec![
                    ExtendedKeyUsagePurpose::ServerAuth,
                    ExtendedKeyUsagePurpose::ClientAuth,
                ]
            }
        }
    }
}

/// A leaf certificate to be issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafRequest {
    /// Whom it names; Kubernetes reads it as the user.
    pub common_name: String,
    /// Kubernetes reads each as a group.
    pub organizations: Vec<String>,
    /// What it may be used for.
    pub usage: Usage,
    /// Names under which a server may be reached; `*.` as the first label is a wildcard.
    pub dns_names: Vec<String>,
    /// Addresses under which a server may be reached.
    pub ip_addresses: Vec<IpAddr>,
    /// From when to when.
    pub validity: Validity,
}

impl LeafRequest {
    /// A request that names nobody yet: the base for struct update syntax.
    pub const fn new(usage: Usage, validity: Validity) -> Self {
        Self {
            common_name: String::new(),
            organizations: Vec::new(),
            usage,
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            validity,
        }
    }

    pub(crate) fn parameters(&self) -> Result<CertificateParams, Error> {
        let mut parameters = CertificateParams::default();
        self.validity.write_into(&mut parameters)?;
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        if let [organization] = self.organizations.as_slice() {
            parameters
                .distinguished_name
                .push(DnType::OrganizationName, organization.as_str());
        }
        parameters
            .distinguished_name
            .push(DnType::CommonName, self.common_name.as_str());
        parameters.subject_alt_names = self.alternative_names()?;
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = self.usage.extended_key_usages();
        // Two authorities of one name exist while one replaces the other: the identifier tells them apart.
        parameters.use_authority_key_identifier_extension = true;
        Ok(parameters)
    }

    fn alternative_names(&self) -> Result<Vec<SanType>, Error> {
        let dns_names = self.dns_names.iter().map(|name| {
            Ia5String::try_from(name.as_str())
                .map(SanType::DnsName)
                .map_err(|_not_ascii| Error::DnsName { name: name.clone() })
        });
        let ip_addresses = self
            .ip_addresses
            .iter()
            .map(|address| Ok(SanType::IpAddress(*address)));
        dns_names.chain(ip_addresses).collect()
    }
}

/// A leaf certificate and its private key.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The certificate.
    pub certificate_pem: String,
    /// Its private key, PKCS #8.
    pub key_pem: SecretText,
}

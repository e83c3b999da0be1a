//! Reads, makes and writes the Secrets. Private keys are here, and nowhere else.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use butler_api::keys::{labels, values};
use butler_pki::{Authority, Leaf, LeafRequest, SecretText, Usage, Validity};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

use super::{
    COMPONENT, Error,
    plan::{AUTHORITY_FILE, Found, Part, Wish},
};
use crate::secrets::{Data, pair, text};

/// How long an authority lasts.
const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(3650 * 24);
/// How long what it signs lasts.
const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The Secrets of a store.
pub(super) struct Vault {
    secrets: Api<Secret>,
    store: String,
}

impl Vault {
    pub(super) fn new(client: Client, namespace: &str, store: &str) -> Self {
        Self {
            secrets: Api::namespaced(client, namespace),
            store: store.to_owned(),
        }
    }

    /// The Secrets of these parts, as far as they are there.
    pub(super) async fn open(
        &self,
        parts: impl IntoIterator<Item = Part>,
    ) -> Result<Contents, Error> {
        let mut contents = BTreeMap::new();
        for part in parts {
            let name = part.secret(&self.store);
            let secret = self.secrets.get_opt(&name).await;
            let secret = secret.map_err(|source| Error::api("read", &name, source))?;
            contents.insert(part, secret);
        }
        Ok(Contents(contents))
    }

    /// Writes a Secret, over the version that was read or where there was none; whoever was quicker wins.
    pub(super) async fn keep(
        &self,
        part: Part,
        data: Data,
        contents: &Contents,
    ) -> Result<(), Error> {
        let name = part.secret(&self.store);
        let parameters = PostParams::default();
        let written = match contents.secret(part) {
            None => {
                let secret = self.secret(&name, data);
                self.secrets.create(&parameters, &secret).await
            }
            Some(held) => {
                let mut secret = held.clone();
                secret.data.get_or_insert_default().extend(data);
                self.secrets.replace(&name, &parameters, &secret).await
            }
        };
        written
            .map(drop)
            .map_err(|source| Error::api("write", &name, source))
    }

    fn secret(&self, name: &str, data: Data) -> Secret {
        let words = [
            ("app.kubernetes.io/name", COMPONENT),
            ("app.kubernetes.io/instance", self.store.as_str()),
            (labels::PART_OF, values::PART_OF_BUTLER),
            (labels::MANAGED_BY, values::MANAGED_BY_BUTLER),
        ];
        let words = words.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(words.into()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..Secret::default()
        }
    }
}

/// Secrets as they were read.
pub(super) struct Contents(BTreeMap<Part, Option<Secret>>);

impl Contents {
    fn secret(&self, part: Part) -> Option<&Secret> {
        self.0.get(&part)?.as_ref()
    }

    fn data(&self, part: Part) -> Option<&Data> {
        self.secret(part)?.data.as_ref()
    }

    /// What plans may know of them.
    pub(super) fn found(&self) -> BTreeMap<Part, Found> {
        let found = |part: Part, secret: Option<&Secret>| {
            let Some(secret) = secret else {
                return Found::Absent;
            };
            let data = secret.data.clone().unwrap_or_default();
            let (certificate, key) = part.files();
            match pair(&data, certificate, key) {
                Ok(pair) => Found::Usable {
                    pair: Box::new(pair),
                    authority_pem: text(&data, AUTHORITY_FILE),
                },
                Err(problem) => Found::Unusable(problem),
            }
        };
        let parts = self.0.iter();
        parts
            .map(|(part, secret)| (*part, found(*part, secret.as_ref())))
            .collect()
    }

    /// A certificate and its key, as they are kept.
    pub(super) fn leaf(&self, part: Part) -> Option<Leaf> {
        let (certificate, key) = part.files();
        let data = self.data(part)?;
        Some(Leaf {
            certificate_pem: text(data, certificate)?,
            key_pem: SecretText::new(text(data, key)?),
        })
    }

    /// An authority that can sign.
    pub(super) fn authority(&self, part: Part, store: &str) -> Result<Authority, Error> {
        let secret = part.secret(store);
        let Some(held) = self.leaf(part) else {
            return Err(Error::NoAuthority { secret });
        };
        Authority::from_pem(&held.certificate_pem, &held.key_pem)
            .map_err(|source| Error::Certificate { secret, source })
    }
}

/// A new authority, as its Secret holds it.
pub(super) fn new_authority(wish: &Wish, part: Part, now: Timestamp) -> Result<Data, Error> {
    let validity = Validity::starting(now, AUTHORITY_LIFE);
    let authority =
        Authority::new(&wish.common_name(part), validity).map_err(|source| Error::Certificate {
            secret: part.secret(&wish.store),
            source,
        })?;
    let (certificate, key) = part.files();
    Ok(Data::from([
        (certificate.to_owned(), bytes(authority.certificate_pem())),
        (key.to_owned(), bytes(authority.key_pem().expose())),
    ]))
}

/// A certificate that an authority signs; it does not outlive the authority.
pub(super) fn new_leaf(
    wish: &Wish,
    part: Part,
    authority: &Authority,
    now: Timestamp,
) -> Result<Leaf, Error> {
    let refused = |source| Error::Certificate {
        secret: part.secret(&wish.store),
        source,
    };
    let end = butler_pki::inspect(authority.certificate_pem())
        .map_err(refused)?
        .not_after;
    let mut validity = Validity::starting(now, LEAF_LIFE);
    validity.not_after = validity.not_after.min(end);
    let usage = match part {
        Part::Peer => Usage::Both,
        Part::Administrator => Usage::Client,
        Part::Server | Part::Authority | Part::PeerAuthority => Usage::Server,
    };
    let dns_names: Vec<String> = wish.names_of(part).into_iter().collect();
    let loopback = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    let ip_addresses = if dns_names.is_empty() {
        Vec::new()
    } else {
        loopback.to_vec()
    };
    let request = LeafRequest {
        common_name: wish.common_name(part),
        dns_names,
        ip_addresses,
        ..LeafRequest::new(usage, validity)
    };
    authority.issue(&request).map_err(refused)
}

/// A certificate as its Secret holds it, with the authority beside it.
pub(super) fn leaf_data(part: Part, leaf: &Leaf, authority: &Authority) -> Data {
    let (certificate, key) = part.files();
    Data::from([
        (
            AUTHORITY_FILE.to_owned(),
            bytes(authority.certificate_pem()),
        ),
        (certificate.to_owned(), bytes(&leaf.certificate_pem)),
        (key.to_owned(), bytes(leaf.key_pem.expose())),
    ])
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

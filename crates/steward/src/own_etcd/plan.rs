//! Which certificates of the etcd have to be made. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use butler_pki::{LifeFraction, is_issued_by, renewal_due};
use jiff::Timestamp;

use crate::secrets::{Pair, authority_renewal};

/// One of the Secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Who signs for the servers and for all clients; tenants get their certificates from it.
    Authority,
    /// Who signs for the members among themselves. Another one, so that no tenant can pass for a member.
    PeerAuthority,
    /// What members show to clients.
    Server,
    /// What members show to each other.
    Peer,
    /// What the user root shows; Steward administers the store with it.
    Administrator,
}

impl Part {
    /// The name of its Secret, in a store of this name.
    pub fn secret(self, store: &str) -> String {
        let part = match self {
            Self::Authority => "ca",
            Self::PeerAuthority => "peer-ca",
            Self::Server => "server",
            Self::Peer => "peer",
            Self::Administrator => "root-client",
        };
        format!("{store}-{part}")
    }

    /// The keys of the certificate and of its private key in the Secret.
    pub const fn files(self) -> (&'static str, &'static str) {
        match self {
            Self::Authority | Self::PeerAuthority => (AUTHORITY_FILE, "ca.key"),
            Self::Server | Self::Peer | Self::Administrator => ("tls.crt", "tls.key"),
        }
    }

    /// Who signs it; an authority signs itself.
    pub const fn issuer(self) -> Option<Self> {
        match self {
            Self::Authority | Self::PeerAuthority => None,
            Self::Server | Self::Administrator => Some(Self::Authority),
            Self::Peer => Some(Self::PeerAuthority),
        }
    }
}

/// The key of the authority's certificate, in the Secrets of all parts.
pub(super) const AUTHORITY_FILE: &str = "ca.crt";

/// What is to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Name of the store; the names of its Secrets begin with it.
    pub store: String,
    /// What is looked after.
    pub parts: BTreeSet<Part>,
    /// Names under which members are reached, by clients and by each other.
    pub names: BTreeSet<String>,
}

impl Wish {
    /// Whom a certificate names. etcd takes the common name of a client for its user.
    pub fn common_name(&self, part: Part) -> String {
        match part {
            Part::Administrator => super::ROOT.to_owned(),
            part => part.secret(&self.store),
        }
    }

    /// The names that a certificate is good for.
    pub fn names_of(&self, part: Part) -> BTreeSet<String> {
        match part {
            Part::Server | Part::Peer => {
                let own = std::iter::once(super::LOCALHOST.to_owned());
                self.names.iter().cloned().chain(own).collect()
            }
            Part::Authority | Part::PeerAuthority | Part::Administrator => BTreeSet::new(),
        }
    }
}

/// What is in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: there is no such Secret.
    Absent,
    /// Something that is no certificate with its key: what is wrong with it.
    Unusable(String),
    /// A certificate with its key.
    Usable {
        /// The certificate.
        pair: Box<Pair>,
        /// The authority that lies beside it.
        authority_pem: Option<String>,
    },
}

/// Why a certificate is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is none that could be used.
    Missing,
    /// Another authority signed it, or another lies beside it.
    OtherAuthority,
    /// It names somebody else, or not all names under which members are reached.
    OtherNames,
    /// It ends soon.
    EndsSoon,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Missing => "there is none",
            Self::OtherAuthority => "it is of another authority",
            Self::OtherNames => "it does not have all names",
            Self::EndsSoon => "it ends soon",
        })
    }
}

/// A certificate to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Which.
    pub part: Part,
    /// Why.
    pub reason: Reason,
}

/// What is there and must not be written over, and cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the authority in the Secret {secret} cannot be used: {problem}; put it back from a backup, or delete the Secret to have \
     another one made: then restart the members, and every control plane gets a new certificate for the store"
)]
pub struct Refusal {
    /// The Secret.
    pub secret: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What has to be made now. Authorities come first, alone: what they sign is planned once they are there.
pub fn plan(
    wish: &Wish,
    found: &BTreeMap<Part, Found>,
    now: Timestamp,
) -> Result<Vec<Order>, Refusal> {
    let (authorities, leaves): (Vec<Part>, Vec<Part>) = wish
        .parts
        .iter()
        .copied()
        .partition(|part| part.issuer().is_none());
    let mut orders = Vec::new();
    for part in authorities {
        if is_missing(wish, found, part, now)? {
            let reason = Reason::Missing;
            orders.push(Order { part, reason });
        }
    }
    if orders.is_empty() {
        let needed = leaves.into_iter().filter_map(|part| {
            let reason = leaf(wish, found, part, now)?;
            Some(Order { part, reason })
        });
        orders.extend(needed);
    }
    Ok(orders)
}

/// An authority that ends before long. It is not replaced here: members learn of another one only when they start, and control
/// planes must know both before the next one signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The Secret.
    pub secret: String,
    /// When it ends.
    pub end: Timestamp,
}

impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the authority in the Secret {} ends at {}, and nothing in the store works after that; replace it before: docs/architecture/steward.md, \"The authority of a data store\", has the steps",
            self.secret, self.end
        )
    }
}

/// The authorities that end before long.
pub fn endings(wish: &Wish, found: &BTreeMap<Part, Found>, now: Timestamp) -> Vec<Ending> {
    let authorities = found.iter().filter(|(part, _)| part.issuer().is_none());
    let ending = authorities.filter_map(|(part, found)| match found {
        Found::Usable { pair, .. } if authority_renewal(&pair.facts) <= now => Some(Ending {
            secret: part.secret(&wish.store),
            end: pair.facts.not_after,
        }),
        _ => None,
    });
    ending.collect()
}

/// Whether there is no authority. One that is there is kept: all certificates of tenants hang on it.
fn is_missing(
    wish: &Wish,
    found: &BTreeMap<Part, Found>,
    part: Part,
    now: Timestamp,
) -> Result<bool, Refusal> {
    let problem = match found.get(&part) {
        None | Some(Found::Absent) => return Ok(true),
        Some(Found::Unusable(problem)) => problem.clone(),
        Some(Found::Usable { pair, .. }) if !pair.facts.is_ca => {
            "its certificate may not issue others".to_owned()
        }
        Some(Found::Usable { pair, .. }) if pair.facts.not_after <= now => {
            format!("it ended on {}", pair.facts.not_after)
        }
        Some(Found::Usable { .. }) => return Ok(false),
    };
    Err(Refusal {
        secret: part.secret(&wish.store),
        problem,
    })
}

/// Why a leaf has to be made, if it has to.
fn leaf(wish: &Wish, found: &BTreeMap<Part, Found>, part: Part, now: Timestamp) -> Option<Reason> {
    let Some(Found::Usable {
        pair,
        authority_pem,
    }) = found.get(&part)
    else {
        return Some(Reason::Missing);
    };
    let issuer = part.issuer().and_then(|issuer| found.get(&issuer));
    let is_signed = match issuer {
        Some(Found::Usable { pair: issuer, .. }) => {
            let trusted = authority_pem.as_ref() == Some(&issuer.certificate_pem);
            trusted && is_issued_by(&pair.certificate_pem, &issuer.certificate_pem).unwrap_or(false)
        }
        _ => false,
    };
    let facts = &pair.facts;
    if !is_signed {
        Some(Reason::OtherAuthority)
    } else if facts.common_name != wish.common_name(part)
        || !facts.dns_names.is_superset(&wish.names_of(part))
    {
        Some(Reason::OtherNames)
    } else if renewal_due(facts, now, LifeFraction::TWO_THIRDS) {
        Some(Reason::EndsSoon)
    } else {
        None
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

//! What is to be made: recipes without ingredients. Orders are part of plans, so nothing in them is secret.

use serde::Serialize;

use super::rotation::Step;
use crate::{addresses::CertificateNames, names::SecretRole};

/// Who an authority is, and what its files are called before the dot; nothing of a Secret that holds none.
pub(super) const fn authority_of(role: SecretRole) -> Option<(&'static str, &'static str)> {
    match role {
        SecretRole::Authority => Some(("kubernetes", "ca")),
        SecretRole::FrontProxyAuthority => Some(("front-proxy-ca", "front-proxy-ca")),
        _ => None,
    }
}

/// Over what an order may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Guard {
    /// There must be nothing.
    Absent,
    /// There must be this very version.
    Version {
        /// The object's UID.
        uid: String,
        /// The version that was judged.
        resource_version: String,
    },
}

/// One Secret to be made, or made anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Order {
    /// Which.
    pub role: SecretRole,
    /// Why, in words that follow the Secret's name.
    pub reason: String,
    /// Over what it may be written.
    pub guard: Guard,
    /// What goes into it.
    pub recipe: Recipe,
}

/// What goes into a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Recipe {
    /// A new certificate authority.
    Authority {
        /// Its name.
        common_name: &'static str,
        /// What its files are called before the dot.
        file: &'static str,
    },
    /// The next step in the replacement of an authority.
    Rotate(Step),
    /// A new key pair of service account tokens.
    ServiceAccountKey,
    /// A certificate.
    Leaf {
        /// The Secret of the authority that issues it.
        issuer: SecretRole,
        /// What its files are called before the dot.
        file: &'static str,
        /// What it says.
        leaf: LeafWish,
    },
    /// Kubeconfigs.
    Kubeconfigs {
        /// One for each person or program.
        wishes: Vec<KubeconfigWish>,
    },
}

impl Recipe {
    /// Whether others are made from it.
    pub fn is_root(&self) -> bool {
        matches!(
            self,
            Self::Authority { .. } | Self::Rotate(_) | Self::ServiceAccountKey
        )
    }
}

/// What a certificate says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeafWish {
    /// Whom it names.
    pub common_name: String,
    /// The groups of whom it names.
    pub organizations: Vec<String>,
    /// Where it serves; a client's certificate if absent.
    pub serves: Option<CertificateNames>,
}

/// Kubeconfigs of one person or program: the same certificate, by several ways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KubeconfigWish {
    /// The user's name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The keys of the Secret, and the URL of the server in each.
    pub servers: Vec<(String, String)>,
}

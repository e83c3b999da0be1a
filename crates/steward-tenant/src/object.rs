//! Which object of the tenant is meant.

use std::fmt;

use butler_runtime::object::{Kind, ObjectKey};

/// Namespace of the system's own objects.
pub(crate) const KUBE_SYSTEM: &str = "kube-system";
/// Namespace that everybody may read.
pub(crate) const KUBE_PUBLIC: &str = "kube-public";

/// One object in the tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, if it has one, and name.
    pub key: ObjectKey,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.key)
    }
}

//! Secrets that a control plane needs no more. Pure.
//!
//! Owns: which of them may be removed. Only those of parts that can be switched off: what merely cannot be made yet, for want of
//! an address, stays. And only what is ours beyond doubt: our labels under the name that we give, the control plane as its owner, and
//! the very content that we wrote.

use std::collections::BTreeMap;

use butler_runtime::object::ObjectKey;

use super::{facts::Seen, wanted::Wanted};
use crate::names::{Names, SecretRole};

/// The Secrets that come and go with a part of the spec.
const OPTIONAL: [SecretRole; 2] = [
    SecretRole::KonnectivityCertificate,
    SecretRole::KonnectivityKubeconfig,
];

/// The Secrets that are ours and not wanted any more.
pub fn leftovers<'a>(
    names: &Names,
    wanted: &[Wanted],
    secrets: &'a BTreeMap<SecretRole, Seen>,
) -> Vec<(SecretRole, &'a Seen)> {
    let unwanted = OPTIONAL
        .into_iter()
        .filter(|role| !wanted.iter().any(|wanted| wanted.role == *role));
    let found = unwanted.filter_map(|role| Some((role, secrets.get(&role)?)));
    found
        .filter(|(role, seen)| is_ours(names, *role, seen))
        .collect()
}

fn is_ours(names: &Names, role: SecretRole, seen: &Seen) -> bool {
    let secret = &seen.value;
    let of_us = ObjectKey::namespaced(names.namespace(), names.name());
    secret.tenant == of_us
        && secret.role == Some(role)
        && secret.owner.as_deref() == Some(names.uid())
        && secret.written.as_ref() == Some(&secret.checksum)
        && seen.facts.key == names.secret(role)
        && !secret.is_paused
        && !seen.facts.deleting
}

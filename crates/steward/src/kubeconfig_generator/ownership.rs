//! Whose a Secret is that has the name of a generator's kubeconfig. Pure.
//!
//! A name proves nothing: a generator may be called like a Secret of control planes (`ca`), and two ways may lead to one name
//! (`a` and `b-c`, `a-b` and `c`). A Secret is a generator's if its labels say so, and say for which control plane.

use butler_runtime::object::ObjectKey;

use super::{observe::Target, secret_of};
use crate::{names::SecretRole, secrets::Seen};

/// The control plane that a generator made a Secret for; none if the Secret is not the generator's.
pub(super) fn made_for(seen: &Seen, generator: &str) -> Option<ObjectKey> {
    let (secret, key) = (&seen.value, &seen.facts.key);
    // What a control plane has taken for its own keeps labels of ours beside its own.
    let ours = secret.role.is_none() && secret.generator.as_deref() == Some(generator);
    let control_plane = ObjectKey {
        namespace: key.namespace.clone(),
        name: secret.generated_for.clone().filter(|_| ours)?,
    };
    // A copy under another name is whoever's who made it.
    (secret_of(&control_plane, generator) == *key).then_some(control_plane)
}

/// The control plane, among those that exist, which keeps a Secret of its own under this name, or will do so.
pub(super) fn reserved_by(
    secret: &ObjectKey,
    exists: impl Fn(&ObjectKey) -> bool,
) -> Option<ObjectKey> {
    let owners = SecretRole::ALL.into_iter().filter_map(|role| {
        let name = secret.name.strip_suffix(role.as_str())?;
        Some(ObjectKey {
            namespace: secret.namespace.clone(),
            name: name.strip_suffix('-')?.to_owned(),
        })
    });
    owners.into_iter().find(exists)
}

/// Whose the Secret is if it is neither free nor the generator's, and what to do.
pub(super) fn taken(target: &Target, generator: &str) -> Option<String> {
    let key = secret_of(&target.control_plane, generator);
    if let Some(owner) = &target.reserved_by {
        return Some(format!(
            "the Secret {key} is one of the TenantControlPlane {owner}'s own and is left alone; give the generator another name"
        ));
    }
    let seen = target.secret.as_ref()?;
    if made_for(seen, generator).as_ref() == Some(&target.control_plane) {
        return None;
    }
    let other = seen.value.generator.as_deref();
    let other = other.and_then(|other| Some((other, made_for(seen, other)?)));
    Some(match other {
        Some((other, control_plane)) => format!(
            "the Secret {key} is the KubeconfigGenerator {other}'s for the TenantControlPlane {control_plane} and is left alone; give one of the generators another name"
        ),
        None => format!(
            "the Secret {key} is somebody else's and is left alone; rename or remove it, or give the generator another name"
        ),
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn reserved(name: &str, existing: &[&str]) -> Option<String> {
        let secret = ObjectKey::namespaced("payments", name);
        reserved_by(&secret, |owner| {
            assert_eq!(owner.namespace.as_deref(), Some("payments"));
            existing.contains(&owner.name.as_str())
        })
        .map(|owner| owner.name)
    }

    #[test]
    fn every_secret_of_a_control_plane_is_its_own_before_it_is_there() {
        for role in SecretRole::ALL {
            assert_eq!(
                reserved(&format!("shop-{role}"), &["shop"]).as_deref(),
                Some("shop")
            );
        }
        assert_eq!(reserved("shop-monitoring", &["shop"]), None);
        assert_eq!(reserved("shop-ca", &["web"]), None);
        // The generator `web-ca` and the control plane `shop`.
        let both = ["shop", "shop-web"];
        assert_eq!(reserved("shop-web-ca", &both).as_deref(), Some("shop-web"));
        assert_eq!(reserved("ca", &both), None);
    }
}

//! Whether the Secrets of a control plane hold what they must, and what is to be made if not. Pure.

use std::collections::BTreeMap;

use butler_pki::{CertificateFacts, LifeFraction, is_issued_by, renewal_due, renewal_time};
use jiff::Timestamp;

use super::{
    content::{KubeconfigFacts, Pair},
    facts::{Content, Seen},
    order::{Guard, KubeconfigWish, LeafWish, Order, Recipe},
    rotation::Step,
    wanted::Wanted,
};
use crate::names::SecretRole;

/// What a look at the Secrets found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Review {
    /// What is to be made, those first that others are made from.
    pub orders: Vec<Order>,
    /// What somebody brought that cannot be used, in sentences.
    pub refused: Vec<String>,
    /// When the first certificate is to be renewed.
    pub renewal: Option<Timestamp>,
}

/// What becomes of one Secret.
enum Judgement {
    /// It stays; a certificate until then.
    Good(Option<Timestamp>),
    /// It is made, or made anew.
    Make(String),
    /// The replacement of an authority goes a step further.
    Rotate(Step),
    /// It is somebody else's, and not usable.
    Refuse(String),
    /// It cannot be judged or made before its authority is there.
    Wait,
}

/// An authority as those it issued are judged by it.
enum Issuer<'a> {
    /// It stays.
    Stays(&'a Pair),
    /// It will be another one in a moment.
    Changes,
    /// There is none that can be used.
    Unusable,
}

/// Compares what the Secrets hold with what they must.
///
/// `settled` says that all that runs trusts the authorities that the Secrets hold.
pub fn review(
    wanted: &[Wanted],
    secrets: &BTreeMap<SecretRole, Seen>,
    settled: bool,
    now: Timestamp,
) -> Review {
    let mut review = Review::default();
    let mut issuers = BTreeMap::new();
    let (roots, others): (Vec<_>, Vec<_>) =
        wanted.iter().partition(|wanted| wanted.recipe.is_root());
    for root in roots {
        let seen = secrets.get(&root.role);
        let judgement = judge_root(root.role, seen, settled, now);
        let issuer = match &judgement {
            Judgement::Good(_) | Judgement::Rotate(Step::Introduce | Step::Retire) => {
                seen.and_then(pair_of).map(Issuer::Stays)
            }
            Judgement::Make(_) | Judgement::Rotate(Step::Promote) => Some(Issuer::Changes),
            Judgement::Refuse(_) | Judgement::Wait => Some(Issuer::Unusable),
        };
        issuers.extend(issuer.map(|issuer| (root.role, issuer)));
        review.take(root, seen, judgement);
    }
    for other in others {
        let seen = secrets.get(&other.role);
        let issuer = match &other.recipe {
            Recipe::Leaf { issuer, .. } => *issuer,
            _ => SecretRole::Authority,
        };
        let judgement = match issuers.get(&issuer) {
            None | Some(Issuer::Unusable) => Judgement::Wait,
            Some(_) if seen.is_none() => Judgement::Make("is missing".to_owned()),
            Some(Issuer::Changes) => Judgement::Make("gets a new authority".to_owned()),
            Some(Issuer::Stays(authority)) => seen.map_or(Judgement::Wait, |seen| {
                judge(&other.recipe, seen, authority, now)
            }),
        };
        review.take(other, seen, judgement);
    }
    review
}

impl Review {
    fn take(&mut self, wanted: &Wanted, seen: Option<&Seen>, judgement: Judgement) {
        match judgement {
            Judgement::Good(renewal) => {
                self.renewal = self.renewal.into_iter().chain(renewal).min();
            }
            Judgement::Make(reason) => self.orders.push(Order {
                role: wanted.role,
                reason,
                guard: seen.map_or(Guard::Absent, Guard::from),
                recipe: wanted.recipe.clone(),
            }),
            Judgement::Rotate(step) => self.orders.push(Order {
                role: wanted.role,
                reason: reason(step).to_owned(),
                guard: seen.map_or(Guard::Absent, Guard::from),
                recipe: Recipe::Rotate(step),
            }),
            Judgement::Refuse(why) => self.refused.push(why),
            Judgement::Wait => {}
        }
    }
}

fn reason(step: Step) -> &'static str {
    match step {
        Step::Introduce => "gets a second authority, which is trusted from now on",
        Step::Promote => "signs with the new authority from now on",
        Step::Retire => "no longer trusts the old authority",
    }
}

fn pair_of(seen: &Seen) -> Option<&Pair> {
    match &seen.value.content {
        Content::Pair(Ok(pair)) => Some(pair),
        _ => None,
    }
}

/// An authority and a key of tokens are kept as long as they can be used: everything depends on them. What somebody else
/// brought is never overwritten.
fn judge_root(role: SecretRole, seen: Option<&Seen>, settled: bool, now: Timestamp) -> Judgement {
    let Some(seen) = seen else {
        return Judgement::Make("is missing".to_owned());
    };
    let secret = &seen.value;
    let defect = match &secret.content {
        Content::Pair(Ok(pair)) if !pair.facts.is_ca => {
            Some("its certificate is no certificate authority".to_owned())
        }
        Content::Pair(Ok(pair)) if pair.facts.not_after <= now => Some(format!(
            "its certificate expired at {}",
            pair.facts.not_after
        )),
        Content::Pair(Ok(_)) | Content::ServiceAccount(Ok(())) => None,
        Content::Pair(Err(defect)) | Content::ServiceAccount(Err(defect)) => Some(defect.clone()),
        _ => Some("it holds something else".to_owned()),
    };
    // Nodes trust the cluster's authority, so it is replaced step by step.
    let by_steps = role == SecretRole::Authority;
    match defect {
        None if by_steps => secret.rotation.due(settled, now).map_or_else(
            || Judgement::Good(secret.rotation.retirement()),
            Judgement::Rotate,
        ),
        None if secret.rotate => Judgement::Make("is asked to be replaced".to_owned()),
        None => Judgement::Good(None),
        Some(defect) if secret.is_ours() => Judgement::Make(format!("is unusable: {defect}")),
        Some(defect) => {
            let key = &seen.facts.key;
            Judgement::Refuse(format!(
                "the Secret {key} was brought by somebody else and cannot be used: {defect}; correct it, or delete it to have one made"
            ))
        }
    }
}

fn judge(recipe: &Recipe, seen: &Seen, authority: &Pair, now: Timestamp) -> Judgement {
    let secret = &seen.value;
    if secret.rotate {
        return Judgement::Make("is asked to be replaced".to_owned());
    }
    let found = match (recipe, &secret.content) {
        (Recipe::Leaf { leaf, .. }, Content::Pair(Ok(pair))) => {
            check_leaf(leaf, pair, authority, now)
        }
        (Recipe::Leaf { .. }, Content::Pair(Err(defect))) => Err(format!("is unusable: {defect}")),
        (Recipe::Kubeconfigs { wishes }, Content::Kubeconfigs(found)) => {
            check_kubeconfigs(wishes, found, authority, now)
        }
        _ => Err("holds something else".to_owned()),
    };
    found.map_or_else(Judgement::Make, |renewal| Judgement::Good(Some(renewal)))
}

fn check_leaf(
    wish: &LeafWish,
    pair: &Pair,
    authority: &Pair,
    now: Timestamp,
) -> Result<Timestamp, String> {
    if let Some(names) = &wish.serves {
        let facts = &pair.facts;
        let dns_names = names.dns_names.difference(&facts.dns_names).cloned();
        let addresses = names.ip_addresses.difference(&facts.ip_addresses);
        let missing: Vec<_> = dns_names
            .chain(addresses.map(ToString::to_string))
            .collect();
        if !missing.is_empty() {
            return Err(format!("lacks the names {}", missing.join(", ")));
        }
    }
    check_identity(&wish.common_name, &wish.organizations, &pair.facts)?;
    check_life(&pair.certificate_pem, &pair.facts, authority, now)
}

fn check_identity(
    common_name: &str,
    groups: &[String],
    facts: &CertificateFacts,
) -> Result<(), String> {
    let same = facts.common_name == common_name
        && facts.organizations.len() == groups.len()
        && groups
            .iter()
            .all(|group| facts.organizations.contains(group));
    if same {
        Ok(())
    } else {
        Err(format!("names {} instead of {common_name}", facts.subject))
    }
}

/// Until when a certificate stays, or why it does not.
fn check_life(
    certificate_pem: &str,
    facts: &CertificateFacts,
    authority: &Pair,
    now: Timestamp,
) -> Result<Timestamp, String> {
    if !is_issued_by(certificate_pem, &authority.certificate_pem).unwrap_or(false) {
        return Err("comes from another authority".to_owned());
    }
    if renewal_due(facts, now, LifeFraction::TWO_THIRDS) {
        return Err(format!(
            "is due for renewal: it expires at {}",
            facts.not_after
        ));
    }
    Ok(renewal_time(facts, LifeFraction::TWO_THIRDS))
}

/// Until when kubeconfigs stay, or why they do not.
pub(crate) fn check_kubeconfigs(
    wishes: &[KubeconfigWish],
    found: &BTreeMap<String, Result<KubeconfigFacts, String>>,
    authority: &Pair,
    now: Timestamp,
) -> Result<Timestamp, String> {
    let mut first = Timestamp::MAX;
    for wish in wishes {
        for (key, server) in &wish.servers {
            let kubeconfig = match found.get(key) {
                None => return Err(format!("lacks {key}")),
                Some(Err(defect)) => return Err(format!("has an unusable {key}: {defect}")),
                Some(Ok(kubeconfig)) => kubeconfig,
            };
            if kubeconfig.server != *server {
                return Err(format!(
                    "leads to {} instead of {server}",
                    kubeconfig.server
                ));
            }
            if kubeconfig.authority_pem != authority.certificate_pem {
                return Err("trusts another authority".to_owned());
            }
            check_identity(&wish.user, &wish.groups, &kubeconfig.facts)?;
            let renewal = check_life(&kubeconfig.client_pem, &kubeconfig.facts, authority, now)?;
            first = first.min(renewal);
        }
    }
    Ok(first)
}

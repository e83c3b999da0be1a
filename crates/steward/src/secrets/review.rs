//! Whether the Secrets of a control plane hold what they must, and what is to be made if not. Pure.

use std::collections::BTreeMap;

use butler_api::keys::annotations;
use butler_pki::{CertificateFacts, is_issued_by};
use jiff::Timestamp;

use super::{
    content::{KubeconfigFacts, Pair},
    facts::{Content, KeptSecret, Seen},
    order::{Guard, KubeconfigWish, LeafWish, Order, Recipe},
    renewal::{Moment, authority_renewal},
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
    /// What somebody brought that ends before long, and is theirs to replace, in sentences.
    pub ending: Vec<String>,
    /// What would be made anew if nobody had paused it, in sentences.
    pub paused: Vec<String>,
    /// When the first certificate is to be renewed.
    pub renewal: Option<Timestamp>,
}

/// What becomes of one Secret.
enum Judgement {
    /// It stays; a certificate until then.
    Good(Option<Timestamp>),
    /// It stays until its end, and somebody must replace it before that.
    Ending {
        /// When it ends.
        end: Timestamp,
        /// What to do, in a sentence.
        told: String,
    },
    /// It is made, or made anew.
    Make(String),
    /// The replacement of an authority goes a step further.
    Rotate(Step),
    /// It is somebody else's, and not usable.
    Refuse(String),
    /// It would be made anew, and somebody asked to leave it as it is.
    Paused(String),
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
    moment: impl Into<Moment>,
) -> Review {
    let moment = moment.into();
    let mut review = Review::default();
    let mut issuers = BTreeMap::new();
    let (roots, others): (Vec<_>, Vec<_>) =
        wanted.iter().partition(|wanted| wanted.recipe.is_root());
    for root in roots {
        let seen = secrets.get(&root.role);
        let judgement = heeded(judge_root(seen, settled, moment.now), seen);
        let issuer = match &judgement {
            Judgement::Paused(_) => {
                let pair = seen.and_then(pair_of);
                Some(pair.map_or(Issuer::Unusable, Issuer::Stays))
            }
            Judgement::Good(_)
            | Judgement::Ending { .. }
            | Judgement::Rotate(Step::Introduce | Step::Retire | Step::Remember) => {
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
                judge(&other.recipe, seen, authority, moment)
            }),
        };
        review.take(other, seen, heeded(judgement, seen));
    }
    review
}

/// What somebody paused stays as it is. What is not there cannot be paused.
fn heeded(judgement: Judgement, seen: Option<&Seen>) -> Judgement {
    let Some(seen) = seen.filter(|seen| seen.value.is_paused) else {
        return judgement;
    };
    let why = match judgement {
        Judgement::Make(why) => why,
        Judgement::Rotate(_) => "is due for the next step to another authority".to_owned(),
        stays => return stays,
    };
    Judgement::Paused(KeptSecret::told_paused(&seen.facts.key, &why))
}

impl Review {
    fn take(&mut self, wanted: &Wanted, seen: Option<&Seen>, judgement: Judgement) {
        match judgement {
            Judgement::Good(renewal) => self.look_again_at(renewal),
            Judgement::Ending { end, told } => {
                self.look_again_at(Some(end));
                self.ending.push(told);
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
            Judgement::Paused(told) => self.paused.push(told),
            Judgement::Wait => {}
        }
    }

    fn look_again_at(&mut self, time: Option<Timestamp>) {
        self.renewal = self.renewal.into_iter().chain(time).min();
    }
}

fn reason(step: Step) -> &'static str {
    match step {
        Step::Introduce => "gets one more authority, which is trusted from now on",
        Step::Promote => "signs with the new authority from now on",
        Step::Retire => "no longer trusts the old authority",
        Step::Remember => "is marked anew with the time from which its authority signs",
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
fn judge_root(seen: Option<&Seen>, settled: bool, now: Timestamp) -> Judgement {
    let Some(seen) = seen else {
        return Judgement::Make("is missing".to_owned());
    };
    let secret = &seen.value;
    let defect = match &secret.content {
        Content::Pair(Ok(pair)) if !pair.facts.is_ca => {
            "its certificate is no certificate authority".to_owned()
        }
        Content::Pair(Ok(pair)) if pair.facts.not_after <= now => {
            format!("its certificate expired at {}", pair.facts.not_after)
        }
        Content::Pair(Ok(pair)) => return judge_authority(seen, &pair.facts, settled, now),
        Content::ServiceAccount(Ok(())) if secret.rotate => {
            return Judgement::Make("is asked to be replaced".to_owned());
        }
        // A key of tokens has no end.
        Content::ServiceAccount(Ok(())) => return Judgement::Good(None),
        Content::Pair(Err(defect)) | Content::ServiceAccount(Err(defect)) => defect.clone(),
        _ => "it holds something else".to_owned(),
    };
    if secret.is_ours() {
        return Judgement::Make(format!("is unusable: {defect}"));
    }
    let key = &seen.facts.key;
    Judgement::Refuse(format!(
        "the Secret {key} was brought by somebody else and cannot be used: {defect}; correct it, or delete it to have one made"
    ))
}

/// What others trust is replaced step by step, when somebody asks and before it ends. What somebody brought is replaced only if
/// somebody asks.
fn judge_authority(
    seen: &Seen,
    facts: &CertificateFacts,
    settled: bool,
    now: Timestamp,
) -> Judgement {
    let (secret, rotation) = (&seen.value, &seen.value.rotation);
    let renewal = authority_renewal(facts);
    let is_ending = renewal <= now;
    if let Some(step) = rotation.due(settled, is_ending && secret.is_ours(), now) {
        return Judgement::Rotate(step);
    }
    if is_ending && !secret.is_ours() {
        let (key, end) = (&seen.facts.key, facts.not_after);
        let told = format!(
            "the authority in the Secret {key} was brought by somebody else and ends at {end}; put the next one there in time, or give the Secret the annotation {} with an empty value to have it replaced step by step",
            annotations::STEWARD_ROTATE
        );
        return Judgement::Ending { end, told };
    }
    let renewal = Some(renewal).filter(|renewal| *renewal > now);
    Judgement::Good(rotation.retirement().into_iter().chain(renewal).min())
}

fn judge(recipe: &Recipe, seen: &Seen, authority: &Pair, moment: Moment) -> Judgement {
    let secret = &seen.value;
    if secret.rotate {
        return Judgement::Make("is asked to be replaced".to_owned());
    }
    let found = match (recipe, &secret.content) {
        (Recipe::Leaf { leaf, .. }, Content::Pair(Ok(pair))) => {
            check_leaf(leaf, pair, authority, moment)
        }
        (Recipe::Leaf { .. }, Content::Pair(Err(defect))) => Err(format!("is unusable: {defect}")),
        (Recipe::Kubeconfigs { wishes }, Content::Kubeconfigs(found)) => {
            check_kubeconfigs(wishes, found, authority, moment)
        }
        _ => Err("holds something else".to_owned()),
    };
    found.map_or_else(Judgement::Make, |renewal| Judgement::Good(Some(renewal)))
}

fn check_leaf(
    wish: &LeafWish,
    pair: &Pair,
    authority: &Pair,
    moment: Moment,
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
    check_life(&pair.certificate_pem, &pair.facts, authority, moment)
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
    moment: Moment,
) -> Result<Timestamp, String> {
    if !is_issued_by(certificate_pem, &authority.certificate_pem).unwrap_or(false) {
        return Err("comes from another authority".to_owned());
    }
    if moment.is_due(facts) {
        return Err(format!(
            "is due for renewal: it expires at {}",
            facts.not_after
        ));
    }
    Ok(moment.renewal_of(facts))
}

/// Until when kubeconfigs stay, or why they do not.
pub(crate) fn check_kubeconfigs(
    wishes: &[KubeconfigWish],
    found: &BTreeMap<String, Result<KubeconfigFacts, String>>,
    authority: &Pair,
    moment: impl Into<Moment>,
) -> Result<Timestamp, String> {
    let moment = moment.into();
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
            let renewal = check_life(&kubeconfig.client_pem, &kubeconfig.facts, authority, moment)?;
            first = first.min(renewal);
        }
    }
    Ok(first)
}

//! How a certificate authority is replaced while nodes and clients go on: first both are trusted, then the new one signs, at last
//! the old one is dropped. Whoever asks again meanwhile has one more trusted, and all old ones are dropped together. Pure.
//!
//! Everything is in the authority's own Secret: `ca.crt` (`front-proxy-ca.crt`, of the aggregation layer's) holds all that are
//! trusted, the one that signs first; `ca.key`, `tls.crt` and `tls.key` are those of the one that signs; `next.crt` and `next.key`
//! are those of the one that will. `next-vouched.crt`, later `vouched.crt`, is the cluster's new one signed by the old one: it goes
//! with every certificate that is shown to nodes, for a kubelet trusts what it joined with and learns of no other. Aggregated
//! API servers are told whom to trust by the API server itself, so nobody vouches for theirs.
//!
//! When the one that signs began to do so is in an annotation of its own: what people write into the one by which they ask takes
//! nothing away. If it is lost all the same, it counts from when that is seen.

use jiff::Timestamp;
use serde::Serialize;

use super::issue::LEAF_LIFE;

/// The new authority, signed by the one before it.
pub(super) const VOUCHED: &str = "vouched.crt";
/// The same, as long as the new one does not sign yet.
pub(super) const NEXT_VOUCHED: &str = "next-vouched.crt";

/// The value of the rotation annotation by which somebody drops the old authority before everything it issued has ended.
pub const RETIRE: &str = "retire";

/// As many authorities are trusted at a time, unless nobody knows since when: three let two requests follow each other within a
/// year. Who asks again and again, as a manifest does that is applied for ever, does not fill the Secret.
const MOST_TRUSTED: usize = 3;

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A new authority.
    Replace,
    /// To drop the old ones now.
    Retire,
}

impl Request {
    /// What the value of the rotation annotation asks for, if anything.
    pub(super) fn of(value: &str) -> Option<Self> {
        match value {
            "" => Some(Self::Replace),
            RETIRE => Some(Self::Retire),
            _ => None,
        }
    }
}

/// How far a replacement has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotationFacts {
    /// How many authorities are trusted.
    pub trusted: usize,
    /// Whether a next one is there.
    pub has_next: bool,
    /// What somebody asks for.
    pub request: Option<Request>,
    /// Since when the one that signs does so.
    pub since: Option<Timestamp>,
    /// Whether it is we who wrote all of this. What somebody brought together stays together, unless somebody asks.
    pub is_ours: bool,
}

/// The next step of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Step {
    /// A new authority is trusted beside the one that signs.
    Introduce,
    /// The new authority signs; the old one is still trusted.
    Promote,
    /// The old authorities are no longer trusted.
    Retire,
    /// Nobody knows since when the new authority signs: from now on, as far as anybody will know.
    Remember,
}

impl RotationFacts {
    /// The step that is due. `settled` says that all pods, kubeconfigs and the tenant trust what the Secret says, `ending` that
    /// the authority must be replaced although nobody asks.
    pub fn due(&self, settled: bool, ending: bool, now: Timestamp) -> Option<Step> {
        if self.has_next {
            return settled.then_some(Step::Promote);
        }
        let retirement = self.retirement();
        let is_over = retirement.is_some_and(|end| end <= now);
        let is_hasty = self.request == Some(Request::Retire) && self.trusted > 1;
        if is_over || is_hasty {
            return Some(Step::Retire);
        }
        let has_room = self.trusted < MOST_TRUSTED || retirement.is_none();
        let is_asked = self.request == Some(Request::Replace);
        if (is_asked || ending) && has_room {
            return Some(Step::Introduce);
        }
        let is_lost = self.trusted > 1 && retirement.is_none();
        (is_lost && self.is_ours).then_some(Step::Remember)
    }

    /// When everything that the old authorities issued has ended.
    pub fn retirement(&self) -> Option<Timestamp> {
        let since = self.since.filter(|_| self.trusted > 1 && !self.has_next)?;
        since.checked_add(LEAF_LIFE).ok()
    }

    /// Whether a replacement is under way.
    pub fn is_under_way(&self) -> bool {
        self.has_next || self.trusted > 1
    }
}

/// The certificates in a PEM text.
pub(super) fn certificates(bundle: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let parts = bundle.split_inclusive(END);
    let whole = parts.filter(|part| part.ends_with(END));
    whole.map(|part| format!("{}\n", part.trim())).collect()
}

/// How many certificates a PEM text holds.
pub(super) fn count(bundle: &str) -> usize {
    bundle.matches("-----BEGIN CERTIFICATE-----").count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::now;

    #[test]
    fn the_old_authority_is_trusted_until_all_it_issued_has_ended() {
        let facts = RotationFacts {
            trusted: 2,
            since: Some(now()),
            ..RotationFacts::default()
        };
        assert_eq!(facts.due(true, false, now()), None);
        let year = now().checked_add(LEAF_LIFE).unwrap();
        assert_eq!(facts.due(true, false, year), Some(Step::Retire));
        let hasty = RotationFacts {
            request: Some(Request::Retire),
            ..facts
        };
        assert_eq!(hasty.due(true, false, now()), Some(Step::Retire));
    }

    #[test]
    fn whoever_asks_twice_within_a_year_gets_a_third_authority_and_then_has_to_wait() {
        let promoted = RotationFacts {
            trusted: 2,
            request: Some(Request::Replace),
            since: Some(now()),
            is_ours: true,
            ..RotationFacts::default()
        };
        assert_eq!(promoted.due(true, false, now()), Some(Step::Introduce));
        let again = RotationFacts {
            trusted: 3,
            ..promoted
        };
        assert_eq!(again.due(true, false, now()), None);
        let year = now().checked_add(LEAF_LIFE).unwrap();
        assert_eq!(again.due(true, false, year), Some(Step::Retire));
    }

    #[test]
    fn authorities_that_somebody_brought_together_stay_together() {
        let brought = RotationFacts {
            trusted: 2,
            ..RotationFacts::default()
        };
        assert_eq!(brought.due(true, false, now()), None);
    }

    /// What a Secret says after a step.
    fn after(facts: &RotationFacts, step: Step, time: Timestamp) -> RotationFacts {
        let facts = RotationFacts {
            is_ours: true,
            ..facts.clone()
        };
        match step {
            Step::Introduce => RotationFacts {
                trusted: facts.trusted + 1,
                has_next: true,
                request: None,
                ..facts
            },
            Step::Promote => RotationFacts {
                has_next: false,
                request: None,
                since: Some(time),
                ..facts
            },
            Step::Retire => RotationFacts {
                trusted: 1,
                request: facts.request.filter(|request| *request == Request::Replace),
                ..facts
            },
            Step::Remember => RotationFacts {
                since: Some(time),
                ..facts
            },
        }
    }

    prop_compose! {
        fn any_facts()(
            trusted in 1..5_usize, has_next: bool, value in "|retire|soon", is_known: bool, is_ours: bool,
        ) -> RotationFacts {
            let (request, since) = (Request::of(&value), is_known.then(now));
            RotationFacts { trusted, has_next, request, since, is_ours }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_lost_whoever_asks_is_heard_and_the_old_ones_are_forgotten(found in any_facts()) {
            let mut facts = found.clone();
            let mut time = now();
            let mut taken = Vec::new();
            for _ in 0..8 {
                match facts.due(true, false, time) {
                    Some(step) => {
                        facts = after(&facts, step, time);
                        taken.push(step);
                    }
                    None => time = time.checked_add(LEAF_LIFE).unwrap(),
                }
            }
            prop_assert!(facts.request != Some(Request::Replace) && !facts.has_next, "{:?}", taken);
            if found.request == Some(Request::Replace) {
                // One that is on its way is the answer.
                prop_assert!(taken.contains(&Step::Promote), "{:?}", taken);
            }
            if facts.is_ours {
                prop_assert_eq!(facts.trusted, 1, "{:?}", taken);
            }
            prop_assert_eq!(facts.due(true, false, time), None, "and then it rests");
        }

        #[test]
        fn a_new_authority_never_signs_before_it_is_trusted_everywhere(facts in any_facts(), ending: bool) {
            prop_assert_ne!(facts.due(false, ending, now()), Some(Step::Promote));
            // The old one is not dropped before all that it issued has ended, unless somebody asks.
            if facts.request != Some(Request::Retire) {
                prop_assert_ne!(facts.due(true, ending, now()), Some(Step::Retire));
            }
            // The old one is not dropped while the new one waits.
            if facts.has_next {
                prop_assert_ne!(facts.due(true, ending, now()), Some(Step::Retire));
            }
            // One that waits is enough, and none comes without a reason.
            if facts.has_next || !(facts.request == Some(Request::Replace) || ending) {
                prop_assert_ne!(facts.due(true, ending, now()), Some(Step::Introduce));
            }
        }
    }
}

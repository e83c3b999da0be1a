//! How a certificate authority is replaced while nodes and clients go on: first both are trusted, then the new one signs, at last
//! the old one is dropped. Pure.
//!
//! Everything is in the authority's own Secret: `ca.crt` (`front-proxy-ca.crt`, of the aggregation layer's) holds all that are
//! trusted, the one that signs first; `ca.key`, `tls.crt` and `tls.key` are those of the one that signs; `next.crt` and `next.key`
//! are those of the one that will. `next-vouched.crt`, later `vouched.crt`, is the cluster's new one signed by the old one: it goes
//! with every certificate that is shown to nodes, for a kubelet trusts what it joined with and learns of no other. Aggregated
//! API servers are told whom to trust by the API server itself, so nobody vouches for theirs.

use jiff::Timestamp;
use serde::Serialize;

use super::issue::LEAF_LIFE;

/// The new authority, signed by the one before it.
pub(super) const VOUCHED: &str = "vouched.crt";
/// The same, as long as the new one does not sign yet.
pub(super) const NEXT_VOUCHED: &str = "next-vouched.crt";

/// The value of the rotation annotation by which somebody drops the old authority before everything it issued has ended.
pub const RETIRE: &str = "retire";

/// How far a replacement has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotationFacts {
    /// How many authorities are trusted.
    pub trusted: usize,
    /// Whether a next one is there.
    pub has_next: bool,
    /// Whether somebody asks for a new authority.
    pub asked: bool,
    /// Whether somebody asks to drop the old one now.
    pub retire: bool,
    /// When the last step was taken.
    pub since: Option<Timestamp>,
}

/// The next step of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Step {
    /// A new authority is trusted beside the one that signs.
    Introduce,
    /// The new authority signs; the old one is still trusted.
    Promote,
    /// The old authority is no longer trusted.
    Retire,
}

impl RotationFacts {
    /// The step that is due. `settled` says that all pods, kubeconfigs and the tenant trust what the Secret says, `ending` that
    /// the authority must be replaced although nobody asks.
    pub fn due(&self, settled: bool, ending: bool, now: Timestamp) -> Option<Step> {
        if self.has_next {
            return settled.then_some(Step::Promote);
        }
        if self.trusted > 1 {
            let is_over = self.retirement().is_some_and(|end| end <= now);
            return (self.retire || is_over).then_some(Step::Retire);
        }
        (self.asked || ending).then_some(Step::Introduce)
    }

    /// When everything that the old authority issued has ended.
    pub fn retirement(&self) -> Option<Timestamp> {
        let since = self.since.filter(|_| self.trusted > 1 && !self.has_next)?;
        since.checked_add(LEAF_LIFE).ok()
    }

    /// Whether a replacement is under way.
    pub fn is_under_way(&self) -> bool {
        self.has_next || self.trusted > 1
    }
}

/// The first of several certificates in a PEM text, and the rest.
pub(super) fn split_first(bundle: &str) -> (String, String) {
    const END: &str = "-----END CERTIFICATE-----";
    match bundle.find(END) {
        None => (bundle.to_owned(), String::new()),
        Some(place) => {
            let (first, rest) = bundle.split_at(place + END.len());
            (
                format!("{}\n", first.trim_start()),
                rest.trim_start().to_owned(),
            )
        }
    }
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
            retire: true,
            ..facts
        };
        assert_eq!(hasty.due(true, false, now()), Some(Step::Retire));
    }

    proptest! {
        #[test]
        fn a_new_authority_never_signs_before_it_is_trusted_everywhere(
            trusted in 1..3_usize, has_next: bool, asked: bool, retire: bool, ending: bool,
        ) {
            let facts = RotationFacts { trusted, has_next, asked, retire, since: None };
            prop_assert_ne!(facts.due(false, ending, now()), Some(Step::Promote));
            // The old one is not dropped while the new one waits.
            if has_next {
                prop_assert_ne!(facts.due(true, ending, now()), Some(Step::Retire));
            }
            // One replacement at a time, and none without a reason.
            if facts.is_under_way() || !(asked || ending) {
                prop_assert_ne!(facts.due(true, ending, now()), Some(Step::Introduce));
            }
        }
    }
}

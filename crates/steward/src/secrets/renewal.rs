//! When certificates are made anew, and authorities replaced. Pure.

use butler_pki::{CertificateFacts, LifeFraction, renewal_time};
use jiff::{SignedDuration, Timestamp};

use super::issue::LEAF_LIFE;

/// How long before its end an authority is replaced, or, if it is not ours to replace, that somebody must do so is told. What
/// it issues on the last day before must end before the authority does: so the life of a certificate. The steps wait for pods
/// that are replaced, and for control planes that sleep; nodes that joined with the old one must join again, or be replaced,
/// before it ends: so another quarter of a year.
const AUTHORITY_NOTICE: SignedDuration =
    LEAF_LIFE.saturating_add(SignedDuration::from_hours(90 * 24));

/// From when on an authority is replaced, or its end is told.
pub(crate) fn authority_renewal(facts: &CertificateFacts) -> Timestamp {
    let begin = facts.not_after.checked_sub(AUTHORITY_NOTICE);
    begin.unwrap_or(facts.not_before)
}

/// A time at which certificates are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time.
    pub now: Timestamp,
    /// How long before its end a certificate is made anew at the latest.
    pub deadline: SignedDuration,
}

impl From<Timestamp> for Moment {
    /// Nothing but the life of a certificate says when it is made anew.
    fn from(now: Timestamp) -> Self {
        let deadline = SignedDuration::ZERO;
        Self { now, deadline }
    }
}

impl Moment {
    /// When a certificate is made anew: when two thirds of its life are over, or earlier if the operator wishes.
    pub fn renewal_of(self, facts: &CertificateFacts) -> Timestamp {
        let usual = renewal_time(facts, LifeFraction::TWO_THIRDS);
        let latest = facts.not_after.checked_sub(self.deadline);
        latest.map_or(usual, |latest| latest.min(usual))
    }

    /// Whether a certificate is to be made anew now.
    pub fn is_due(self, facts: &CertificateFacts) -> bool {
        self.renewal_of(facts) <= self.now
    }
}

#[cfg(test)]
mod tests {
    use butler_pki::{Authority, Validity, inspect};

    use super::*;
    use crate::testing::now;

    #[test]
    fn certificates_are_made_anew_in_time_and_earlier_if_the_operator_wishes() {
        let authority = Authority::new("a", Validity::starting(now(), LEAF_LIFE)).unwrap();
        let facts = inspect(authority.certificate_pem()).unwrap();
        let days = |count: i64| now() + SignedDuration::from_hours(24 * count);
        let due = |day: i64, deadline: i64| {
            let deadline = SignedDuration::from_hours(24 * deadline);
            let now = days(day);
            Moment { now, deadline }.is_due(&facts)
        };
        assert!(!due(240, 0) && due(245, 0));
        assert!(
            !due(240, 1) && due(245, 1),
            "a day is later than two thirds"
        );
        assert!(!due(190, 170) && due(196, 170));
    }
}

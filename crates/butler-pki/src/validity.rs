//! From when to when a certificate is valid, and when it is time for the next one.

use jiff::{SignedDuration, Timestamp};

use crate::{CertificateFacts, Error};

/// How much earlier than now a fresh certificate begins, so that machines whose clocks lag a little accept it.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub not_before: Timestamp,
    /// The last moment.
    pub not_after: Timestamp,
}

impl Validity {
    /// Valid for `lifetime` from `now`, and a few minutes before it for the sake of lagging clocks.
    pub fn starting(now: Timestamp, lifetime: SignedDuration) -> Self {
        Self {
            not_before: now.saturating_add(-CLOCK_SKEW).unwrap_or(Timestamp::MIN),
            not_after: now.saturating_add(lifetime).unwrap_or(Timestamp::MAX),
        }
    }

    /// Writes both ends into the parameters of a certificate, if a certificate can carry them.
    pub(crate) fn write_into(self, parameters: &mut rcgen::CertificateParams) -> Result<(), Error> {
        let Self {
            not_before,
            not_after,
        } = self;
        let refused = Error::Validity {
            not_before,
            not_after,
        };
        let (Ok(start), Ok(end)) = (
            u64::try_from(not_before.as_second()),
            u64::try_from(not_after.as_second()),
        ) else {
            return Err(refused);
        };
        if end <= start {
            return Err(refused);
        }
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        parameters.not_before = epoch + std::time::Duration::from_secs(start);
        parameters.not_after = epoch + std::time::Duration::from_secs(end);
        Ok(())
    }
}

/// A part of a certificate's life, such as two thirds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeFraction {
    numerator: u32,
    denominator: u32,
}

impl LifeFraction {
    /// The usual moment to renew: a third of the life remains to notice and repair a failure.
    pub const TWO_THIRDS: Self = Self {
        numerator: 2,
        denominator: 3,
    };

    /// `numerator` of `denominator` parts; none if that is more than the whole or divides by nothing.
    pub const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        if denominator == 0 || numerator > denominator {
            return None;
        }
        Some(Self {
            numerator,
            denominator,
        })
    }
}

/// The moment from which on the certificate should be replaced.
pub fn renewal_time(facts: &CertificateFacts, fraction: LifeFraction) -> Timestamp {
    let life = i128::from(facts.not_after.as_second()) - i128::from(facts.not_before.as_second());
    let lived = life * i128::from(fraction.numerator) / i128::from(fraction.denominator);
    // A fraction of a life lies inside it, so this cannot leave the range of a timestamp.
    i64::try_from(lived)
        .ok()
        .and_then(|seconds| {
            facts
                .not_before
                .checked_add(SignedDuration::from_secs(seconds))
                .ok()
        })
        .unwrap_or(facts.not_after)
}

/// Whether the certificate should be replaced now.
pub fn renewal_due(facts: &CertificateFacts, now: Timestamp, fraction: LifeFraction) -> bool {
    now >= renewal_time(facts, fraction)
}

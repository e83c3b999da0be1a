use butler_pki::{CertificateFacts, LifeFraction, Validity, inspect, renewal_due, renewal_time};
use jiff::{SignedDuration, Timestamp};
use pretty_assertions::assert_eq;

use crate::{authority, now, thirty_days};

fn facts(validity: Validity) -> CertificateFacts {
    let any = inspect(authority().certificate_pem()).expect("our own certificate is readable");
    CertificateFacts {
        not_before: validity.not_before,
        not_after: validity.not_after,
        ..any
    }
}

#[test]
fn certificate_says_what_was_asked_to_the_second() {
    let facts = inspect(authority().certificate_pem()).unwrap();
    assert_eq!(facts.not_before, thirty_days().not_before);
    assert_eq!(facts.not_after, thirty_days().not_after);
    assert!(facts.is_ca);
}

#[test]
fn certificate_is_valid_on_a_machine_whose_clock_lags() {
    assert_eq!(
        thirty_days().not_before,
        now() - SignedDuration::from_mins(5)
    );
}

#[test]
fn validity_beyond_2050_is_kept() {
    let far: Timestamp = "2070-06-01T12:00:00Z".parse().unwrap();
    let validity = Validity {
        not_before: now(),
        not_after: far,
    };
    let authority = butler_pki::Authority::new("ca", validity).unwrap();
    assert_eq!(inspect(authority.certificate_pem()).unwrap().not_after, far);
}

#[test]
fn renewal_begins_after_two_thirds_of_life() {
    let start = now();
    let facts = facts(Validity {
        not_before: start,
        not_after: start + SignedDuration::from_hours(90),
    });
    let due = start + SignedDuration::from_hours(60);
    assert_eq!(renewal_time(&facts, LifeFraction::TWO_THIRDS), due);
    let second = SignedDuration::from_secs(1);
    assert!(!renewal_due(&facts, due - second, LifeFraction::TWO_THIRDS));
    assert!(renewal_due(&facts, due, LifeFraction::TWO_THIRDS));
    assert!(renewal_due(
        &facts,
        facts.not_after + second,
        LifeFraction::TWO_THIRDS
    ));
}

#[test]
fn longest_thinkable_life_does_not_overflow() {
    let facts = facts(Validity {
        not_before: Timestamp::MIN,
        not_after: Timestamp::MAX,
    });
    assert!(renewal_time(&facts, LifeFraction::TWO_THIRDS) < Timestamp::MAX);
    assert_eq!(
        renewal_time(&facts, LifeFraction::new(1, 1).unwrap()).as_second(),
        Timestamp::MAX.as_second()
    );
}

#[test]
fn fraction_is_at_most_the_whole_life() {
    assert_eq!(LifeFraction::new(4, 3), None);
    assert_eq!(LifeFraction::new(1, 0), None);
    assert_eq!(LifeFraction::new(2, 3), Some(LifeFraction::TWO_THIRDS));
}

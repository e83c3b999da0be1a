use proptest::prelude::*;

use super::*;

const SETTINGS: LeaderSettings = LeaderSettings {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};
const STANDBY: Standing = Standing::Standby { not_before: None };

fn at(second: u64) -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *START.get_or_init(Instant::now) + Duration::from_secs(second)
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("in range")
}

fn held_by(holder: &str) -> LeaseSpec {
    taken(None, holder, wall(0), &SETTINGS)
}

#[test]
fn an_absent_lease_is_taken() {
    let observed = Observed::first(None, at(0));
    assert_eq!(
        decide(&observed, "me", STANDBY, at(0), &SETTINGS),
        Decision::Acquire
    );
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let free = released(&held_by("other"), wall(1));
    let observed = Observed::first(Some(free), at(5));
    assert_eq!(
        decide(&observed, "me", STANDBY, at(5), &SETTINGS),
        Decision::Acquire
    );
}

#[test]
fn a_held_lease_is_left_alone_until_it_expires() {
    let observed = Observed::first(Some(held_by("other")), at(0));
    let decision = decide(&observed, "me", STANDBY, at(14), &SETTINGS);
    assert_eq!(decision, Decision::Wait { until: at(15) });
    assert_eq!(
        decide(&observed, "me", STANDBY, at(15), &SETTINGS),
        Decision::Acquire
    );
}

#[test]
fn a_lease_renewed_long_ago_by_its_own_clock_still_waits_a_whole_duration() {
    // The holder's clock may be wrong, so an old renew time proves nothing.
    let old = taken(None, "other", wall(-1_000_000), &SETTINGS);
    let observed = Observed::first(Some(old), at(100));
    let decision = decide(&observed, "me", STANDBY, at(100), &SETTINGS);
    assert_eq!(decision, Decision::Wait { until: at(115) });
}

#[test]
fn seeing_the_same_record_again_does_not_prolong_it() {
    let mut observed = Observed::first(Some(held_by("other")), at(0));
    observed.again(Some(held_by("other")), at(14));
    assert_eq!(
        decide(&observed, "me", STANDBY, at(15), &SETTINGS),
        Decision::Acquire
    );
    let renewed = taken(Some(&held_by("other")), "other", wall(14), &SETTINGS);
    observed.again(Some(renewed), at(14));
    let decision = decide(&observed, "me", STANDBY, at(15), &SETTINGS);
    assert_eq!(decision, Decision::Wait { until: at(29) });
}

#[test]
fn a_failed_try_waits_before_the_next() {
    let observed = Observed::first(None, at(0));
    let standing = Standing::Standby {
        not_before: Some(at(2)),
    };
    let decision = decide(&observed, "me", standing, at(1), &SETTINGS);
    assert_eq!(decision, Decision::Wait { until: at(2) });
    assert_eq!(
        decide(&observed, "me", standing, at(2), &SETTINGS),
        Decision::Acquire
    );
}

#[test]
fn a_leader_renews_and_gives_up_at_the_deadline() {
    let observed = Observed::first(Some(held_by("me")), at(0));
    let leading = |next| Standing::Leading {
        renewed_at: at(0),
        next_renewal: at(next),
    };
    let decide = |next, now| decide(&observed, "me", leading(next), at(now), &SETTINGS);
    assert_eq!(decide(2, 1), Decision::Wait { until: at(2) });
    assert_eq!(decide(2, 2), Decision::Renew);
    assert_eq!(decide(4, 9), Decision::Renew);
    assert_eq!(decide(11, 9), Decision::Wait { until: at(10) });
    assert_eq!(decide(11, 10), Decision::Lost);
}

#[test]
fn a_leader_that_sees_another_holder_has_lost() {
    let observed = Observed::first(Some(held_by("other")), at(1));
    let standing = Standing::Leading {
        renewed_at: at(1),
        next_renewal: at(3),
    };
    assert_eq!(
        decide(&observed, "me", standing, at(1), &SETTINGS),
        Decision::Lost
    );
}

#[test]
fn transitions_count_changes_of_the_holder() {
    let first = taken(None, "a", wall(0), &SETTINGS);
    assert_eq!(first.lease_transitions, Some(0));
    let renewed = taken(Some(&first), "a", wall(2), &SETTINGS);
    assert_eq!(renewed.lease_transitions, Some(0));
    assert_eq!(renewed.acquire_time, first.acquire_time);
    let free = released(&renewed, wall(4));
    assert_eq!(free.holder_identity.as_deref(), Some(""));
    let second = taken(Some(&free), "b", wall(5), &SETTINGS);
    assert_eq!(second.lease_transitions, Some(1));
    assert_eq!(second.acquire_time, Some(MicroTime(wall(5))));
}

#[test]
fn unsafe_settings_are_refused() {
    let settings = |duration, deadline, retry| {
        let second = Duration::from_secs;
        LeaderSettings::new(second(duration), second(deadline), second(retry))
    };
    assert_eq!(settings(15, 10, 2), Ok(LeaderSettings::default()));
    assert!(matches!(
        settings(10, 10, 2),
        Err(LeaderSettingsError::DurationTooShort { .. })
    ));
    assert!(matches!(
        settings(15, 4, 2),
        Err(LeaderSettingsError::DeadlineTooShort { .. })
    ));
    assert_eq!(settings(15, 10, 0), Err(LeaderSettingsError::NotAPeriod));
}

/// A candidate of the virtual election, with a clock of its own that may be wrong.
struct Candidate {
    name: &'static str,
    observed: Observed,
    standing: Standing,
    wall_offset: i64,
}

proptest! {
    /// Two candidates on one Lease, with requests that get lost, watches that lag, and clocks
    /// that differ: the server's resource version decides, and never do two lead at once.
    #[test]
    fn two_candidates_never_lead_at_once(
        steps in proptest::collection::vec((0_u64..2_500, any::<bool>(), any::<bool>(), 0.0..1.0), 1..400),
        offset in -1_000_000_i64..1_000_000,
    ) {
        let mut server: (u64, Option<LeaseSpec>) = (0, None);
        let mut now = at(0);
        let mut seen_versions = [0_u64, 0];
        let mut candidates = [("a", 0), ("b", offset)].map(|(name, wall_offset)| Candidate {
            name, observed: Observed::first(None, at(0)), standing: STANDBY, wall_offset,
        });
        let mut changes_of_leader = 0;
        for (step, (milliseconds, lost, seen, chance)) in (0_i64..).zip(steps) {
            now += Duration::from_millis(milliseconds);
            for (candidate, seen_version) in candidates.iter_mut().zip(&mut seen_versions) {
                // The watch of a standby may lag; a leader has none.
                if seen && candidate.standing == STANDBY {
                    candidate.observed.again(server.1.clone(), now);
                    *seen_version = server.0;
                }
                let next = now + SETTINGS.retry_after(chance);
                match decide(&candidate.observed, candidate.name, candidate.standing, now, &SETTINGS) {
                    Decision::Wait { .. } => {}
                    Decision::Lost => candidate.standing = STANDBY,
                    Decision::Acquire | Decision::Renew if lost => {
                        candidate.standing = match candidate.standing {
                            Standing::Standby { .. } => STANDBY,
                            Standing::Leading { renewed_at, .. } =>
                                Standing::Leading { renewed_at, next_renewal: next },
                        };
                    }
                    decision @ (Decision::Acquire | Decision::Renew) => {
                        if *seen_version == server.0 {
                            let wall = wall(step + candidate.wall_offset);
                            let record = taken(server.1.as_ref(), candidate.name, wall, &SETTINGS);
                            server = (server.0 + 1, Some(record));
                            if decision == Decision::Acquire { changes_of_leader += 1; }
                            candidate.standing = Standing::Leading { renewed_at: now, next_renewal: next };
                        }
                        // A conflict is answered by reading the Lease.
                        candidate.observed.again(server.1.clone(), now);
                        *seen_version = server.0;
                    }
                }
            }
            // A leader whose deadline has passed stops before its next step.
            let deadline = |renewed_at: Instant| renewed_at + SETTINGS.renew_deadline;
            let leaders = candidates.iter().filter(|candidate| matches!(
                candidate.standing, Standing::Leading { renewed_at, .. } if now < deadline(renewed_at)
            ));
            prop_assert!(leaders.count() <= 1, "two leaders in step {step}");
        }
        prop_assert!(changes_of_leader > 0 || server.1.is_none());
    }
}

//! How long ago, as people say it.

use jiff::Timestamp;

/// The time since then in one or two units, as kubectl has it: `45s`, `12m`, `5h`, `3d`.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{minutes}m"),
        7_200..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarsest_unit_that_still_says_something_is_used() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let words = |seconds| age(at(0), at(seconds));
        assert_eq!(words(45), "45s");
        assert_eq!(words(720), "12m");
        assert_eq!(words(18_000), "5h");
        assert_eq!(words(300_000), "3d");
        assert_eq!(age(at(5), at(0)), "0s", "clocks differ");
    }
}

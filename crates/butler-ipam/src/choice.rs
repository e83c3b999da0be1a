//! Which of several pools to ask.
//!
//! Owns: the order of pools. A provider may name several, with priorities.
//!
//! Must not: promise. What a pool has free was counted a while ago; the pool itself decides when it is asked.

use std::cmp::Reverse;

/// A pool that may be asked, with what its status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Name of the pool.
    pub name: &'a str,
    /// Higher is asked first.
    pub priority: i32,
    /// How many addresses are free; nothing if the pool has not counted yet.
    pub available: Option<u128>,
    /// The longest free run; nothing if the pool has not counted yet.
    pub largest_free: Option<u128>,
}

impl Candidate<'_> {
    /// Whether so many addresses are to be had in one run; nothing if the pool has not counted yet.
    fn fits(&self, count: u32) -> Option<bool> {
        // A pool that says only how many are free may have them scattered; that is for it to find out.
        let room = self.largest_free.or(self.available)?;
        Some(room >= u128::from(count))
    }
}

/// The pool to ask for `count` addresses: pools of higher priority come first, those of equal priority in the order
/// written.
///
/// - The first that has a free run of that length is taken.
/// - A pool that has not counted yet is taken only if no counted pool of the same or a higher priority has one.
/// - If no pool has one, the first is taken, so that somebody sees its refusal.
/// - Nothing is taken only if there is no pool.
pub fn choose<'a>(candidates: &'a [Candidate<'a>], count: u32) -> Option<&'a Candidate<'a>> {
    let mut in_order: Vec<_> = candidates.iter().collect();
    in_order.sort_by_key(|candidate| Reverse(candidate.priority));
    in_order
        .chunk_by(|one, next| one.priority == next.priority)
        .find_map(|equals| {
            let first = |answer| {
                let mut equals = equals.iter();
                equals.find(move |candidate| candidate.fits(count) == answer)
            };
            first(Some(true)).or_else(|| first(None)).copied()
        })
        .or_else(|| in_order.first().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(name: &str, priority: i32, largest_free: u128) -> Candidate<'_> {
        Candidate {
            name,
            priority,
            available: Some(largest_free),
            largest_free: Some(largest_free),
        }
    }

    fn uncounted(name: &str, priority: i32) -> Candidate<'_> {
        Candidate {
            name,
            priority,
            available: None,
            largest_free: None,
        }
    }

    fn chosen<'a>(candidates: &'a [Candidate<'a>], count: u32) -> Option<&'a str> {
        choose(candidates, count).map(|candidate| candidate.name)
    }

    #[test]
    fn the_pool_of_highest_priority_that_fits_is_asked() {
        let pools = [
            counted("spare", 0, 100),
            counted("first", 10, 4),
            counted("second", 5, 8),
        ];
        assert_eq!(chosen(&pools, 4), Some("first"));
        assert_eq!(chosen(&pools, 8), Some("second"));
        assert_eq!(chosen(&pools, 9), Some("spare"));
    }

    #[test]
    fn pools_of_equal_priority_are_asked_in_the_order_written() {
        let pools = [counted("b", 1, 8), counted("a", 1, 80)];
        assert_eq!(chosen(&pools, 8), Some("b"));
        assert_eq!(chosen(&pools, 9), Some("a"));
    }

    #[test]
    fn a_pool_that_has_not_counted_waits_behind_its_equals_but_not_behind_lesser_ones() {
        let pools = [
            uncounted("new", 5),
            counted("small", 5, 4),
            counted("lesser", 1, 100),
        ];
        assert_eq!(chosen(&pools, 4), Some("small"));
        assert_eq!(chosen(&pools, 5), Some("new"));
    }

    #[test]
    fn when_no_pool_fits_the_first_one_says_so() {
        let pools = [counted("low", 1, 3), counted("high", 2, 2)];
        assert_eq!(chosen(&pools, 8), Some("high"));
        assert_eq!(chosen(&[], 8), None);
    }

    #[test]
    fn scattered_addresses_do_not_count_as_room() {
        let scattered = Candidate {
            available: Some(100),
            ..counted("scattered", 1, 4)
        };
        let pools = [scattered, counted("whole", 0, 8)];
        assert_eq!(chosen(&pools, 8), Some("whole"));
    }
}

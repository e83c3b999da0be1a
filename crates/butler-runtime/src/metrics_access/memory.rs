//! Answers about tokens, for a short while and not too many. Must not: hold a token, or read the clock.

use std::{collections::BTreeMap, time::Duration};

use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::Verdict;

/// How long a reader is taken at their word. So long may somebody read whose token was withdrawn.
const ALLOWED_FOR: Duration = Duration::from_mins(1);
/// How long others are. Whoever was given the right a moment ago should not wait for long.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// How many answers are kept. Readers are few; the others may be many.
const MOST: usize = 256;

/// What a token is remembered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(super) fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }
}

#[derive(Clone, Copy, Debug)]
struct Known {
    verdict: Verdict,
    until: Instant,
}

/// What the API server has said lately.
#[derive(Debug, Default)]
pub(super) struct Memory {
    answers: BTreeMap<TokenHash, Known>,
}

impl Memory {
    pub(super) fn recall(&self, token: &TokenHash, now: Instant) -> Option<Verdict> {
        let known = self.answers.get(token)?;
        (known.until > now).then_some(known.verdict)
    }

    pub(super) fn keep(&mut self, token: TokenHash, verdict: Verdict, now: Instant) {
        self.answers.retain(|_, known| known.until > now);
        if self.answers.len() >= MOST {
            // Refusals end sooner: whoever invents tokens drives out their own before those of readers.
            let next = self.answers.iter().min_by_key(|(_, known)| known.until);
            if let Some(next) = next.map(|(token, _)| *token) {
                self.answers.remove(&next);
            }
        }
        let lasts = match verdict {
            Verdict::Allowed => ALLOWED_FOR,
            Verdict::Unknown | Verdict::Forbidden => REFUSED_FOR,
        };
        let until = now + lasts;
        self.answers.insert(token, Known { verdict, until });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_known_for_a_minute_and_a_refusal_for_ten_seconds() {
        let mut memory = Memory::default();
        let now = Instant::now();
        let tokens = ["reader", "expired", "stranger"].map(TokenHash::of);
        let verdicts = [Verdict::Allowed, Verdict::Unknown, Verdict::Forbidden];
        for (token, verdict) in tokens.into_iter().zip(verdicts) {
            memory.keep(token, verdict, now);
        }
        let after = |seconds| {
            let then = now + Duration::from_secs(seconds);
            tokens.each_ref().map(|token| memory.recall(token, then))
        };
        assert_eq!(after(9), verdicts.map(Some));
        assert_eq!(after(10), [Some(Verdict::Allowed), None, None]);
        assert_eq!(after(59), [Some(Verdict::Allowed), None, None]);
        assert_eq!(after(60), [None; 3]);
    }

    #[test]
    fn whoever_invents_tokens_fills_no_memory_and_drives_out_no_reader() {
        let mut memory = Memory::default();
        let now = Instant::now();
        let reader = TokenHash::of("reader");
        memory.keep(reader, Verdict::Allowed, now);
        for number in 0..10 * MOST {
            let invented = TokenHash::of(&number.to_string());
            memory.keep(invented, Verdict::Unknown, now);
        }
        assert_eq!(memory.answers.len(), MOST);
        assert_eq!(memory.recall(&reader, now), Some(Verdict::Allowed));
    }
}

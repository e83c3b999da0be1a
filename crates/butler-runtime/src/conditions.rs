//! Builds a status' conditions: what was said before keeps its transition time unless its status turned.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The three answers a condition can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told.
    Unknown,
}

impl Answer {
    /// As written in a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Answer {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// What a condition will say, found out before it is known where it will be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it holds.
    pub answer: Answer,
    /// CamelCase reason.
    pub reason: &'static str,
    /// What is so, and what to do about it.
    pub message: String,
}

impl Finding {
    /// A finding.
    pub fn new(
        answer: impl Into<Answer>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            answer: answer.into(),
            reason,
            message: message.into(),
        }
    }
}

/// Conditions in the making. Those not said again vanish.
#[derive(Clone, Debug)]
pub struct Conditions<'a> {
    previous: &'a [Condition],
    generation: Option<i64>,
    now: Timestamp,
    said: Vec<Condition>,
}

impl<'a> Conditions<'a> {
    /// Starts from what the object's status says now.
    pub fn since(previous: &'a [Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self {
            previous,
            generation,
            now,
            said: Vec::new(),
        }
    }

    /// Says one condition.
    #[must_use]
    pub fn say(
        mut self,
        type_: &str,
        answer: impl Into<Answer>,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        let status = answer.into().as_str();
        let last_transition_time = self
            .previous
            .iter()
            .find(|condition| condition.type_ == type_ && condition.status == status)
            .map_or_else(
                || Time(whole_seconds(self.now)),
                |before| before.last_transition_time.clone(),
            );
        self.said.retain(|condition| condition.type_ != type_);
        self.said.push(Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            observed_generation: self.generation,
            last_transition_time,
        });
        self
    }

    /// Says a finding.
    #[must_use]
    pub fn tell(self, type_: &str, finding: Finding) -> Self {
        self.say(type_, finding.answer, finding.reason, finding.message)
    }

    /// The conditions said.
    pub fn finish(self) -> Vec<Condition> {
        self.said
    }
}

/// Kubernetes keeps times in whole seconds; anything finer would differ from what is read back.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Whether a condition of this type is True.
pub fn holds(conditions: &[Condition], type_: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_condition_said_again_keeps_its_transition_time() {
        let before = Conditions::since(&[], Some(1), at(10))
            .say("Ready", true, "Ready", "")
            .finish();
        let after = Conditions::since(&before, Some(2), at(20))
            .say("Ready", true, "Better", "")
            .finish();
        assert_eq!(after[0].last_transition_time, Time(at(10)));
        assert_eq!(after[0].observed_generation, Some(2));
        assert_eq!(after[0].reason, "Better");
    }

    #[test]
    fn a_condition_that_turned_gets_a_new_transition_time() {
        let before = Conditions::since(&[], None, at(10))
            .say("Ready", true, "Ready", "")
            .finish();
        let after = Conditions::since(&before, None, at(20))
            .say("Ready", false, "Broken", "")
            .finish();
        assert_eq!(after[0].last_transition_time, Time(at(20)));
    }

    #[test]
    fn a_condition_not_said_again_vanishes() {
        let before = Conditions::since(&[], None, at(10))
            .say("Old", true, "Old", "")
            .finish();
        assert!(Conditions::since(&before, None, at(20)).finish().is_empty());
    }
}

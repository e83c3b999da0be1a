//! How an observation or an effect fails: with a class, a reason for machines and words for people.

use std::fmt;

use butler_api::conditions::reasons;

use crate::api_server::{ApiError, Cause};

/// What the engine does about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Try again with backoff: the cause may pass.
    Retry,
    /// Only a change of the object or of the world can help; retried at the slowest pace.
    Terminal,
    /// Our picture was out of date. The watch brings the new one; nothing is reported.
    Stale,
}

/// A failure in the words of the person who must act on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// What the engine does about it.
    pub class: Class,
    /// CamelCase reason, for conditions and metrics.
    pub reason: &'static str,
    /// What was being done, what went wrong, what to do.
    pub message: String,
}

impl Failure {
    /// A failure that may pass by itself.
    pub fn retry(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            class: Class::Retry,
            reason,
            message: message.into(),
        }
    }

    /// A failure that needs somebody to change something.
    pub fn terminal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            class: Class::Terminal,
            reason,
            message: message.into(),
        }
    }

    /// The same failure under a more telling reason.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let (class, reason) = match error.cause {
            Cause::Conflict => (Class::Stale, reasons::APPLY_FAILED),
            Cause::Invalid => (Class::Terminal, reasons::APPLY_FAILED),
            Cause::NamespaceTerminating => (Class::Retry, reasons::NAMESPACE_TERMINATING),
            Cause::NotFound | Cause::AlreadyExists | Cause::Forbidden | Cause::Unavailable => {
                (Class::Retry, reasons::APPLY_FAILED)
            }
        };
        Self {
            class,
            reason,
            message: error.to_string(),
        }
    }
}

//! How a provider says that something was not done.

use butler_api::conditions::reasons;
use thiserror::Error;

/// What has to happen before it can go well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// Time has to pass: no answer, throttling, a name that is about to become free.
    Retry,
    /// Room has to be made, or less be asked for.
    Quota,
    /// Somebody has to hand in other credentials.
    Credentials,
    /// Somebody has to change what is asked for, or the provider configuration.
    Terminal,
}

impl ErrorClass {
    /// Whether the request has failed until somebody acts. It is tried again all the same, rarely.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Retry | Self::Quota => false,
            Self::Credentials | Self::Terminal => true,
        }
    }
}

/// Why a provider did not do what it was asked. It holds no secrets: it is shown in statuses, events and logs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What has to happen before it can go well.
    pub class: ErrorClass,
    /// CamelCase reason, one of [`butler_api::conditions::reasons`].
    pub reason: &'static str,
    /// What was being done, what went wrong, and what to do about it.
    pub message: String,
}

impl ProviderError {
    /// An error with a reason of its own.
    pub fn new(class: ErrorClass, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            class,
            reason,
            message: message.into(),
        }
    }

    /// It may go well by itself.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Retry, reasons::PROVIDER_ERROR, message)
    }

    /// There is not enough of something.
    pub fn quota(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Quota, reasons::QUOTA_EXCEEDED, message)
    }

    /// The credentials are refused.
    pub fn credentials(message: impl Into<String>) -> Self {
        Self::new(
            ErrorClass::Credentials,
            reasons::CREDENTIALS_INVALID,
            message,
        )
    }

    /// It cannot be done as asked.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Terminal, reasons::PROVIDER_ERROR, message)
    }
}

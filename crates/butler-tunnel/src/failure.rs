//! Why a connection through the tunnel could not be made, in words that cross the tunnel.

use http::StatusCode;
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// What kind of failure it was; also a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The request was not one for a connection to `host:port`.
    BadRequest,
    /// The agent's rules do not let anybody connect there.
    Forbidden,
    /// The name of the destination has no address.
    UnknownName,
    /// The destination refused.
    Refused,
    /// There is no way from the agent to the destination.
    Unreachable,
    /// Nobody answered in time.
    Timeout,
    /// As many streams are open as may be.
    Overloaded,
    /// No agent is connected.
    NoAgent,
    /// The agent went away while it was asked.
    AgentLost,
}

impl Failure {
    const ALL: [Self; 9] = [
        Self::BadRequest,
        Self::Forbidden,
        Self::UnknownName,
        Self::Refused,
        Self::Unreachable,
        Self::Timeout,
        Self::Overloaded,
        Self::NoAgent,
        Self::AgentLost,
    ];

    /// The word for it on the wire and in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Forbidden => "forbidden",
            Self::UnknownName => "unknown_name",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Overloaded => "overloaded",
            Self::NoAgent => "no_agent",
            Self::AgentLost => "agent_lost",
        }
    }

    /// The failure a word stands for.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|failure| failure.word() == word)
    }

    /// What an HTTP proxy answers for it.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::UnknownName | Self::Refused | Self::Unreachable | Self::AgentLost => {
                StatusCode::BAD_GATEWAY
            }
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Overloaded | Self::NoAgent => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Whether another agent may do better. A name or a host that is down is so for all agents; a way that is not there, or
    /// an agent that has gone, may be a matter of one node.
    pub(crate) const fn is_of_the_agent(self) -> bool {
        matches!(self, Self::Unreachable | Self::AgentLost | Self::Overloaded)
    }
}

impl EncodeLabelValue for Failure {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.word().encode(encoder)
    }
}

/// A connection through the tunnel that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TunnelError {
    /// What kind of failure it was.
    pub failure: Failure,
    /// What happened, for whoever asked for the connection.
    pub message: String,
}

impl TunnelError {
    pub(crate) fn new(failure: Failure, message: impl Into<String>) -> Self {
        Self {
            failure,
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_crosses_the_wire_unchanged() {
        for failure in Failure::ALL {
            assert_eq!(Failure::from_word(failure.word()), Some(failure));
            assert!(!failure.status().is_success());
        }
        assert_eq!(Failure::from_word("something new"), None);
    }
}

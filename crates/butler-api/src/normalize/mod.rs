//! Turns every accepted spelling of a manifest into the one the code reads.

pub mod cluster_bootstrap;
pub mod machine_request;
pub mod machine_size;
pub mod team;
pub mod tenant_cluster;

/// A field that breaks a rule. The API server refuses most of these; objects stored before a rule existed, or read from
/// a file, meet the rule here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{path} {rule}")]
pub struct FieldError {
    /// The field, as it is written in the manifest: `spec.resources.memory`.
    pub path: String,
    /// What the field must be, as the end of a sentence: `must be at least 1Gi`.
    pub rule: String,
}

impl FieldError {
    fn new(path: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            rule: rule.into(),
        }
    }
}

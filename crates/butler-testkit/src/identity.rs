//! Who talks to the server.

/// A user of a test server, proven by a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
}

impl Identity {
    /// The user whom the API server refuses nothing.
    pub fn admin() -> Self {
        Self::user("butler-testkit-admin").in_group("system:masters")
    }

    /// A user without groups: may do what RBAC grants, which is next to nothing.
    pub fn user(name: impl Into<String>) -> Self {
        Self {
            user: name.into(),
            groups: Vec::new(),
        }
    }

    /// The same user in one more group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }
}

//! The port to an API server: the few verbs the engine and its effects need.
//!
//! Two adapters exist: [`crate::kube_api_server::KubeApiServer`] speaks to a real one, the simulator in `butler-testkit` to
//! an in-memory one. Bodies are JSON, because plans hold manifests of many kinds.

use std::fmt;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::object::{Kind, ObjectKey};

/// What an API call answers.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, ApiError>>;

/// Which part of an object a server-side apply is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Everything but the status.
    Object,
    /// The status alone.
    Status,
}

/// What must still hold for a deletion to happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object must still be this one, not a namesake that came after it.
    pub uid: Option<String>,
    /// The object must not have changed.
    pub resource_version: Option<String>,
}

/// An API server.
pub trait ApiServer: Send + Sync + 'static {
    /// Reads one object; `None` if it does not exist.
    fn get<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey) -> Answer<'a, Option<Value>>;

    /// Reads all objects of a kind, of one namespace if given, that match a label selector if given.
    fn list<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: Option<&'a str>,
        labels: Option<&'a str>,
    ) -> Answer<'a, Vec<Value>>;

    /// Creates an object that must not exist yet: the API server decides who was first.
    fn create<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value>;

    /// Replaces an object; the body's resourceVersion must still be the current one.
    fn replace<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value>;

    /// Server-side apply, forced: what the body says is ours from now on. A body with `metadata.uid` is refused with
    /// [`Cause::Conflict`] if that very object is gone; for a status this needs `metadata.resourceVersion`, which refuses every
    /// other version likewise.
    fn apply<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        part: Part,
        manager: &'a str,
        body: Value,
    ) -> Answer<'a, Value>;

    /// JSON merge patch; a `metadata.resourceVersion` in it guards it.
    fn merge<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, patch: Value) -> Answer<'a, Value>;

    /// Deletes in the background, if the preconditions hold. An absent object is fine.
    fn delete<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()>;

    /// Deletes what the object owns, and the object last, if the preconditions hold: when it is gone, all of it is. Until then it
    /// is there, marked as deleted. An absent object is fine.
    fn delete_after_dependents<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()>;
}

/// Why an API call failed, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The object, or its namespace, or its kind does not exist.
    NotFound,
    /// Somebody was faster.
    AlreadyExists,
    /// The object changed since it was read, or is another one of the same name.
    Conflict,
    /// Schema, CEL or admission refused the body.
    Invalid,
    /// Our account lacks a permission.
    Forbidden,
    /// The namespace is going away: nothing can be created in it.
    NamespaceTerminating,
    /// The server did not answer, or not now.
    Unavailable,
}

/// A failed API call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ApiError {
    /// What was being done: `apply`, `delete` …
    pub verb: &'static str,
    /// To what kind.
    pub kind: String,
    /// To which object.
    pub key: ObjectKey,
    /// Why it failed.
    pub cause: Cause,
    /// The server's words.
    pub message: String,
}

impl fmt::Display for ApiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            kind,
            key,
            message,
            ..
        } = self;
        write!(formatter, "could not {verb} {kind} {key}: {message}")?;
        match self.cause {
            Cause::Forbidden => {
                formatter.write_str("; grant this permission to the component's service account")
            }
            _ => Ok(()),
        }
    }
}

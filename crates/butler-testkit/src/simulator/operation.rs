//! What a client asks of an API server, as data: performed by the store, printed in the log.

use std::fmt;

use butler_runtime::{
    api_server::{Cause, Part, Preconditions},
    object::{Kind, ObjectKey},
};
use serde_json::Value;

/// A request to an API server.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Reads one object.
    Get(Kind, ObjectKey),
    /// Reads all objects of a kind, of one namespace if given, that match a label selector if given.
    List(Kind, Option<String>, Option<String>),
    /// Creates an object.
    Create(Kind, ObjectKey, Value),
    /// Replaces an object.
    Replace(Kind, ObjectKey, Value),
    /// Server-side apply by a manager, forced.
    Apply(Kind, ObjectKey, Part, String, Value),
    /// JSON merge patch.
    Merge(Kind, ObjectKey, Value),
    /// Deletes in the background.
    Delete(Kind, ObjectKey, Preconditions),
    /// Deletes in the foreground: the object goes when nothing is left that it owns.
    DeleteLast(Kind, ObjectKey, Preconditions),
}

impl Operation {
    /// Creates an object whose body names it.
    pub fn create(kind: Kind, body: Value) -> Self {
        let key = ObjectKey::in_body(&body);
        Self::Create(kind, key, body)
    }

    /// Applies a body that names its object.
    pub fn apply(kind: Kind, manager: &str, body: Value) -> Self {
        let key = ObjectKey::in_body(&body);
        Self::Apply(kind, key, Part::Object, manager.to_owned(), body)
    }

    /// Deletes an object, whichever it is.
    pub fn delete(kind: Kind, key: ObjectKey) -> Self {
        Self::Delete(kind, key, Preconditions::default())
    }

    /// The kind it is about.
    pub fn kind(&self) -> &Kind {
        match self {
            Self::Get(kind, ..)
            | Self::List(kind, ..)
            | Self::Create(kind, ..)
            | Self::Replace(kind, ..)
            | Self::Apply(kind, ..)
            | Self::Merge(kind, ..)
            | Self::Delete(kind, ..)
            | Self::DeleteLast(kind, ..) => kind,
        }
    }

    /// The object it is about; for a list, the namespace with the name `*`.
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Get(_, key)
            | Self::Create(_, key, _)
            | Self::Replace(_, key, _)
            | Self::Apply(_, key, ..)
            | Self::Merge(_, key, _)
            | Self::Delete(_, key, _)
            | Self::DeleteLast(_, key, _) => key.clone(),
            Self::List(_, namespace, _) => ObjectKey {
                namespace: namespace.clone(),
                name: "*".to_owned(),
            },
        }
    }

    /// What is done, in one word or a few: the same words the real adapter uses in its errors.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Get(..) => "read",
            Self::List(..) => "list",
            Self::Create(..) => "create",
            Self::Replace(..) => "replace",
            Self::Apply(_, _, Part::Object, ..) => "apply",
            Self::Apply(_, _, Part::Status, ..) => "write the status of",
            Self::Merge(..) => "change",
            Self::Delete(..) | Self::DeleteLast(..) => "delete",
        }
    }

    /// The field manager, if it applies.
    pub fn manager(&self) -> Option<&str> {
        match self {
            Self::Apply(_, _, _, manager, _) => Some(manager),
            _ => None,
        }
    }

    /// Whether it changes anything.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get(..) | Self::List(..))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.verb(), self.kind(), self.key())
    }
}

/// What a request was answered with.
#[derive(Clone, Debug)]
pub enum Response {
    /// The object, if there is one.
    Object(Option<Value>),
    /// Objects.
    Objects(Vec<Value>),
    /// Nothing to say.
    Done,
}

impl Response {
    /// The object, if there is one.
    pub fn into_object(self) -> Option<Value> {
        match self {
            Self::Object(object) => object,
            Self::Objects(_) | Self::Done => None,
        }
    }

    /// The objects.
    pub fn into_objects(self) -> Vec<Value> {
        match self {
            Self::Objects(objects) => objects,
            Self::Object(object) => object.into_iter().collect(),
            Self::Done => Vec::new(),
        }
    }
}

/// A write request that the store answered, whether it changed something or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// Who asked.
    pub client: String,
    /// The field manager, if it was an apply.
    pub manager: Option<String>,
    /// What was asked, as printed in the log.
    pub words: String,
    /// Whether the store's revision grew.
    pub changed: bool,
    /// Why it was refused, if it was.
    pub refused: Option<Cause>,
}

//! What an object is to the engine: a kind, a key and a JSON body.
//!
//! Owns the identity types shared by plans, caches and API calls. Must not talk to anything.

use std::{any::TypeId, fmt};

use kube::{
    Resource,
    core::{ApiResource, NamespaceResourceScope},
};
use serde::Serialize;
use serde_json::{Value, json};

/// Where an object lives: its name, and its namespace unless it is cluster-scoped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectKey {
    /// Namespace; absent for cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key of a namespaced object.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of a typed object.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self {
            namespace: object.meta().namespace.clone(),
            name: object.meta().name.clone().unwrap_or_default(),
        }
    }

    /// The key in an object's JSON body.
    pub fn in_body(body: &Value) -> Self {
        let text = |pointer| body.pointer(pointer).and_then(Value::as_str);
        Self {
            namespace: text("/metadata/namespace").map(str::to_owned),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{namespace}/{}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

/// A kind as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// API version within the group.
    pub version: String,
    /// Kind, in singular and capitals.
    pub kind: String,
    /// Resource name in URLs.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// The kind of a Rust type.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self
    where
        K::Scope: 'static,
    {
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            namespaced: TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>(),
        }
    }

    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The same in kube's words.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version: self.api_version(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.kind)
    }
}

/// An object a plan wants to exist, with exactly the fields the plan cares for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// Its kind.
    #[serde(skip)]
    pub kind: Kind,
    /// Its key.
    #[serde(skip)]
    pub key: ObjectKey,
    /// The body to apply.
    #[serde(flatten)]
    pub body: Value,
    /// Objects of the same plan without which it must not be applied.
    #[serde(skip)]
    pub needs: Vec<(Kind, ObjectKey)>,
}

impl Manifest {
    /// A manifest of a typed object. Fields that are absent stay absent: they belong to someone else.
    pub fn of<K>(object: &K) -> Self
    where
        K: Resource<DynamicType = ()> + Serialize,
        K::Scope: 'static,
    {
        let body = serde_json::to_value(object).unwrap_or_else(|_| json!({}));
        Self::new(Kind::of::<K>(), body)
    }

    /// A manifest of a JSON body of a kind that has no Rust type.
    pub fn new(kind: Kind, mut body: Value) -> Self {
        body["apiVersion"] = kind.api_version().into();
        body["kind"] = kind.kind.clone().into();
        Self {
            key: ObjectKey::in_body(&body),
            kind,
            body,
            needs: Vec::new(),
        }
    }

    /// The same, but not applied in a pass in which the other could not be.
    #[must_use]
    pub fn needing(mut self, other: &Self) -> Self {
        self.needs.push((other.kind.clone(), other.key.clone()));
        self
    }
}

/// The text at a JSON pointer, if there is one.
pub(crate) fn text<'a>(body: &'a Value, pointer: &str) -> Option<&'a str> {
    body.pointer(pointer).and_then(Value::as_str)
}

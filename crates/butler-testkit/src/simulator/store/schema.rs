//! What the API server knows from its schemas and the simulator from these few tables: how lists merge, which kinds count
//! generations, what is defaulted.
//!
//! A list that is not named here is atomic, as Kubernetes has it for lists without a declared type.

use butler_runtime::object::Kind;

/// How the members of an object or the items of a list merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Each member for itself.
    Granular,
    /// As one value.
    Atomic,
    /// Items are told apart by these members.
    Keyed(&'static [ListKey]),
    /// Items are told apart by their value.
    Set,
}

/// A member that tells items of a list apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListKey {
    pub(super) name: &'static str,
    /// The value where the member is absent.
    pub(super) default: Option<&'static str>,
}

const fn key(name: &'static str) -> ListKey {
    ListKey {
        name,
        default: None,
    }
}

const PROTOCOL: ListKey = ListKey {
    name: "protocol",
    default: Some("TCP"),
};

type Row = (&'static [&'static str], Shape);

/// Lists of every kind, by the end of their path.
const LISTS: &[Row] = &[
    (&["metadata", "finalizers"], Shape::Set),
    (
        &["metadata", "ownerReferences"],
        Shape::Keyed(&[key("uid")]),
    ),
    (&["status", "conditions"], Shape::Keyed(&[key("type")])),
];

/// Lists of Kubernetes' own kinds.
const BUILTIN_LISTS: &[Row] = &[
    (
        &["containers", "ports"],
        Shape::Keyed(&[key("containerPort"), PROTOCOL]),
    ),
    (&["spec", "ports"], Shape::Keyed(&[key("port"), PROTOCOL])),
    (&["containers"], Shape::Keyed(&[key("name")])),
    (&["initContainers"], Shape::Keyed(&[key("name")])),
    (&["env"], Shape::Keyed(&[key("name")])),
    (&["volumes"], Shape::Keyed(&[key("name")])),
    (&["volumeMounts"], Shape::Keyed(&[key("mountPath")])),
    (&["imagePullSecrets"], Shape::Keyed(&[key("name")])),
];

/// Lists of Butler's kinds.
const CUSTOM_LISTS: &[Row] = &[
    (&["spec", "environments"], Shape::Keyed(&[key("name")])),
    (&["resources", "claims"], Shape::Keyed(&[key("name")])),
    (&["kubelet", "preferredAddressTypes"], Shape::Set),
];

/// Objects of Kubernetes' own kinds that are one value.
const BUILTIN_ATOMS: &[&str] = &[
    "selector",
    "labelSelector",
    "nodeSelector",
    "secretKeyRef",
    "configMapKeyRef",
    "fieldRef",
    "secretRef",
    "configMapRef",
    "roleRef",
];

/// How an object at a path merges. A path names members only: items of lists add nothing to it.
pub(super) fn shape_of_object(kind: &Kind, path: &[String]) -> Shape {
    let atom = path
        .last()
        .is_some_and(|last| BUILTIN_ATOMS.contains(&last.as_str()));
    if is_builtin(kind) && atom {
        Shape::Atomic
    } else {
        Shape::Granular
    }
}

/// How a list at a path merges.
pub(super) fn shape_of_list(kind: &Kind, path: &[String]) -> Shape {
    let own = if is_builtin(kind) {
        BUILTIN_LISTS
    } else {
        CUSTOM_LISTS
    };
    LISTS
        .iter()
        .chain(own)
        .find(|(suffix, _)| ends_with(path, suffix))
        .map_or(Shape::Atomic, |(_, shape)| *shape)
}

fn ends_with(path: &[String], suffix: &[&str]) -> bool {
    let Some(start) = path.len().checked_sub(suffix.len()) else {
        return false;
    };
    path.iter().skip(start).eq(suffix)
}

/// Whether a kind comes with Kubernetes, rather than with a `CustomResourceDefinition`.
pub(super) fn is_builtin(kind: &Kind) -> bool {
    !kind.group.contains('.') || kind.group.ends_with(".k8s.io")
}

/// Groups of Kubernetes' own whose objects count generations.
const GROUPS_WITH_GENERATION: &[&str] = &[
    "apps",
    "batch",
    "policy",
    "networking.k8s.io",
    "apiextensions.k8s.io",
    "admissionregistration.k8s.io",
];

/// Whether objects of a kind count their generations.
pub(super) fn has_generation(kind: &Kind) -> bool {
    !is_builtin(kind)
        || GROUPS_WITH_GENERATION.contains(&kind.group.as_str())
        || (kind.group.is_empty() && kind.kind == "Pod")
}

/// Whether a kind is that of namespaces.
pub(super) fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.kind == "Namespace"
}

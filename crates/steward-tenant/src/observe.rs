//! What a tenant holds of ours: one list for each kind and place, and a look at names that somebody else may have taken.
//!
//! Bodies are not kept. Of each object there remains what a plan decides by: identity, whose it is, a hash of the fields we
//! applied, and what stands against applying again.

use std::collections::BTreeMap;

use butler_api::keys::{field_managers, labels, values};
use butler_runtime::api_server::{ApiError, ApiServer, Part};
use butler_runtime::cache::Facts;
use butler_runtime::fields::IntentHash;
use butler_runtime::object::{Kind, ObjectKey};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use crate::desired::{Claim, Desired, DesiredObject};
use crate::object::ObjectId;
use crate::part::TenantPart;
use crate::places::Place;

/// How many requests are under way at once: few, for each needs a connection of its own.
pub(crate) const CONCURRENT_REQUESTS: usize = 4;

/// In whose name we apply.
pub(crate) const MANAGER: &str = field_managers::STEWARD;

/// What a plan must know of an object that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedObject {
    /// Identity, version, and hashes of what was applied.
    pub facts: Facts,
    /// Whether it carries our label, or we applied it once.
    pub ours: bool,
    /// The part it is labelled as, if it is labelled as ours.
    pub part: Option<TenantPart>,
    /// Fields that we would set and somebody else has set since; they stay theirs.
    pub yielded: Vec<&'static str>,
    /// Whether a field that cannot be changed differs from what we would set.
    pub must_be_replaced: bool,
}

impl ObservedObject {
    /// What is known of an object by its body; `desired` is what we would apply, if anything.
    pub fn of(body: &Value, desired: Option<&DesiredObject>) -> Self {
        let facts = Facts::of(body);
        let label = |key: &str| {
            let labels = body.pointer("/metadata/labels")?;
            labels.get(key).and_then(Value::as_str)
        };
        let labelled = label(labels::STEWARD_PROJECT) == Some(values::STEWARD_PROJECT);
        let applied = facts.applied(MANAGER, Part::Object).is_some();
        Self {
            ours: labelled || applied,
            part: label(labels::STEWARD_COMPONENT)
                .filter(|_| labelled)
                .and_then(TenantPart::named),
            yielded: desired
                .map(|desired| yielded(body, desired))
                .unwrap_or_default(),
            must_be_replaced: desired.is_some_and(|desired| differs_for_good(body, desired)),
            facts,
        }
    }

    /// The hash of what we applied, as it stands now; `None` if we applied nothing.
    pub fn applied(&self) -> Option<IntentHash> {
        self.facts.applied(MANAGER, Part::Object)
    }
}

/// What a tenant holds of ours, and under names that we would use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The objects.
    pub objects: BTreeMap<ObjectId, ObservedObject>,
}

/// One of several requests.
type Call<'a, T> = BoxFuture<'a, Result<T, ApiError>>;

/// Looks at a tenant.
pub async fn observe(api: &dyn ApiServer, desired: &Desired) -> Result<Observed, ApiError> {
    let wanted: BTreeMap<ObjectId, &DesiredObject> = desired
        .objects
        .iter()
        .map(|object| (object.id(), object))
        .collect();
    let selector = format!("{}={}", labels::STEWARD_PROJECT, values::STEWARD_PROJECT);
    // Boxed, so that whoever awaits this can be moved between threads.
    let lists: Vec<Call<'_, (&Kind, Vec<Value>)>> = desired
        .places
        .iter()
        .map(|Place { kind, namespace }| {
            let selector = selector.as_str();
            async move {
                let bodies = api.list(kind, *namespace, Some(selector)).await?;
                Ok((kind, bodies))
            }
            .boxed()
        })
        .collect();
    let mut lists = stream::iter(lists).buffered(CONCURRENT_REQUESTS);
    let mut objects = BTreeMap::new();
    while let Some((kind, bodies)) = lists.try_next().await? {
        for body in bodies {
            let id = ObjectId {
                kind: kind.clone(),
                key: ObjectKey::in_body(&body),
            };
            let observed = ObservedObject::of(&body, wanted.get(&id).copied());
            objects.insert(id, observed);
        }
    }
    drop(lists);
    // Names that are not ours to take: is somebody there?
    let unseen: Vec<(&ObjectId, &DesiredObject)> = wanted
        .iter()
        .filter(|(id, object)| object.claim() == Claim::IfFree && !objects.contains_key(*id))
        .map(|(id, object)| (id, *object))
        .collect();
    let looks: Vec<Call<'_, Option<(ObjectId, ObservedObject)>>> = unseen
        .into_iter()
        .map(|(id, object)| {
            async move {
                let body = api.get(&id.kind, &id.key).await?;
                Ok(body.map(|body| (id.clone(), ObservedObject::of(&body, Some(object)))))
            }
            .boxed()
        })
        .collect();
    let found: Vec<Option<(ObjectId, ObservedObject)>> = stream::iter(looks)
        .buffered(CONCURRENT_REQUESTS)
        .try_collect()
        .await?;
    objects.extend(found.into_iter().flatten());
    Ok(Observed { objects })
}

/// Fields that the API server does not let anybody change.
fn unchangeable(kind: &str) -> &'static [&'static str] {
    match kind {
        "RoleBinding" | "ClusterRoleBinding" => &["/roleRef"],
        "Service" => &["/spec/clusterIPs"],
        "Deployment" | "DaemonSet" => &["/spec/selector"],
        _ => &[],
    }
}

fn differs_for_good(body: &Value, desired: &DesiredObject) -> bool {
    let manifest = &desired.manifest;
    unchangeable(&manifest.kind.kind)
        .iter()
        .any(|pointer| body.pointer(pointer) != manifest.body.pointer(pointer))
}

/// Fields we give a first value, and leave to whoever sets them afterwards: an autoscaler, or a person.
fn yielding(kind: &str) -> &'static [&'static str] {
    match kind {
        "Deployment" => &["/spec/replicas"],
        _ => &[],
    }
}

fn yielded(body: &Value, desired: &DesiredObject) -> Vec<&'static str> {
    let entries = body
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let others: Vec<&Value> = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("manager").and_then(Value::as_str) != Some(MANAGER))
        .filter_map(|entry| entry.get("fieldsV1"))
        .collect();
    yielding(&desired.manifest.kind.kind)
        .iter()
        .copied()
        .filter(|pointer| {
            let selector = pointer.replace('/', "/f:");
            others
                .iter()
                .any(|fields| fields.pointer(&selector).is_some())
        })
        .collect()
}

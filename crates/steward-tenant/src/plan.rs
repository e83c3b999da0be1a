//! From what shall be and what is to what to do. Pure, and cannot fail.
//!
//! An object is left alone if the fields we applied still say what we would apply. Server-side apply records which fields
//! those are, and the API server keeps the record with the object; so a changed field is seen, a field of somebody else is not
//! looked at, and at rest nothing is written. A hash in an annotation would need the second look all the same, and would not
//! notice a change; an apply without effect would be a request for each object in each pass.

use std::collections::BTreeMap;
use std::fmt;

use butler_runtime::fields::{IntentHash, hash_of_intent};
use serde_json::Value;

use crate::desired::{Claim, Desired, DesiredObject};
use crate::object::ObjectId;
use crate::observe::{Observed, ObservedObject};
use crate::part::TenantPart;

/// Objects that the tenant's own admission changes as they are written: what we applied, and the version it became. Applying the
/// same to the same version would change nothing.
pub type Settled = BTreeMap<ObjectId, (IntentHash, String)>;

/// One thing to do. Its `Debug` says with which object, not what is in it.
#[derive(Clone, PartialEq)]
pub enum Effect {
    /// Write our fields of an object.
    Apply {
        /// The object.
        object: DesiredObject,
        /// Of an object that must go first, because it cannot be changed into this one: its UID.
        replaces: Option<String>,
    },
    /// Delete an object of ours.
    Delete {
        /// The object.
        id: ObjectId,
        /// Its UID: a namesake that came after it stays.
        uid: String,
        /// The part it belonged to.
        part: TenantPart,
    },
}

impl Effect {
    /// The part it is done for.
    pub const fn part(&self) -> TenantPart {
        match self {
            Self::Apply { object, .. } => object.part,
            Self::Delete { part, .. } => *part,
        }
    }

    /// The object it is done to.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Apply { object, .. } => object.id(),
            Self::Delete { id, .. } => id.clone(),
        }
    }
}

impl fmt::Debug for Effect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Apply { replaces: None, .. } => "Apply",
            Self::Apply {
                replaces: Some(_), ..
            } => "Replace",
            Self::Delete { .. } => "Delete",
        };
        write!(formatter, "{verb}({})", self.id())
    }
}

/// What to do, and what is left alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What to do: deletions first, then the objects in their order.
    pub effects: Vec<Effect>,
    /// Objects that are as they should be.
    pub unchanged: Vec<ObjectId>,
    /// Names that somebody else has taken.
    pub foreign: Vec<(TenantPart, ObjectId)>,
    /// Objects that must be gone before they can be made again.
    pub leaving: Vec<(TenantPart, ObjectId)>,
}

/// Decides what to do.
pub fn plan(desired: &Desired, observed: &Observed, settled: &Settled) -> Plan {
    let mut plan = Plan {
        effects: deletions(desired, observed),
        ..Plan::default()
    };
    for object in &desired.objects {
        let id = object.id();
        let Some(found) = observed.objects.get(&id) else {
            plan.effects.push(Effect::Apply {
                object: object.clone(),
                replaces: None,
            });
            continue;
        };
        if !found.ours && object.claim() == Claim::IfFree {
            plan.foreign.push((object.part, id));
        } else if found.facts.deleting {
            plan.leaving.push((object.part, id));
        } else if found.must_be_replaced {
            plan.effects.push(Effect::Apply {
                object: object.clone(),
                replaces: Some(found.facts.uid.clone()),
            });
        } else {
            let object = without_yielded(object, found);
            if is_in_place(&id, &object, found, settled) {
                plan.unchanged.push(id);
            } else {
                plan.effects.push(Effect::Apply {
                    object,
                    replaces: None,
                });
            }
        }
    }
    plan
}

/// What is labelled as a part we speak of, was applied by us, and is not wanted any more. A copy that somebody made of one of our
/// objects has its labels, but we did not apply it.
fn deletions(desired: &Desired, observed: &Observed) -> Vec<Effect> {
    let is_wanted = |id: &ObjectId| desired.objects.iter().any(|object| object.id() == *id);
    observed
        .objects
        .iter()
        .filter(|(id, found)| !found.facts.deleting && found.applied().is_some() && !is_wanted(id))
        .filter_map(|(id, found)| {
            let part = found.part.filter(|part| desired.governed.contains(part))?;
            Some(Effect::Delete {
                id: id.clone(),
                uid: found.facts.uid.clone(),
                part,
            })
        })
        .collect()
}

fn is_in_place(
    id: &ObjectId,
    object: &DesiredObject,
    found: &ObservedObject,
    settled: &Settled,
) -> bool {
    let intent = hash_of_intent(&object.manifest.body);
    let settled = settled.get(id).is_some_and(|(applied, version)| {
        *applied == intent && *version == found.facts.resource_version
    });
    settled || found.applied() == Some(intent)
}

fn without_yielded(object: &DesiredObject, found: &ObservedObject) -> DesiredObject {
    let mut object = object.clone();
    for pointer in &found.yielded {
        if let Some((parent, name)) = pointer.rsplit_once('/')
            && let Some(Value::Object(parent)) = object.manifest.body.pointer_mut(parent)
        {
            parent.remove(name);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use butler_runtime::object::{Kind, Manifest};
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    const LABELS: [(&str, &str); 2] = [
        ("steward.butlerlabs.dev/project", "steward"),
        ("steward.butlerlabs.dev/component", "coredns"),
    ];

    fn object(kind: Kind, name: &str, spec: Value) -> DesiredObject {
        let labels: BTreeMap<_, _> = LABELS.into_iter().collect();
        let mut body = spec;
        body["metadata"] = json!({ "namespace": "kube-system", "name": name, "labels": labels });
        DesiredObject {
            part: TenantPart::CoreDns,
            manifest: Manifest::new(kind, body),
        }
    }

    fn settings(text: &str) -> DesiredObject {
        object(
            Kind::of::<ConfigMap>(),
            "settings",
            json!({ "data": { "a": text } }),
        )
    }

    fn desired(objects: Vec<DesiredObject>) -> Desired {
        Desired {
            objects,
            governed: [TenantPart::CoreDns].into(),
            problems: BTreeMap::new(),
            places: Vec::new(),
        }
    }

    /// The fields of a body, as the API server records them.
    fn fields(value: &Value) -> Value {
        match value {
            Value::Object(members) => members
                .iter()
                .map(|(name, member)| (format!("f:{name}"), fields(member)))
                .collect(),
            _ => json!({}),
        }
    }

    /// The object as the API server holds it after we applied it.
    fn stored(object: &DesiredObject) -> Value {
        let mut body = object.manifest.body.clone();
        let mut applied = body.clone();
        for identity in ["apiVersion", "kind"] {
            applied.as_object_mut().unwrap().remove(identity);
        }
        applied["metadata"] = json!({ "labels": body["metadata"]["labels"] });
        body["metadata"]["uid"] = "uid".into();
        body["metadata"]["resourceVersion"] = "7".into();
        body["metadata"]["managedFields"] =
            json!([{ "manager": "steward", "operation": "Apply", "fieldsV1": fields(&applied) }]);
        body
    }

    fn observed(bodies: &[(&DesiredObject, Value)], desired: &Desired) -> Observed {
        let objects = bodies.iter().map(|(object, body)| {
            let wanted = desired
                .objects
                .iter()
                .find(|wanted| wanted.id() == object.id());
            (object.id(), ObservedObject::of(body, wanted))
        });
        Observed {
            objects: objects.collect(),
        }
    }

    fn effects(desired: &Desired, observed: &Observed) -> Vec<String> {
        let plan = plan(desired, observed, &Settled::new());
        plan.effects
            .iter()
            .map(|effect| format!("{effect:?}"))
            .collect()
    }

    const APPLY: &str = "Apply(ConfigMap kube-system/settings)";
    const DELETE: &str = "Delete(ConfigMap kube-system/settings)";

    #[test]
    fn what_is_absent_or_differs_is_applied_and_the_rest_is_not() {
        let wanted = desired(vec![settings("1")]);
        assert_eq!(effects(&wanted, &Observed::default()), [APPLY]);
        let same = observed(&[(&settings("1"), stored(&settings("1")))], &wanted);
        assert_eq!(effects(&wanted, &same), [""; 0]);
        let drifted = observed(&[(&settings("1"), stored(&settings("2")))], &wanted);
        assert_eq!(effects(&wanted, &drifted), [APPLY]);
    }

    #[test]
    fn a_key_that_somebody_added_is_theirs() {
        let wanted = desired(vec![settings("1")]);
        let mut body = stored(&settings("1"));
        body["data"]["b"] = "theirs".into();
        assert_eq!(
            effects(&wanted, &observed(&[(&settings("1"), body)], &wanted)),
            [""; 0]
        );
    }

    #[test]
    fn what_we_applied_and_do_not_want_goes_unless_its_part_is_not_spoken_of() {
        let settings = settings("1");
        let nothing = desired(Vec::new());
        let found = observed(&[(&settings, stored(&settings))], &nothing);
        assert_eq!(effects(&nothing, &found), [DELETE]);
        let silent = Desired {
            governed: [TenantPart::KubeProxy].into(),
            ..nothing.clone()
        };
        assert_eq!(effects(&silent, &found), [""; 0]);
        let mut copy = stored(&settings);
        copy["metadata"]["managedFields"][0]["manager"] = "kubectl".into();
        let copies = observed(&[(&settings, copy)], &nothing);
        assert_eq!(effects(&nothing, &copies), [""; 0]);
    }

    #[test]
    fn a_name_that_somebody_else_has_taken_is_left_to_them() {
        let settings = settings("1");
        let wanted = desired(vec![settings.clone()]);
        let theirs = json!({ "metadata": { "namespace": "kube-system", "name": "settings", "uid": "theirs" } });
        let plan = plan(
            &wanted,
            &observed(&[(&settings, theirs)], &wanted),
            &Settled::new(),
        );
        assert_eq!(plan.effects, []);
        assert_eq!(plan.foreign, [(TenantPart::CoreDns, settings.id())]);
    }

    #[test]
    fn an_object_on_its_way_out_is_waited_for() {
        let settings = settings("1");
        let wanted = desired(vec![settings.clone()]);
        let mut body = stored(&settings);
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let found = observed(&[(&settings, body)], &wanted);
        let plan = plan(&wanted, &found, &Settled::new());
        assert_eq!(plan.effects, []);
        assert_eq!(plan.leaving.len(), 1);
        assert_eq!(
            effects(&desired(Vec::new()), &found),
            [""; 0],
            "and not deleted twice"
        );
    }

    #[test]
    fn a_scaled_deployment_stays_scaled() {
        let deployment = |replicas: u32| {
            let kind = Kind::of::<Deployment>();
            object(
                kind,
                "coredns",
                json!({ "spec": { "replicas": replicas, "paused": false } }),
            )
        };
        let wanted = desired(vec![deployment(2)]);
        // As after `kubectl scale`: the field is theirs now.
        let mut body = stored(&deployment(5));
        let managed = body["metadata"]["managedFields"].as_array_mut().unwrap();
        managed[0]["fieldsV1"]["f:spec"]
            .as_object_mut()
            .unwrap()
            .remove("f:replicas");
        managed.push(json!({
            "manager": "kubectl", "operation": "Update", "subresource": "scale",
            "fieldsV1": { "f:spec": { "f:replicas": {} } },
        }));
        let found = observed(&[(&deployment(2), body)], &wanted);
        assert_eq!(effects(&wanted, &found), [""; 0]);
    }

    #[test]
    fn what_the_tenants_admission_rewrites_is_applied_once() {
        let settings = settings("1");
        let wanted = desired(vec![settings.clone()]);
        let mut body = stored(&settings);
        body["data"]["a"] = "rewritten".into();
        let found = observed(&[(&settings, body)], &wanted);
        let intent = hash_of_intent(&settings.manifest.body);
        let at = |version: &str| Settled::from([(settings.id(), (intent, version.to_owned()))]);
        assert_eq!(plan(&wanted, &found, &at("7")).effects, []);
        assert_eq!(
            plan(&wanted, &found, &at("6")).effects.len(),
            1,
            "somebody wrote since"
        );
    }
}

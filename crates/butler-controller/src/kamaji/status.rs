//! The status of a control plane of Kamaji, as Cluster API reads it.
//!
//! | | |
//! |---|---|
//! | reconciles | `TenantControlPlane` of Kamaji (where it is installed), which is only looked at |
//! | watches | Cluster (pausing); the owner is read, since it may be of any kind and version |
//! | writes | the status of the control plane object of Cluster API that owns it: whether it is ready, replicas, version |
//!
//! Everything that Kamaji says is shown as it says it, a loss of readiness too. Only that a control plane was ready once stays
//! true.

use std::time::Duration;

use butler_api::keys::groups;
use butler_runtime::{
    api_server::Part,
    failure::Failure,
    object::{Kind, ObjectKey},
    plan::{Next, Plan},
    reconciler::{Context, Reconciler, Sources},
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::tenant_control_plane::KamajiTenantControlPlane;
use crate::{
    cluster_api::{self, ClusterFacts},
    run::COMPONENT,
};

/// How often the owner, which is not watched, is looked at.
const PERIOD: Duration = Duration::from_mins(5);
/// Our own kind, which has the fields of both contracts.
const STEWARD_CONTROL_PLANE: &str = "StewardControlPlane";
/// The version of Kamaji's own kind that follows the older contract; those after it follow the newer one.
const OLDER_VERSION: &str = "v1alpha1";
/// The words of Kamaji for a control plane whose API server answers.
const SERVING: [&str; 5] = [
    "Ready",
    "Upgrading",
    "Migrating",
    "CertificateAuthorityRotating",
    "WriteLimited",
];

/// The controller that shows statuses.
#[derive(Clone, Copy, Debug, Default)]
pub struct KamajiStatusReconciler;

/// The control plane object of Cluster API that owns one of Kamaji's.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// Its status.
    pub status: Value,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Effect {
    /// Writes the status of the owner.
    Show {
        /// Its kind.
        kind: Kind,
        /// Its key.
        key: ObjectKey,
        /// Its UID: a namesake that came after it is not meant.
        uid: String,
        /// What it shows.
        status: Value,
    },
}

/// Which fields of the contracts between Cluster API and control planes a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contract {
    /// Those of v1beta1.
    Older,
    /// Those of v1beta2.
    Newer,
    /// All of them.
    Both,
}

impl Contract {
    fn of(kind: &Kind) -> Self {
        if kind.kind == STEWARD_CONTROL_PLANE {
            Self::Both
        } else if kind.version == OLDER_VERSION {
            Self::Older
        } else {
            Self::Newer
        }
    }
}

/// The kind, key and UID of the owner, if there is one.
fn owner_of(control_plane: &KamajiTenantControlPlane) -> Option<(Kind, ObjectKey, String)> {
    let mut references = control_plane.owner_references().iter();
    references.find_map(|reference| {
        let (group, version) = reference.api_version.split_once('/')?;
        let kind = Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: reference.kind.clone(),
            plural: format!("{}s", reference.kind.to_lowercase()),
            namespaced: true,
        };
        let key = ObjectKey {
            namespace: control_plane.namespace(),
            name: reference.name.clone(),
        };
        (group == groups::CONTROL_PLANE).then(|| (kind, key, reference.uid.clone()))
    })
}

/// What the owner shall show.
fn wanted(control_plane: &KamajiTenantControlPlane, owner: &Owner) -> Map<String, Value> {
    let status = control_plane.status.as_ref();
    let resources = status.and_then(|status| status.kubernetes_resources.clone());
    let resources = resources.unwrap_or_default();
    let (version, pods) = (
        resources.version.unwrap_or_default(),
        resources.deployment.unwrap_or_default(),
    );
    let count = |count: Option<i32>| count.unwrap_or_default();
    let word = version.status.as_deref().unwrap_or_default();
    let ready = SERVING.contains(&word) && count(pods.ready_replicas) > 0;
    let was = |pointer: &str| owner.status.pointer(pointer) == Some(&json!(true));
    let initialized =
        ready || was("/initialized") || was("/initialization/controlPlaneInitialized");
    let mut fields = json!({
        "externalManagedControlPlane": true,
        "initialized": initialized,
        "version": version.version,
        "selector": pods.selector,
        "replicas": count(pods.replicas),
        "readyReplicas": count(pods.ready_replicas),
    });
    let contract = Contract::of(&owner.kind);
    if contract != Contract::Newer {
        fields["ready"] = ready.into();
        fields["updatedReplicas"] = count(pods.updated_replicas).into();
        fields["unavailableReplicas"] = count(pods.unavailable_replicas).into();
    }
    if contract != Contract::Older {
        fields["initialization"] = json!({ "controlPlaneInitialized": initialized });
        fields["availableReplicas"] = count(pods.available_replicas).into();
        fields["upToDateReplicas"] = count(pods.updated_replicas).into();
    }
    let Value::Object(mut fields) = fields else {
        return Map::new();
    };
    fields.retain(|_, value| !value.is_null());
    fields
}

fn plan(control_plane: &KamajiTenantControlPlane, owner: Option<&Owner>) -> Plan<(), Effect> {
    let mut plan = Plan::status(());
    let is_leaving = control_plane.metadata.deletion_timestamp.is_some();
    let Some(owner) = owner.filter(|_| control_plane.status.is_some() && !is_leaving) else {
        return plan;
    };
    plan.next = Next::After(PERIOD);
    let wanted = wanted(control_plane, owner);
    let mut fields = wanted.iter();
    if !fields.all(|(name, value)| owner.status.get(name) == Some(value)) {
        plan.effects.push(Effect::Show {
            kind: owner.kind.clone(),
            key: owner.key.clone(),
            uid: owner.uid.clone(),
            status: wanted.into(),
        });
    }
    plan
}

impl Reconciler for KamajiStatusReconciler {
    const NAME: &'static str = "kamajistatus";
    const FOREIGN: bool = true;

    type Object = KamajiTenantControlPlane;
    type Status = ();
    type World = Option<Owner>;
    type Effect = Effect;

    fn sources(&self, sources: &mut Sources<'_, KamajiTenantControlPlane>) {
        sources.reads::<ClusterFacts>(|cluster, control_planes| {
            let key = Some(&cluster.facts.key);
            control_planes.keys_where(|found| {
                cluster_api::cluster_of(&found.value.0.metadata).as_ref() == key
            })
        });
    }

    fn paused(
        &self,
        control_plane: &KamajiTenantControlPlane,
        context: &Context,
    ) -> Option<String> {
        cluster_api::paused(&control_plane.metadata, context.caches())
    }

    async fn observe(
        &self,
        control_plane: &KamajiTenantControlPlane,
        context: &Context,
    ) -> Result<Option<Owner>, Failure> {
        let Some((kind, key, uid)) = owner_of(control_plane) else {
            return Ok(None);
        };
        let found = context.api().get(&kind, &key).await?;
        let found = found.filter(|found| found["metadata"]["uid"] == uid.as_str());
        Ok(found.map(|mut found| Owner {
            status: found["status"].take(),
            kind,
            key,
            uid,
        }))
    }

    fn plan(
        &self,
        control_plane: &KamajiTenantControlPlane,
        owner: &Option<Owner>,
        _: Timestamp,
    ) -> Plan<(), Effect> {
        plan(control_plane, owner.as_ref())
    }

    async fn perform(
        &self,
        _: &KamajiTenantControlPlane,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        let Effect::Show {
            kind,
            key,
            uid,
            status,
        } = effect;
        let body = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": { "name": key.name, "namespace": key.namespace, "uid": uid },
            "status": status,
        });
        let manager = format!("{COMPONENT}/{}", Self::NAME);
        let applied = context
            .api()
            .apply(kind, key, Part::Status, &manager, body)
            .await;
        applied.map(drop).map_err(Failure::from)
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;

//! The kubeconfig of a control plane of Kamaji, as Cluster API reads it.
//!
//! | | |
//! |---|---|
//! | reconciles | `TenantControlPlane` of Kamaji (where it is installed), which is only looked at |
//! | watches | Kamaji's Secrets, Secrets of clusters of Cluster API, Cluster (pausing) |
//! | writes | the Secret `<cluster>-kubeconfig`, which goes with the control plane |
//!
//! Of kubeconfigs only fingerprints are remembered; what is in them is read where it is written. A Secret of that name that
//! somebody else made is left alone.

use butler_api::keys::{labels, secret_keys, values};
use butler_runtime::{
    api_server::{ApiServer, Part},
    cache::Projection,
    failure::Failure,
    fields::{IntentHash, hash_of_intent},
    object::{Kind, ObjectKey},
    plan::Plan,
    reconciler::{Context, Reconciler, Sources},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::tenant_control_plane::KamajiTenantControlPlane;
use crate::{
    cluster_api::{self, ClusterFacts},
    run::COMPONENT,
};

/// Kamaji's Secret with kubeconfigs of a control plane is called after it, with this behind.
const SOURCE_SUFFIX: &str = "-admin-kubeconfig";
/// Cluster API's Secret with a kubeconfig is called after the cluster, with this behind.
const TARGET_SUFFIX: &str = "-kubeconfig";
/// The key of Cluster API's Secret.
const TARGET_KEY: &str = "value";

/// The controller that translates kubeconfigs.
#[derive(Clone, Copy, Debug, Default)]
pub struct KamajiKubeconfigReconciler;

/// A Secret of Kamaji's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KamajiSecret {
    /// Fingerprint of the administrator's kubeconfig, if it has one.
    pub kubeconfig: Option<IntentHash>,
}

/// A Secret of a cluster of Cluster API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSecret {
    /// Fingerprint of the kubeconfig in it, if there is one.
    pub kubeconfig: Option<IntentHash>,
    /// The cluster it says it belongs to.
    pub cluster: String,
    /// Whether Butler made it.
    pub ours: bool,
}

fn fingerprint(secret: &Value, key: &str) -> Option<IntentHash> {
    secret["data"].get(key).map(hash_of_intent)
}

fn label<'a>(object: &'a Value, label: &str) -> Option<&'a str> {
    object["metadata"]["labels"].get(label)?.as_str()
}

fn is_ours(object: &Value) -> bool {
    label(object, labels::MANAGED_BY) == Some(values::MANAGED_BY_BUTLER)
}

impl Projection for KamajiSecret {
    const LABELS: Option<&'static str> = Some(labels::KAMAJI_COMPONENT);

    fn kind() -> Kind {
        Kind::of::<Secret>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        Ok(Self {
            kubeconfig: fingerprint(&object, secret_keys::ADMIN_CONF),
        })
    }
}

impl Projection for ClusterSecret {
    const LABELS: Option<&'static str> = Some(labels::CLUSTER_API_CLUSTER);

    fn kind() -> Kind {
        Kind::of::<Secret>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let cluster = label(&object, labels::CLUSTER_API_CLUSTER);
        Ok(Self {
            kubeconfig: fingerprint(&object, TARGET_KEY),
            cluster: cluster.unwrap_or_default().to_owned(),
            ours: is_ours(&object),
        })
    }
}

/// The world around a control plane of Kamaji.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Kamaji's Secret.
    pub source: Option<KamajiSecret>,
    /// Cluster API's Secret.
    pub target: Option<ClusterSecret>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Effect {
    /// Writes Cluster API's Secret.
    Translate {
        /// From this.
        source: ObjectKey,
        /// To this.
        target: ObjectKey,
        /// For this cluster.
        cluster: String,
    },
}

fn source_key(control_plane: &KamajiTenantControlPlane) -> ObjectKey {
    let name = format!("{}{SOURCE_SUFFIX}", control_plane.name_any());
    ObjectKey {
        namespace: control_plane.namespace(),
        name,
    }
}

fn target_key(control_plane: &KamajiTenantControlPlane) -> ObjectKey {
    let name = format!("{}{TARGET_SUFFIX}", control_plane.cluster());
    ObjectKey {
        namespace: control_plane.namespace(),
        name,
    }
}

fn plan(control_plane: &KamajiTenantControlPlane, world: &World) -> Plan<(), Effect> {
    let mut plan = Plan::status(());
    let Some(source) = world.source.and_then(|source| source.kubeconfig) else {
        return plan;
    };
    let cluster = control_plane.cluster();
    let is_done = world.target.as_ref().is_some_and(|target| {
        !target.ours || (target.kubeconfig == Some(source) && target.cluster == cluster)
    });
    let is_leaving = control_plane.metadata.deletion_timestamp.is_some();
    if !is_done && !is_leaving {
        plan.effects.push(Effect::Translate {
            source: source_key(control_plane),
            target: target_key(control_plane),
            cluster,
        });
    }
    plan
}

async fn translate(
    control_plane: &KamajiTenantControlPlane,
    (source, target): (&ObjectKey, &ObjectKey),
    cluster: &str,
    api: &dyn ApiServer,
) -> Result<(), Failure> {
    let secrets = Kind::of::<Secret>();
    let found = api.get(&secrets, source).await?;
    let kubeconfig = found.and_then(|found| found["data"].get(secret_keys::ADMIN_CONF).cloned());
    let Some(kubeconfig) = kubeconfig else {
        // The watch brings what follows from that.
        return Ok(());
    };
    // One that does not say which cluster it belongs to is not in the cache.
    let existing = api.get(&secrets, target).await?;
    if existing.is_some_and(|existing| !is_ours(&existing)) {
        tracing::info!(secret = %target, "somebody else made this kubeconfig; it is left alone");
        return Ok(());
    }
    let kind = Kind::of::<KamajiTenantControlPlane>();
    let body = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": target.name,
            "namespace": target.namespace,
            "labels": {
                labels::CLUSTER_API_CLUSTER: cluster,
                labels::MANAGED_BY: values::MANAGED_BY_BUTLER,
                labels::SECRET_TYPE: values::SECRET_TYPE_KUBECONFIG,
            },
            "ownerReferences": [{
                "apiVersion": kind.api_version(),
                "kind": kind.kind,
                "name": control_plane.name_any(),
                "uid": control_plane.uid(),
            }],
        },
        "type": values::SECRET_KIND_CLUSTER_API,
        "data": { TARGET_KEY: kubeconfig },
    });
    let manager = format!("{COMPONENT}/{}", KamajiKubeconfigReconciler::NAME);
    let applied = api.apply(&secrets, target, Part::Object, &manager, body);
    applied.await.map(drop).map_err(Failure::from)
}

impl Reconciler for KamajiKubeconfigReconciler {
    const NAME: &'static str = "kamajisecret";
    const FOREIGN: bool = true;

    type Object = KamajiTenantControlPlane;
    type Status = ();
    type World = World;
    type Effect = Effect;

    fn sources(&self, sources: &mut Sources<'_, KamajiTenantControlPlane>) {
        sources.reads::<KamajiSecret>(|secret, control_planes| {
            let key = &secret.facts.key;
            let name = key.name.strip_suffix(SOURCE_SUFFIX);
            let owner = name.map(|name| ObjectKey {
                namespace: key.namespace.clone(),
                name: name.to_owned(),
            });
            owner
                .filter(|owner| control_planes.get(owner).is_some())
                .into_iter()
                .collect()
        });
        sources.reads::<ClusterSecret>(|secret, control_planes| {
            let key = &secret.facts.key;
            control_planes.keys_where(|found| target_key(&found.value.0) == *key)
        });
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
    ) -> Result<World, Failure> {
        let source = context.cache::<KamajiSecret>();
        let target = context.cache::<ClusterSecret>();
        Ok(World {
            source: source
                .get(&source_key(control_plane))
                .map(|found| found.value),
            target: target
                .get(&target_key(control_plane))
                .map(|found| found.value.clone()),
        })
    }

    fn plan(
        &self,
        control_plane: &KamajiTenantControlPlane,
        world: &World,
        _: Timestamp,
    ) -> Plan<(), Effect> {
        plan(control_plane, world)
    }

    async fn perform(
        &self,
        control_plane: &KamajiTenantControlPlane,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        let Effect::Translate {
            source,
            target,
            cluster,
        } = effect;
        translate(control_plane, (source, target), cluster, context.api()).await
    }
}

#[cfg(test)]
#[path = "kubeconfig_tests.rs"]
mod tests;

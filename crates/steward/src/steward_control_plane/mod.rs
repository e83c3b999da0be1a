//! `StewardControlPlane`: a hosted control plane, as Cluster API sees it. By contract v1beta2, with the status of v1beta1 beside it.
//!
//! | | |
//! |---|---|
//! | reconciles | `StewardControlPlane` |
//! | watches | Cluster of Cluster API (where it is installed), `TenantControlPlane`, `ButlerCluster`, definitions (contract labels), Secrets (versions; those made for Cluster API); infrastructure of other kinds and control planes in other clusters through [`elsewhere`] |
//! | writes | its `TenantControlPlane`, `spec.controlPlaneEndpoint` of its own and of the infrastructure, the Secrets `<cluster>-kubeconfig` and `<cluster>-ca`; the finalizer is held while the `TenantControlPlane` exists |
//! | conditions | `Available`, `RollingOut`, `ScalingUp`, `ScalingDown`, `Paused`, `Deleting` as the contract asks; `FoundExternalReferenceClient`, `TenantControlPlaneCreated`, `TenantControlPlaneAddressReady`, `ControlPlaneEndpointPatched`, `InfrastructureClusterPatched`, `KubeadmResourcesCreated`, `StewardControlPlaneIsInitialized`, `StewardControlPlaneIsReady` for the steps |
//!
//! No step waits for another that it does not need: the `TenantControlPlane` is made at once, and whatever it shows is handed on
//! in the pass that its change brings about.
//!
//! Must not: run a control plane. That is what the `TenantControlPlane` is for.

mod build;
mod cluster;
pub mod elsewhere;
mod infrastructure;
mod observe;
mod perform;
mod plan;
#[cfg(test)]
mod scene;
mod secrets;
mod status;
mod tenant;

use std::{collections::BTreeSet, sync::Arc};

use butler_api::{
    cluster_api::{
        butler_cluster::ButlerCluster,
        steward_control_plane::{StewardControlPlane, StewardControlPlaneStatus},
    },
    keys::finalizers,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{
    cache::{Store, Whole},
    failure::Failure,
    object::{Kind, Manifest, ObjectKey},
    plan::Plan,
    reconciler::{Bell, Claim, Context, Needs, Reconciler, Sources},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::{projections::SecretVersion, secrets::Guard};
use elsewhere::Elsewhere;
use infrastructure::ContractVersions;
use secrets::CopiedSecret;

pub use cluster::{ClusterFacts, ClusterSight};
pub use infrastructure::{Contract, Infrastructure, InfrastructureSight, Manner};
pub use observe::{Host, World};
pub use secrets::{ClusterSecret, CopySight, Origin};
pub use tenant::{SecretSource, TenantSight};

/// What an operator decides for all control planes of Cluster API at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterApiSettings {
    /// Whether infrastructure is left alone: somebody else tells it the endpoint.
    pub skip_infrastructure: bool,
    /// Kinds of infrastructure, beside the known ones, whose `spec.controlPlaneEndpoint` is written.
    pub further_infrastructure: BTreeSet<String>,
    /// Whether control planes may run in other clusters.
    pub external: ExternalReferences,
}

/// From where kubeconfigs of other clusters may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExternalReferences {
    /// From nowhere: control planes run in the management cluster.
    #[default]
    Off,
    /// From Secrets in the namespace of the control plane.
    SameNamespace,
    /// From Secrets in any namespace.
    AnyNamespace,
}

/// What server-side apply in this cluster cannot do for a control plane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Effect {
    /// Makes or changes the `TenantControlPlane` in another cluster.
    ApplyElsewhere(Box<Manifest>),
    /// Removes the `TenantControlPlane`.
    RemoveTenant {
        /// Its key.
        key: ObjectKey,
        /// Its UID.
        uid: String,
    },
    /// Tells the infrastructure where the API server is.
    TellInfrastructure {
        /// Its kind.
        kind: Kind,
        /// Its key.
        key: ObjectKey,
        /// What changes.
        patch: Value,
    },
    /// Declares infrastructure ready that nobody else does.
    DeclareInfrastructureReady {
        /// Its kind.
        kind: Kind,
        /// Its key.
        key: ObjectKey,
        /// What its status says then.
        status: Value,
    },
    /// Copies a Secret for Cluster API.
    CopySecret {
        /// Which.
        secret: ClusterSecret,
        /// For which Cluster.
        cluster: ObjectKey,
        /// Name of the `TenantControlPlane`.
        tenant: String,
        /// From where.
        origin: Origin,
        /// Over what it may be written.
        guard: Guard,
    },
}

/// The controller of [`StewardControlPlane`].
pub struct StewardControlPlaneReconciler {
    settings: ClusterApiSettings,
    elsewhere: Arc<dyn Elsewhere>,
    bell: Bell<StewardControlPlane>,
}

impl StewardControlPlaneReconciler {
    /// A controller that works under these settings. `bell` is rung by whatever stands behind `elsewhere`.
    pub fn new(
        settings: ClusterApiSettings,
        elsewhere: Arc<dyn Elsewhere>,
        bell: Bell<StewardControlPlane>,
    ) -> Self {
        Self {
            settings,
            elsewhere,
            bell,
        }
    }
}

type ControlPlanes = Store<Whole<StewardControlPlane>>;

/// The control planes that belong to a Cluster.
fn of_cluster(cluster: &ObjectKey, control_planes: &ControlPlanes) -> Vec<ObjectKey> {
    control_planes.keys_where(|found| cluster::cluster_of(&found.value.0).as_ref() == Some(cluster))
}

/// The control planes that a Secret matters to: it has a name that they need, or holds a kubeconfig of theirs.
fn of_secret(secret: &ObjectKey, control_planes: &ControlPlanes) -> Vec<ObjectKey> {
    control_planes.keys_where(|found| {
        let control_plane = &found.value.0;
        let is_for = |cluster: ObjectKey| {
            let mut secrets = ClusterSecret::ALL.into_iter();
            secrets.any(|wanted| wanted.key(&cluster) == *secret)
        };
        let is_wanted = control_plane.metadata.namespace == secret.namespace
            && cluster::cluster_of(control_plane).is_some_and(is_for);
        let leads_to = observe::kubeconfig(control_plane);
        is_wanted || leads_to.is_some_and(|kubeconfig| kubeconfig.secret == *secret)
    })
}

impl Reconciler for StewardControlPlaneReconciler {
    const NAME: &'static str = "stewardcontrolplane";
    const FINALIZER: Option<&'static str> = Some(finalizers::STEWARD_CONTROL_PLANE);

    type Object = StewardControlPlane;
    type Status = StewardControlPlaneStatus;
    type World = World;
    type Effect = Effect;

    fn claim(&self, control_plane: &StewardControlPlane, _: &Context) -> Claim {
        // Before it has a Cluster nothing is made for it, and nothing need hold it.
        match cluster::owner(control_plane) {
            Some(_) => Claim::Ours,
            None => Claim::Unclear,
        }
    }

    fn sources(&self, sources: &mut Sources<'_, StewardControlPlane>) {
        sources.owns_as::<Whole<TenantControlPlane>>();
        sources.reads::<ClusterFacts>(|cluster, control_planes| {
            of_cluster(&cluster.facts.key, control_planes)
        });
        // The infrastructure of a Cluster need not have its name, but it belongs to it.
        sources.reads::<Whole<ButlerCluster>>(|infrastructure, control_planes| {
            let owners = infrastructure.value.0.metadata.owner_references.iter();
            let namespace = infrastructure.facts.key.namespace.clone();
            let clusters = owners.flatten().map(|owner| ObjectKey {
                namespace: namespace.clone(),
                name: owner.name.clone(),
            });
            clusters
                .flat_map(|cluster| of_cluster(&cluster, control_planes))
                .collect()
        });
        // A new provider brings its definitions once, and there are few control planes that wait for it.
        sources.reads::<ContractVersions>(|definition, control_planes| {
            if definition.value == ContractVersions::default() {
                Vec::new()
            } else {
                control_planes.keys()
            }
        });
        sources.reads::<CopiedSecret>(|secret, control_planes| {
            let owner = secret.value.owner.as_deref();
            let owner = owner.and_then(|uid| control_planes.key_of(uid));
            owner.into_iter().collect()
        });
        sources.reads::<SecretVersion>(|secret, control_planes| {
            of_secret(&secret.facts.key, control_planes)
        });
        sources.hears(&self.bell);
    }

    fn paused(&self, control_plane: &StewardControlPlane, context: &Context) -> Option<String> {
        cluster::paused(control_plane, context.caches())
    }

    async fn observe(
        &self,
        control_plane: &StewardControlPlane,
        context: &Context,
    ) -> Result<World, Failure> {
        observe::observe(control_plane, self, context).await
    }

    fn plan(
        &self,
        control_plane: &StewardControlPlane,
        world: &World,
        now: Timestamp,
    ) -> Plan<StewardControlPlaneStatus, Effect> {
        plan::plan(control_plane, world, now)
    }

    fn needs(&self, effect: &Effect) -> Needs {
        match effect {
            Effect::ApplyElsewhere(_)
            | Effect::RemoveTenant { .. }
            | Effect::TellInfrastructure { .. }
            | Effect::CopySecret { .. } => Needs::Nothing,
            // It is not ready before it was told where the API server is.
            Effect::DeclareInfrastructureReady { .. } => Needs::EarlierEffects,
        }
    }

    async fn perform(
        &self,
        control_plane: &StewardControlPlane,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        perform::perform(control_plane, effect, self, context).await
    }
}

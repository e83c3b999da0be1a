//! `KubeconfigGenerator`: a kubeconfig for somebody, beside every control plane that is selected.
//!
//! | | |
//! |---|---|
//! | reconciles | `KubeconfigGenerator` |
//! | watches | `TenantControlPlane`s, Namespaces (labels), Secrets with Steward's label |
//! | reads | a Secret of the wanted name that no cache knows, before it is made: somebody else's carries no label of ours |
//! | writes | one Secret for each selected control plane, which goes with the generator and when the control plane is not selected any more; the finalizer is held while any of them is known |
//! | conditions | `Ready` (every selected control plane has its kubeconfig) |

mod observe;
mod ownership;
mod perform;
mod plan;

use butler_api::{
    keys::{annotations, finalizers},
    steward::{
        kubeconfig_generator::{KubeconfigGenerator, KubeconfigGeneratorStatus},
        tenant_control_plane::TenantControlPlane,
    },
};
use butler_runtime::{
    cache::Whole,
    failure::Failure,
    object::ObjectKey,
    plan::Plan,
    reconciler::{Context, Needs, Reconciler, Sources},
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use crate::{
    names::SecretRole,
    projections::NamespaceLabels,
    secrets::{Borrower, Guard, KeptSecret},
};

pub use observe::{Target, World};

/// What server-side apply cannot do for a generator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Effect {
    /// Makes a kubeconfig, or makes it anew.
    Make {
        /// For which control plane.
        control_plane: ObjectKey,
        /// Why.
        reason: String,
        /// For whom, and for how long.
        borrower: Borrower,
        /// Over what it may be written.
        guard: Guard,
        /// When.
        at: Timestamp,
    },
    /// Removes a kubeconfig that nobody asks for any more.
    Remove {
        /// The Secret.
        key: ObjectKey,
        /// Its UID.
        uid: String,
        /// The version that was judged: in another it may be somebody else's.
        resource_version: String,
    },
}

/// The controller of [`KubeconfigGenerator`].
#[derive(Clone, Copy, Debug, Default)]
pub struct KubeconfigGeneratorReconciler;

impl Reconciler for KubeconfigGeneratorReconciler {
    const NAME: &'static str = "kubeconfiggenerator";
    const FINALIZER: Option<&'static str> = Some(finalizers::KUBECONFIG_GENERATOR);

    type Object = KubeconfigGenerator;
    type Status = KubeconfigGeneratorStatus;
    type World = World;
    type Effect = Effect;

    fn sources(&self, sources: &mut Sources<'_, KubeconfigGenerator>) {
        sources.reads::<Whole<TenantControlPlane>>(|_, generators| generators.keys());
        sources.reads::<NamespaceLabels>(|_, generators| generators.keys());
        sources.reads::<KeptSecret>(|secret, generators| {
            let source = matches!(
                secret.value.role,
                Some(SecretRole::Authority | SecretRole::AdminKubeconfig)
            );
            // What kubeconfigs are made from concerns everybody; of the others, a name concerns whoever may want it.
            generators.keys_where(|generator| {
                source || may_be_of(&secret.facts.key, &generator.facts.key.name)
            })
        });
    }

    fn paused(&self, generator: &KubeconfigGenerator, _: &Context) -> Option<String> {
        let paused = generator
            .annotations()
            .contains_key(annotations::STEWARD_PAUSED);
        paused.then(|| {
            format!(
                "remove the annotation {} to go on",
                annotations::STEWARD_PAUSED
            )
        })
    }

    async fn observe(
        &self,
        generator: &KubeconfigGenerator,
        context: &Context,
    ) -> Result<World, Failure> {
        observe::observe(generator, context).await
    }

    fn plan(
        &self,
        generator: &KubeconfigGenerator,
        world: &World,
        now: Timestamp,
    ) -> Plan<KubeconfigGeneratorStatus, Effect> {
        plan::plan(generator, world, now)
    }

    /// Each is about another Secret.
    fn needs(&self, _: &Effect) -> Needs {
        Needs::Nothing
    }

    async fn perform(
        &self,
        generator: &KubeconfigGenerator,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        perform::perform(generator, effect, context).await
    }
}

/// The Secret that a generator makes for a control plane.
pub(crate) fn secret_of(control_plane: &ObjectKey, generator: &str) -> ObjectKey {
    ObjectKey {
        namespace: control_plane.namespace.clone(),
        name: format!("{}-{generator}", control_plane.name),
    }
}

/// Whether a generator makes, or would like to make, a Secret of this name for some control plane.
fn may_be_of(secret: &ObjectKey, generator: &str) -> bool {
    let control_plane = secret.name.strip_suffix(generator);
    control_plane.is_some_and(|control_plane| control_plane.ends_with('-'))
}

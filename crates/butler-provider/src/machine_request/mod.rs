//! `MachineRequest`: one machine at a provider, from the asking to its end.
//!
//! | | |
//! |---|---|
//! | reconciles | `MachineRequest` objects whose `ProviderConfig` is of this provider's kind; others are not touched |
//! | watches | `ProviderConfig`, `IPAllocation` (its own), Secret (metadata); the machine itself by looking, or by [`Provider::changes`] |
//! | writes | `IPAllocation`, where addresses come from pools; the finalizer is held while the machine may exist |
//! | conditions | `Ready`, `Progressing`, `AddressAllocated` (addresses from pools) |
//!
//! The machine is looked up by the UID of the request in every pass, and made by it: whatever a process that was killed had
//! done is found, not done again. Nothing is written to Kubernetes while nothing changes.

mod case;
mod observe;
mod perform;
mod plan;
mod status;

use std::sync::Arc;

use butler_api::{
    butler::{
        machine_request::{MachineRequest, MachineRequestStatus},
        provider_config::ProviderConfig,
    },
    keys::{annotations, names, secret_keys},
};
use butler_runtime::{
    cache::{Metadata, Whole},
    failure::Failure,
    object::ObjectKey,
    plan::Plan,
    reconciler::{Bell, Claim, Context, Needs, Reconciler, Sources},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::{
    access::{self, Doors},
    allocation::{Allocation, Release},
    attempts::{Attempts, Basis},
    order::MachineIdentity,
    provider::Provider,
};
pub use observe::{UserDataSight, World};

/// What server-side apply cannot do for a machine. It names what is to be done; secrets are read when it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Effect {
    /// Makes the machine, completes it or starts it.
    Create {
        /// Its address, if addresses come from pools.
        address: Option<std::net::IpAddr>,
        /// When this was decided.
        at: Timestamp,
        /// From what.
        basis: Basis,
    },
    /// Hands user data to a machine that was made without.
    DeliverUserData {
        /// When this was decided.
        at: Timestamp,
        /// From what.
        basis: Basis,
    },
    /// Deletes the machine.
    Delete {
        /// When this was decided.
        at: Timestamp,
        /// From what.
        basis: Basis,
        /// Nothing is seen of it any more: the finalizer goes after this, so it must succeed.
        last: bool,
    },
    /// Gives an allocation back.
    Release(Release),
}

/// The controller of [`MachineRequest`] for one provider.
#[derive(Debug)]
pub struct MachineRequestReconciler<P> {
    provider: Arc<P>,
    doors: Doors,
    attempts: Attempts,
    bell: Bell<MachineRequest>,
}

impl<P: Provider> MachineRequestReconciler<P> {
    /// A controller that asks this provider, and that the bell wakes.
    pub fn new(provider: Arc<P>, bell: Bell<MachineRequest>) -> Self {
        Self {
            provider,
            doors: Doors::default(),
            attempts: Attempts::default(),
            bell,
        }
    }
}

impl<P: Provider> Reconciler for MachineRequestReconciler<P> {
    const NAME: &'static str = "machinerequest";
    const FINALIZER: Option<&'static str> = Some(P::KIND.machine_request_finalizer());

    type Object = MachineRequest;
    type Status = MachineRequestStatus;
    type World = World;
    type Effect = Effect;

    fn claim(&self, request: &MachineRequest, context: &Context) -> Claim {
        let finalizer = P::KIND.machine_request_finalizer();
        let holds = request.finalizers().iter().any(|held| held == finalizer);
        let configuration = configuration_key(request);
        access::claim::<P>(configuration.as_ref(), holds, context.caches())
    }

    fn sources(&self, sources: &mut Sources<'_, MachineRequest>) {
        sources.hears(&self.bell);
        sources.owns_as::<Allocation>();
        sources.reads::<Whole<ProviderConfig>>(|config, requests| {
            requests.keys_where(|request| {
                configuration_key(&request.value.0).as_ref() == Some(&config.facts.key)
            })
        });
        let uses = self.doors.uses();
        sources.reads::<Metadata<Secret>>(move |secret, requests| {
            let key = &secret.facts.key;
            let mut concerned = requests.keys_where(|request| {
                user_data_key(&request.value.0).is_some_and(|(named, _)| named == *key)
            });
            concerned.extend(uses.of(key));
            concerned
        });
    }

    async fn observe(&self, request: &MachineRequest, context: &Context) -> Result<World, Failure> {
        observe::observe(self, request, context).await
    }

    fn plan(
        &self,
        request: &MachineRequest,
        world: &World,
        now: Timestamp,
    ) -> Plan<MachineRequestStatus, Effect> {
        plan::plan(request, world, now)
    }

    fn needs(&self, effect: &Effect) -> Needs {
        match effect {
            // An address is used when its allocation carries our mark, and given back when the machine cannot have it any more.
            Effect::Create { .. } | Effect::Release(_) => Needs::Everything,
            Effect::DeliverUserData { .. } | Effect::Delete { .. } => Needs::EarlierEffects,
        }
    }

    async fn perform(
        &self,
        request: &MachineRequest,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        perform::perform(self, request, effect, context).await
    }
}

/// The provider configuration that a request names, in either spelling.
fn configuration_key(request: &MachineRequest) -> Option<ObjectKey> {
    let spec = &request.spec;
    let reference = spec
        .provider_ref
        .as_ref()
        .or(spec.provider_config_ref.as_ref())?;
    Some(key_in(
        request,
        reference.namespace.as_ref(),
        &reference.name,
    ))
}

/// The Secret with the user data, if it is in one, and the key in it.
fn user_data_key(request: &MachineRequest) -> Option<(ObjectKey, &str)> {
    let reference = request.spec.user_data_secret_ref.as_ref()?;
    if reaches_elsewhere(request) {
        return None;
    }
    let key = key_in(request, None, &reference.name);
    Some((key, reference.key.as_deref().unwrap_or(secret_keys::VALUE)))
}

/// Whether a request names user data of another namespace, which whoever wrote it may not be allowed to read.
fn reaches_elsewhere(request: &MachineRequest) -> bool {
    let reference = request.spec.user_data_secret_ref.as_ref();
    let named = reference.and_then(|reference| reference.namespace.as_ref());
    named.is_some_and(|named| Some(named) != request.metadata.namespace.as_ref())
}

fn key_in(request: &MachineRequest, namespace: Option<&String>, name: &str) -> ObjectKey {
    ObjectKey {
        namespace: namespace.or(request.metadata.namespace.as_ref()).cloned(),
        name: name.to_owned(),
    }
}

/// Which machine a request means. Also that of a request which breaks a rule, since it can be deleted.
fn identity(request: &MachineRequest) -> MachineIdentity {
    let named = request.spec.machine_name.clone();
    MachineIdentity {
        uid: request.uid().unwrap_or_default(),
        machine_name: named.unwrap_or_else(|| request.name_any()),
        // Who may write there may do anything to the platform; elsewhere the machine of somebody else could be named.
        adopts: request
            .annotations()
            .get(annotations::ADOPT_MACHINE_ID)
            .filter(|_| request.metadata.namespace.as_deref() == Some(names::SYSTEM_NAMESPACE))
            .cloned(),
    }
}

//! `LoadBalancerRequest`: one load balancer at a provider, from the asking to its end.
//!
//! | | |
//! |---|---|
//! | reconciles | `LoadBalancerRequest` objects whose `ProviderConfig` is of this provider's kind; others are not touched |
//! | watches | `ProviderConfig`, `IPAllocation` (its own), Secret (metadata); the load balancer itself by looking, or by [`Provider::changes`] |
//! | writes | `IPAllocation`, where addresses come from pools; the finalizer is held while the load balancer may exist |
//! | conditions | `Ready` (it has an endpoint), `Progressing`, `AddressAllocated` (addresses from pools) |
//!
//! It is ready, with its endpoint, before it has any target: certificates name the endpoint before there are machines.

mod case;
mod observe;
mod plan;

use std::{net::IpAddr, sync::Arc};

use butler_api::{
    butler::{
        load_balancer_request::{LoadBalancerRequest, LoadBalancerRequestStatus},
        provider_config::ProviderConfig,
    },
    conditions::reasons,
};
use butler_runtime::{
    cache::{Metadata, Whole},
    failure::{Class, Failure},
    object::ObjectKey,
    plan::Plan,
    reconciler::{Bell, Claim, Context, Needs, Reconciler, Sources},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::{
    access::{self, Doors, Petition},
    allocation::{self, Allocation, Release},
    attempts::{Attempts, Basis},
    error::ProviderError,
    order::{LoadBalancerIdentity, LoadBalancerOrder},
    provider::{Deletion, Provider},
};
pub use observe::World;

/// What server-side apply cannot do for a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Effect {
    /// Makes the load balancer, or brings it in step.
    Ensure {
        /// Its address, if addresses come from pools.
        address: Option<IpAddr>,
        /// When this was decided.
        at: Timestamp,
        /// From what.
        basis: Basis,
    },
    /// Deletes it.
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

/// The controller of [`LoadBalancerRequest`] for one provider.
#[derive(Debug)]
pub struct LoadBalancerRequestReconciler<P> {
    provider: Arc<P>,
    doors: Doors,
    attempts: Attempts,
    bell: Bell<LoadBalancerRequest>,
}

impl<P: Provider> LoadBalancerRequestReconciler<P> {
    /// A controller that asks this provider, and that the bell wakes.
    pub fn new(provider: Arc<P>, bell: Bell<LoadBalancerRequest>) -> Self {
        Self {
            provider,
            doors: Doors::default(),
            attempts: Attempts::default(),
            bell,
        }
    }

    fn note(&self, uid: &str, basis: &Basis, at: Timestamp, result: Result<(), ProviderError>) {
        let error = result.err();
        if let Some(error) = &error {
            tracing::warn!(uid, deed = basis.deed, reason = error.reason, %error, "the provider refused");
        }
        self.attempts.note(uid, basis, at, error);
    }
}

impl<P: Provider> Reconciler for LoadBalancerRequestReconciler<P> {
    const NAME: &'static str = "loadbalancerrequest";
    const FINALIZER: Option<&'static str> = Some(P::KIND.load_balancer_request_finalizer());

    type Object = LoadBalancerRequest;
    type Status = LoadBalancerRequestStatus;
    type World = World;
    type Effect = Effect;

    fn claim(&self, request: &LoadBalancerRequest, context: &Context) -> Claim {
        let finalizer = P::KIND.load_balancer_request_finalizer();
        let holds = request.finalizers().iter().any(|held| held == finalizer);
        let configuration = configuration_key(request);
        access::claim::<P>(Some(&configuration), holds, context.caches())
    }

    fn sources(&self, sources: &mut Sources<'_, LoadBalancerRequest>) {
        sources.hears(&self.bell);
        sources.owns_as::<Allocation>();
        sources.reads::<Whole<ProviderConfig>>(|config, requests| {
            requests.keys_where(|request| configuration_key(&request.value.0) == config.facts.key)
        });
        let uses = self.doors.uses();
        sources.reads::<Metadata<Secret>>(move |secret, _| uses.of(&secret.facts.key));
    }

    async fn observe(
        &self,
        request: &LoadBalancerRequest,
        context: &Context,
    ) -> Result<World, Failure> {
        observe::observe(self, request, context).await
    }

    fn plan(
        &self,
        request: &LoadBalancerRequest,
        world: &World,
        now: Timestamp,
    ) -> Plan<LoadBalancerRequestStatus, Effect> {
        plan::plan(request, world, now)
    }

    fn needs(&self, effect: &Effect) -> Needs {
        match effect {
            // An address is used when its allocation carries our mark, and given back when nothing can have it any more.
            Effect::Ensure { .. } | Effect::Release(_) => Needs::Everything,
            Effect::Delete { .. } => Needs::EarlierEffects,
        }
    }

    async fn perform(
        &self,
        request: &LoadBalancerRequest,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        if let Effect::Release(release) = effect {
            return allocation::release(release, context).await;
        }
        let configuration = configuration_key(request);
        let petition = petition(request, &configuration);
        let opened = self.doors.open::<P>(&petition, context).await?;
        let granted = opened.map_err(|error| stale(&error.message))?;
        let identity = identity(request);
        match effect {
            Effect::Ensure { address, at, basis } => {
                let order =
                    order(request, *address).ok_or_else(|| stale("the request breaks a rule"))?;
                let provider = self.provider.as_ref();
                let made = async {
                    self.doors.validate(provider, &granted).await?;
                    provider.ensure_load_balancer(&granted.access, &order).await
                };
                self.note(&identity.uid, basis, *at, made.await);
            }
            Effect::Delete { at, basis, last } => {
                let deleted = self
                    .provider
                    .delete_load_balancer(&granted.access, &identity)
                    .await;
                match deleted {
                    deleted if !last => {
                        self.note(&identity.uid, basis, *at, deleted.map(|_| ()));
                    }
                    Ok(Deletion::Gone) => self.attempts.forget(&identity.uid),
                    Ok(Deletion::UnderWay) => {
                        return Err(stale("the load balancer is not gone yet"));
                    }
                    Err(error) => return Err(Failure::retry(error.reason, error.message)),
                }
            }
            Effect::Release(_) => {}
        }
        Ok(())
    }
}

/// The provider configuration that a request names.
fn configuration_key(request: &LoadBalancerRequest) -> ObjectKey {
    let reference = &request.spec.provider_config_ref;
    let namespace = reference.namespace.as_ref();
    ObjectKey {
        namespace: namespace.or(request.metadata.namespace.as_ref()).cloned(),
        name: reference.name.clone(),
    }
}

fn petition<'a>(request: &LoadBalancerRequest, configuration: &'a ObjectKey) -> Petition<'a> {
    Petition {
        request: ObjectKey::of(request),
        configuration,
        deleting: request.metadata.deletion_timestamp.is_some(),
    }
}

fn identity(request: &LoadBalancerRequest) -> LoadBalancerIdentity {
    LoadBalancerIdentity {
        uid: request.uid().unwrap_or_default(),
        cluster_name: request.spec.cluster_name.clone(),
    }
}

/// The load balancer as it should be; nothing if a port cannot be one.
fn order(request: &LoadBalancerRequest, address: Option<IpAddr>) -> Option<LoadBalancerOrder> {
    let spec = &request.spec;
    let health = spec.health_check_port.unwrap_or(spec.port);
    Some(LoadBalancerOrder {
        identity: identity(request),
        port: u16::try_from(spec.port).ok().filter(|port| *port > 0)?,
        health_check_port: u16::try_from(health).ok().filter(|port| *port > 0)?,
        targets: spec.targets.clone(),
        address,
    })
}

/// What was decided does not fit what is there any more: look again.
fn stale(message: &str) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::OBSERVE_FAILED,
        message: message.to_owned(),
    }
}

//! `TenantCluster`: a Kubernetes cluster that a team asks for, from its request to its end.
//!
//! | | |
//! |---|---|
//! | reconciles | `TenantCluster` |
//! | watches | `ButlerConfig`, Team, `ProviderConfig`, `NetworkPool`, all `TenantClusters` (limits); what is made of Cluster API (where it is installed), Steward and Kamaji: Cluster, control plane, infrastructure, `MachineDeployment`, `MachineSet`, Machine; `ButlerMachine`, `TenantControlPlane` (for words); Secrets (versions), Services and Gateway (exposure) |
//! | writes | the namespace of the tenant and everything in it that `build` lists; in the namespaces of platform and team `IPAllocation` and `ImageSync`; a copy of credentials where another project needs one; the finalizer is held while any of it exists |
//! | conditions | `ProviderAccessGranted`, `QuotaSatisfied`, `NetworkReady`, `ImageReady`, `InfrastructureReady`, `ControlPlaneReady`, `WorkersReady`, `AddonsReady`, `RollingOut`, `Ready`, `Running` (the same as `Ready`), `Deleting`; `NutanixCredentialsTrustBundle`, `FeaturesAvailable` (while something that it says has no effect) |
//!
//! | file | |
//! |---|---|
//! | `blueprint`, `build` | what the cluster shall be, and the objects it is made of |
//! | `facts`, [`related`], `observe` | what is remembered of objects, what exists for a cluster, and the rest of the world |
//! | `origin`, `exposure` | what was settled when the cluster was made, and stays; where hosted control planes are reached |
//! | `plan`, `judge`, `kept`, `addresses`, `growth`, `image`, `upgrade`, `credentials`, `addons`, `features` | what is made, and in which order |
//! | [`why`], `status` | what is waited for, and what is shown |
//! | `pause`, `end` | rest of Cluster API with the cluster; deletion |
//!
//! Whether a cluster may be at all, `crate::tenant_rules` say.
//!
//! Must not: make machines, control planes or addresses. Others do; here it is decided what they are asked for.

mod addons;
mod addresses;
pub(crate) mod blueprint;
pub(crate) mod build;
mod credentials;
mod end;
mod exposure;
mod facts;
mod features;
mod growth;
mod image;
mod judge;
mod kept;
pub(crate) mod kinds;
mod observe;
mod origin;
mod pause;
mod perform;
mod plan;
pub mod related;
mod rolling;
#[cfg(test)]
mod scene;
mod status;
mod upgrade;
pub mod why;

use std::{sync::Arc, time::Duration};

use butler_api::{
    butler::{
        butler_config::ButlerConfig,
        image_sync::ImageSync,
        ip_allocation::IPAllocation,
        load_balancer_request::LoadBalancerRequest,
        network_pool::NetworkPool,
        provider_config::ProviderConfig,
        team::Team,
        tenant_cluster::{ManagementMode, TenantCluster, TenantClusterStatus},
    },
    cluster_api::{butler_cluster::ButlerCluster, butler_machine::ButlerMachine},
    conditions::{reasons, types},
    keys::finalizers,
};
use butler_runtime::{
    cache::{Metadata, Store, Whole},
    engine::Verdict,
    failure::Failure,
    object::{Kind, ObjectKey},
    plan::Plan,
    reconciler::{Claim, Context, Needs, Reconciler, Sources},
};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Namespace, Secret},
    rbac::v1::{Role, RoleBinding},
};
use serde::Serialize;

use crate::{
    cluster_api::{ClusterFacts, MachineFacts},
    ipam::infrastructure::ServiceAddresses,
    metrics::PassTimes,
    projections::TenantClusterFacts,
};
use facts::{
    BootstrapTemplate, ButlerTemplate, DeploymentFacts, GatewayAddress, HealthCheck, HostedFacts,
    KamajiFacts, KubeadmFacts, KubevirtFacts, KubevirtTemplate, MachineSetFacts, NutanixFacts,
    NutanixTemplate, StewardFacts,
};

pub(crate) use blueprint::{deployment_name, tenant_namespace};
pub use credentials::{Copy as CredentialsCopy, Sight as CredentialsSight};
pub use growth::Demand;
pub use observe::{ImageSight, World};
pub use origin::Origin;

/// What server-side apply cannot do for a tenant cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Effect {
    /// Deletes that very object.
    Remove {
        /// Its kind.
        kind: Kind,
        /// Its key.
        key: ObjectKey,
        /// Its UID.
        uid: String,
    },
    /// Deletes an allocation that nobody uses, unless something about it has changed since it was seen: it may be in use then.
    GiveBack {
        /// Its key.
        key: ObjectKey,
        /// Its UID.
        uid: String,
        /// Its version.
        version: String,
    },
    /// Copies the credentials of the provider for another project that makes machines.
    CopyCredentials(credentials::Copy),
    /// Has Cluster API leave that very Cluster alone, because the tenant cluster is paused.
    Pause {
        /// Its key.
        key: ObjectKey,
        /// Its UID.
        uid: String,
    },
    /// Takes that back.
    GoOn {
        /// Its key.
        key: ObjectKey,
        /// Its UID.
        uid: String,
    },
}

/// The controller of [`TenantCluster`].
#[derive(Debug, Default)]
pub struct TenantClusterReconciler {
    bundles: Arc<credentials::Bundles>,
    pass_times: Arc<PassTimes>,
}

impl TenantClusterReconciler {
    /// A controller that counts how long its passes take.
    pub fn new(pass_times: &Arc<PassTimes>) -> Self {
        Self {
            pass_times: Arc::clone(pass_times),
            ..Self::default()
        }
    }
}

type Clusters = Store<Whole<TenantCluster>>;

/// How far Butler goes in keeping a cluster as declared.
pub(crate) fn mode(cluster: &TenantCluster) -> ManagementMode {
    let policy = cluster.spec.management_policy.as_ref();
    policy.map(|policy| policy.mode).unwrap_or_default()
}

/// Of a cluster that is only looked at nothing is changed, its finalizers included.
fn claim_of(cluster: &TenantCluster) -> Claim {
    match mode(cluster) {
        ManagementMode::Observe => Claim::Unclear,
        ManagementMode::Active | ManagementMode::GitOps => Claim::Ours,
    }
}

/// Whether a namespace is that of a cluster. Asked of every cluster at every change of a machine, so nothing is put together.
fn is_namespace_of(cluster: &TenantCluster, namespace: &str) -> bool {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let rest = namespace.strip_prefix(name);
    let rest = rest.and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| !rest.is_empty() && uid.starts_with(rest))
}

/// Whether a cluster says that a condition does not hold.
fn lacks(cluster: &TenantCluster, type_: &str) -> bool {
    let status = cluster.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == type_ && condition.status == "False")
}

/// Whether a cluster waits for what a pool may have one day. That more cannot be had is said also where the condition holds.
fn awaits_addresses(cluster: &TenantCluster) -> bool {
    let status = cluster.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let is_refused = conditions.any(|condition| {
        condition.type_ == types::NETWORK_READY && condition.reason == reasons::POOL_EXHAUSTED
    });
    is_refused || lacks(cluster, types::NETWORK_READY)
}

/// The cluster that an object in this namespace belongs to.
fn of_namespace(key: &ObjectKey, clusters: &Clusters) -> Vec<ObjectKey> {
    let Some(namespace) = &key.namespace else {
        return Vec::new();
    };
    clusters.keys_where(|cluster| is_namespace_of(&cluster.value.0, namespace))
}

/// The clusters that run on a provider, or might.
fn of_provider(provider: &ObjectKey, clusters: &Clusters) -> Vec<ObjectKey> {
    clusters.keys_where(|cluster| {
        let cluster = &cluster.value.0;
        let stated = cluster.spec.provider_config_ref.as_ref();
        let status = cluster.status.as_ref();
        let settled = status.and_then(|status| status.provider_config_ref.as_ref());
        let reference = stated.or(settled);
        reference.is_none_or(|reference| reference.name == provider.name)
    })
}

impl Reconciler for TenantClusterReconciler {
    const NAME: &'static str = "tenantcluster";
    const FINALIZER: Option<&'static str> = Some(finalizers::TENANT_CLUSTER);

    type Object = TenantCluster;
    type Status = TenantClusterStatus;
    type World = World;
    type Effect = Effect;

    fn claim(&self, cluster: &TenantCluster, _: &Context) -> Claim {
        claim_of(cluster)
    }

    fn sources(&self, sources: &mut Sources<'_, TenantCluster>) {
        // What is declared last goes first when it is not wanted any more.
        sources.owns_as::<Metadata<Namespace>>();
        sources.owns::<Role>();
        sources.owns::<RoleBinding>();
        sources.owns_as::<Whole<IPAllocation>>();
        sources.owns_as::<Whole<ImageSync>>();
        sources.owns_as::<Whole<LoadBalancerRequest>>();
        sources.owns_as::<Whole<ButlerCluster>>();
        sources.owns_as::<NutanixFacts>();
        sources.owns_as::<KubevirtFacts>();
        sources.owns_as::<ClusterFacts>();
        sources.owns_as::<StewardFacts>();
        sources.owns_as::<KamajiFacts>();
        sources.owns_as::<KubeadmFacts>();
        sources.owns_as::<ButlerTemplate>();
        sources.owns_as::<NutanixTemplate>();
        sources.owns_as::<KubevirtTemplate>();
        sources.owns_as::<BootstrapTemplate>();
        sources.owns_as::<DeploymentFacts>();
        sources.owns_as::<HealthCheck>();

        // The status names one of the allocations that were made for machines.
        sources.reads::<Whole<IPAllocation>>(|allocation, clusters| {
            let tenant = observe::machines_tenant(&allocation.value.0);
            let tenant = tenant.filter(|tenant| clusters.get(tenant).is_some());
            tenant.into_iter().collect()
        });

        // What others make in the namespace of a cluster.
        sources.reads::<MachineSetFacts>(|set, clusters| of_namespace(&set.facts.key, clusters));
        sources
            .reads::<MachineFacts>(|machine, clusters| of_namespace(&machine.facts.key, clusters));
        sources.reads::<Whole<ButlerMachine>>(|machine, clusters| {
            of_namespace(&machine.facts.key, clusters)
        });
        sources.reads::<HostedFacts>(|hosted, clusters| of_namespace(&hosted.facts.key, clusters));
        sources.reads::<credentials::CopiedCredentials>(|copy, clusters| {
            of_namespace(&copy.facts.key, clusters)
        });
        // Kubeconfigs are in the namespace of the cluster, credentials in that of a provider.
        let bundles = Arc::clone(&self.bundles);
        sources.reads::<Metadata<Secret>>(move |secret, clusters| {
            if bundles.knows(&secret.facts.key) {
                clusters.keys()
            } else {
                of_namespace(&secret.facts.key, clusters)
            }
        });

        // What has a say in what a cluster shall be.
        sources.reads::<Whole<ButlerConfig>>(|_, clusters| clusters.keys());
        sources.reads::<Whole<Team>>(|team, clusters| {
            let name = &team.facts.key.name;
            clusters.keys_where(|cluster| TenantClusterFacts::team_of(&cluster.value.0) == *name)
        });
        sources.reads::<Whole<ProviderConfig>>(|provider, clusters| {
            of_provider(&provider.facts.key, clusters)
        });
        sources.reads::<Whole<NetworkPool>>(|_, clusters| {
            clusters.keys_where(|cluster| awaits_addresses(&cluster.value.0))
        });
        sources.reads::<TenantClusterFacts>(|changed, clusters| {
            // Limits are shared, so those that do not fit may fit now.
            let team = &changed.value.team;
            clusters.keys_where(|cluster| {
                let cluster = &cluster.value.0;
                lacks(cluster, types::QUOTA_SATISFIED)
                    && TenantClusterFacts::team_of(cluster) == *team
            })
        });
        sources.reads::<ServiceAddresses>(|service, clusters| {
            if exposure::is_ingress_controller(&service.facts.key) {
                clusters.keys()
            } else {
                Vec::new()
            }
        });
        sources.reads::<GatewayAddress>(|_, clusters| clusters.keys());
    }

    fn rest(&self, cluster: &TenantCluster, context: &Context) -> Vec<Effect> {
        pause::look(cluster, context).into_iter().collect()
    }

    async fn observe(&self, cluster: &TenantCluster, context: &Context) -> Result<World, Failure> {
        observe::observe(cluster, &self.bundles, context).await
    }

    fn plan(
        &self,
        cluster: &TenantCluster,
        world: &World,
        now: Timestamp,
    ) -> Plan<TenantClusterStatus, Effect> {
        plan::plan(cluster, world, now)
    }

    fn passed(&self, key: &ObjectKey, verdict: Verdict, took: Duration) {
        match verdict {
            Verdict::Forget => {
                self.pass_times.forget(key);
                self.bundles.forget(key);
            }
            Verdict::AwaitChange | Verdict::After(_) => self.pass_times.count(key, took),
        }
    }

    fn needs(&self, effect: &Effect) -> Needs {
        match effect {
            // Whoever makes machines must learn of new credentials whatever else is refused, and of the end of a pause.
            Effect::CopyCredentials(_) | Effect::Pause { .. } | Effect::GoOn { .. } => {
                Needs::Nothing
            }
            Effect::Remove { .. } | Effect::GiveBack { .. } => Needs::EarlierEffects,
        }
    }

    async fn perform(
        &self,
        cluster: &TenantCluster,
        effect: &Effect,
        context: &Context,
    ) -> Result<(), Failure> {
        perform::perform(cluster, effect, context).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_of_the_cluster_in_whose_namespace_it_is() {
        let cluster = scene::shop(&json!({}));
        assert!(is_namespace_of(&cluster, &tenant_namespace(&cluster)));
        for other in [
            "shop",
            "shop-",
            "shop-ffffffff",
            "shop-west-0a1b2c3d",
            "butler-system",
        ] {
            assert!(!is_namespace_of(&cluster, other), "{other}");
        }
    }

    #[test]
    fn of_a_cluster_that_is_only_looked_at_not_even_the_finalizer_is_written() {
        let observed = scene::shop(&json!({ "managementPolicy": { "mode": "Observe" } }));
        assert_eq!(mode(&observed), ManagementMode::Observe);
        assert_eq!(claim_of(&observed), Claim::Unclear);
        assert_eq!(claim_of(&scene::shop(&json!({}))), Claim::Ours);
    }
}

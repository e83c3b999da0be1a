//! What the plan for a control plane depends on. Cached, but for infrastructure of kinds that are known by name alone, what is in
//! another cluster, and the last look before a control plane goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use butler_api::{
    cluster_api::{
        butler_cluster::ButlerCluster,
        contract::ContractReference,
        steward_control_plane::{StewardControlPlane, settings::ExternalClusterReference},
    },
    conditions::reasons,
    keys::groups,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{
    api_server::{ApiServer, Part},
    cache::{Caches, Facts, Whole},
    failure::Failure,
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{
    ClusterApiSettings, ExternalReferences, StewardControlPlaneReconciler, build,
    cluster::{self, ClusterSight},
    elsewhere::{KubeconfigSource, Place},
    infrastructure::{self, Contract, Infrastructure, InfrastructureSight, Manner},
    perform::MANAGER,
    secrets::{self, ClusterSecret, CopySight},
    tenant::TenantSight,
};
use crate::projections::SecretVersion;

/// The world around a control plane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct World {
    /// The Cluster it belongs to.
    pub cluster: ClusterSight,
    /// The cluster that runs it.
    pub host: Host,
    /// Its `TenantControlPlane`.
    pub tenant: Option<TenantSight>,
    /// A `TenantControlPlane` of its own in this cluster, although it shall run in another one.
    pub left_behind: Option<ObjectKey>,
    /// The infrastructure of its Cluster.
    pub infrastructure: InfrastructureSight,
    /// The Secrets that were made for Cluster API.
    pub secrets: BTreeMap<ClusterSecret, CopySight>,
}

impl World {
    /// The `TenantControlPlane`, if it is that of this very control plane. In another cluster, its name says so.
    pub(super) fn tenant_of(&self, control_plane: &StewardControlPlane) -> Option<&TenantSight> {
        let is_ours = |tenant: &&TenantSight| {
            self.host == Host::There || tenant.controller == control_plane.uid()
        };
        self.tenant.as_ref().filter(is_ours)
    }
}

/// Which cluster runs a control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Host {
    /// This one.
    #[default]
    Here,
    /// Another one, which can be reached.
    There,
    /// Another one, which cannot be reached; the text says why and what to do.
    Unreachable(String),
}

/// The key of the `TenantControlPlane` of a control plane.
pub(super) fn tenant_key(control_plane: &StewardControlPlane) -> ObjectKey {
    match external(control_plane) {
        None => ObjectKey::of(control_plane),
        Some(reference) => ObjectKey::namespaced(
            &reference.deployment_namespace,
            build::name_elsewhere(control_plane),
        ),
    }
}

/// The reference to another cluster, if there is one.
pub(super) fn external(control_plane: &StewardControlPlane) -> Option<&ExternalClusterReference> {
    let deployment = &control_plane.spec.settings.deployment;
    deployment.external_cluster_reference.as_ref()
}

/// The kubeconfig of another cluster.
pub(super) fn kubeconfig(control_plane: &StewardControlPlane) -> Option<KubeconfigSource> {
    let reference = external(control_plane)?;
    let namespace = reference.kubeconfig_secret_namespace.clone();
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    let own = || control_plane.namespace().unwrap_or_default();
    Some(KubeconfigSource {
        secret: ObjectKey::namespaced(
            namespace.unwrap_or_else(own),
            &reference.kubeconfig_secret_name,
        ),
        entry: reference.kubeconfig_secret_key.clone(),
    })
}

/// Whether the operator allows a control plane to run where its reference says; if not, in a sentence why.
fn allowed(
    control_plane: &StewardControlPlane,
    kubeconfig: &KubeconfigSource,
    settings: &ClusterApiSettings,
) -> Result<(), String> {
    const FIELD: &str = "spec.deployment.externalClusterReference";
    match settings.external {
        ExternalReferences::Off => Err(format!(
            "{FIELD}: other clusters are not allowed; start Steward with --external-cluster-references=same-namespace to allow them"
        )),
        ExternalReferences::SameNamespace
            if kubeconfig.secret.namespace != control_plane.namespace() =>
        {
            Err(format!(
                "{FIELD}: the Secret {} is in another namespace; move it, or start Steward with --external-cluster-references=any-namespace",
                kubeconfig.secret
            ))
        }
        ExternalReferences::SameNamespace | ExternalReferences::AnyNamespace => Ok(()),
    }
}

/// The other cluster's API server, or why there is no way to it.
pub(super) async fn reach(
    control_plane: &StewardControlPlane,
    reconciler: &StewardControlPlaneReconciler,
    context: &Context,
) -> Option<Result<Arc<dyn ApiServer>, String>> {
    let kubeconfig = kubeconfig(control_plane)?;
    if let Err(why) = allowed(control_plane, &kubeconfig, &reconciler.settings) {
        return Some(Err(why));
    }
    let secret = context.cache::<SecretVersion>().get(&kubeconfig.secret);
    let version = secret.map(|secret| secret.facts.resource_version.clone());
    let way = reconciler
        .elsewhere
        .reach(&kubeconfig, version.as_deref(), context.api());
    Some(way.await)
}

pub(super) async fn observe(
    control_plane: &StewardControlPlane,
    reconciler: &StewardControlPlaneReconciler,
    context: &Context,
) -> Result<World, Failure> {
    let caches = context.caches();
    let cluster = cluster::sight(control_plane, caches);
    let reference = match &cluster {
        ClusterSight::Found(_, facts) => facts.infrastructure.clone(),
        ClusterSight::Unset | ClusterSight::Missing(_) => None,
    };
    let namespace = control_plane.namespace().unwrap_or_default();
    let wanted = wanted(reference, &namespace, &reconciler.settings, caches);
    let uid = control_plane.uid().unwrap_or_default();
    let places = places(control_plane, &wanted);
    reconciler.elsewhere.look_out(&uid, &places);
    let (host, tenant) = host(control_plane, reconciler, context).await?;
    let is_deleting = control_plane.metadata.deletion_timestamp.is_some();
    if is_deleting && tenant.is_none() {
        // It is about to go, and nobody waits for anything any more.
        reconciler.elsewhere.look_out(&uid, &BTreeSet::new());
    }
    let secrets = cluster::cluster_of(control_plane)
        .map(|cluster| secrets::sights(&cluster, caches))
        .unwrap_or_default();
    Ok(World {
        left_behind: left_behind(control_plane, caches),
        infrastructure: infrastructure(wanted, context).await?,
        cluster,
        host,
        tenant,
        secrets,
    })
}

/// The infrastructure that a Cluster refers to, before anybody has looked for it.
enum Wanted {
    Known(InfrastructureSight),
    Read {
        kind: Kind,
        key: ObjectKey,
        contract: Contract,
        manner: Manner,
    },
}

fn wanted(
    reference: Option<ContractReference>,
    namespace: &str,
    settings: &ClusterApiSettings,
    caches: &Caches,
) -> Wanted {
    let Some(reference) = reference else {
        return Wanted::Known(InfrastructureSight::Unset);
    };
    if settings.skip_infrastructure {
        return Wanted::Known(InfrastructureSight::LeftAlone);
    }
    let key = ObjectKey::namespaced(namespace, &reference.name);
    let Some(manner) = infrastructure::manner_of(&reference.kind, &settings.further_infrastructure)
    else {
        return Wanted::Known(InfrastructureSight::Unsupported(reference.kind));
    };
    if reference.api_group == groups::INFRASTRUCTURE && reference.kind == ButlerCluster::kind(&()) {
        return Wanted::Known(own_infrastructure(key, manner, caches));
    }
    if let Some((kind, contract)) = infrastructure::resolve(&reference, caches) {
        Wanted::Read {
            kind,
            key,
            contract,
            manner,
        }
    } else {
        let definition = infrastructure::definition_of(&reference);
        Wanted::Known(InfrastructureSight::Undefined(definition))
    }
}

/// Infrastructure of our own kind, which is cached.
fn own_infrastructure(key: ObjectKey, manner: Manner, caches: &Caches) -> InfrastructureSight {
    let kind = Kind::of::<ButlerCluster>();
    match caches.store::<Whole<ButlerCluster>>().get(&key) {
        Some(found) => {
            let body = json!(found.value.0);
            let found = Infrastructure::of(&body, kind, Contract::V1Beta2, manner);
            InfrastructureSight::Found(found)
        }
        None => InfrastructureSight::Missing {
            kind: kind.kind,
            key,
        },
    }
}

async fn infrastructure(wanted: Wanted, context: &Context) -> Result<InfrastructureSight, Failure> {
    let (kind, key, contract, manner) = match wanted {
        Wanted::Known(sight) => return Ok(sight),
        Wanted::Read {
            kind,
            key,
            contract,
            manner,
        } => (kind, key, contract, manner),
    };
    Ok(match context.api().get(&kind, &key).await? {
        Some(body) => InfrastructureSight::Found(Infrastructure::of(&body, kind, contract, manner)),
        None => InfrastructureSight::Missing {
            kind: kind.kind,
            key,
        },
    })
}

/// What no cache shows a change of.
fn places(control_plane: &StewardControlPlane, wanted: &Wanted) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    if let Wanted::Read { kind, key, .. } = wanted {
        places.insert(Place {
            cluster: None,
            kind: kind.clone(),
            key: key.clone(),
        });
    }
    if let Some(kubeconfig) = kubeconfig(control_plane) {
        places.insert(Place {
            cluster: Some(kubeconfig),
            kind: Kind::of::<TenantControlPlane>(),
            key: tenant_key(control_plane),
        });
    }
    places
}

/// The cluster that runs a control plane, and what it runs.
async fn host(
    control_plane: &StewardControlPlane,
    reconciler: &StewardControlPlaneReconciler,
    context: &Context,
) -> Result<(Host, Option<TenantSight>), Failure> {
    let key = tenant_key(control_plane);
    let kind = Kind::of::<TenantControlPlane>();
    let api = match reach(control_plane, reconciler, context).await {
        Some(Ok(api)) => api,
        Some(Err(why)) => return Ok((Host::Unreachable(why), None)),
        None => {
            let cached = context.cache::<Whole<TenantControlPlane>>().get(&key);
            let cached = cached.map(|found| TenantSight::of(&found.value.0));
            let is_deleting = control_plane.metadata.deletion_timestamp.is_some();
            if cached.is_some() || !is_deleting {
                return Ok((Host::Here, cached));
            }
            // That a cache shows none is no proof, and after this nothing holds the control plane back.
            let found = context.api().get(&kind, &key).await?;
            let found = found.and_then(|body| serde_json::from_value(body).ok());
            return Ok((Host::Here, found.as_ref().map(TenantSight::of)));
        }
    };
    let Some(body) = api.get(&kind, &key).await? else {
        return Ok((Host::There, None));
    };
    let applied = Facts::of(&body).applied(MANAGER, Part::Object);
    let found: TenantControlPlane = serde_json::from_value(body).map_err(|error| {
        let message = format!("the TenantControlPlane {key} of the other cluster: {error}");
        Failure::terminal(reasons::MALFORMED, message)
    })?;
    let sight = TenantSight {
        applied,
        ..TenantSight::of(&found)
    };
    Ok((Host::There, Some(sight)))
}

/// What a control plane that shall run in another cluster has in this one.
fn left_behind(control_plane: &StewardControlPlane, caches: &Caches) -> Option<ObjectKey> {
    external(control_plane)?;
    let key = ObjectKey::of(control_plane);
    let found = caches.store::<Whole<TenantControlPlane>>().get(&key)?;
    let found = TenantSight::of(&found.value.0);
    (found.controller == control_plane.uid()).then_some(key)
}

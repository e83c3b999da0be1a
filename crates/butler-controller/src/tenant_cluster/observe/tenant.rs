//! What exists in the namespace of a tenant cluster.

use std::sync::Arc;

use butler_api::{
    butler::{
        load_balancer_request::{LoadBalancerRequest, LoadBalancerRequestStatus},
        tenant_cluster::TenantCluster,
    },
    cluster_api::{
        butler_cluster::ButlerCluster, butler_machine::ButlerMachine,
        machine_group::MachineDeployment,
    },
    conditions::types,
    keys::names,
};
use butler_runtime::{
    cache::{AnyStore, Cached, Caches, Metadata, Projection, Store, Whole},
    failure::Failure,
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::{
    cluster_api::{ClusterFacts, MachineFacts},
    projections::Said,
    tenant_cluster::{
        facts::{
            ButlerTemplate, ControlPlaneFacts, DeploymentFacts, HostedFacts, InfrastructureFacts,
            KamajiFacts, KubeadmFacts, KubevirtFacts, KubevirtTemplate, MachineSetFacts,
            NutanixFacts, NutanixTemplate, StewardFacts, TemplateFacts,
        },
        origin::Origin,
        related::{NamespaceSight, Related, Seen},
        tenant_namespace,
    },
};

/// All of it, as far as anybody asks.
pub(super) async fn related(
    cluster: &TenantCluster,
    context: &Context,
) -> Result<Related, Failure> {
    let caches = context.caches();
    let name = cluster.name_any();
    let namespace = tenant_namespace(cluster);
    let key = ObjectKey::namespaced(&namespace, &name);
    let whole = seen(caches, &key, |facts: &ClusterFacts| facts.clone());
    let origin = whole.as_ref().map(|whole| whole.facts.origin.clone());
    let origin = origin.unwrap_or_default();
    let mut related = Related {
        namespace: namespace_sight(cluster, &namespace, context).await?,
        cluster: whole,
        control_plane: control_plane(caches, &key, &origin),
        hosted: caches
            .store::<HostedFacts>()
            .get(&key)
            .map(|found| found.value.clone()),
        infrastructure: infrastructure(caches, &key, &origin),
        balancer: balancer(cluster, &namespace, caches),
        ..Related::default()
    };
    let within = |key: &ObjectKey| key.namespace.as_deref() == Some(&namespace);
    for found in of_namespace::<DeploymentFacts>(caches, within) {
        let seen = Seen {
            kind: MachineDeployment::kind(&()).into_owned(),
            uid: found.facts.uid.clone(),
            facts: found.value.clone(),
        };
        related
            .deployments
            .insert(found.facts.key.name.clone(), seen);
    }
    for found in of_namespace::<MachineSetFacts>(caches, within) {
        related
            .sets
            .insert(found.facts.key.name.clone(), found.value.clone());
    }
    templates(
        caches,
        within,
        |found: &ButlerTemplate| &found.0,
        &mut related,
    );
    templates(
        caches,
        within,
        |found: &NutanixTemplate| &found.0,
        &mut related,
    );
    templates(
        caches,
        within,
        |found: &KubevirtTemplate| &found.0,
        &mut related,
    );
    for found in of_namespace::<MachineFacts>(caches, within) {
        related
            .machines
            .insert(found.facts.key.name.clone(), found.value.clone());
    }
    for found in of_namespace::<Whole<ButlerMachine>>(caches, within) {
        let status = json!({ "status": found.value.0.status });
        let said = Said::by(&status, &[types::READY]).into_iter().next();
        related
            .machine_words
            .extend(said.map(|said| (found.facts.key.name.clone(), said)));
    }
    let secrets = caches.store::<Metadata<Secret>>();
    for suffix in [names::KUBECONFIG_SUFFIX, names::ADMIN_KUBECONFIG_SUFFIX] {
        let key = ObjectKey::namespaced(&namespace, format!("{name}{suffix}"));
        if secrets.get(&key).is_some() {
            related.see_secret(&key.name);
        }
    }
    Ok(related)
}

/// The objects of a kind in a namespace.
fn of_namespace<P: Projection>(
    caches: &Caches,
    within: impl Fn(&ObjectKey) -> bool,
) -> Vec<Arc<Cached<P>>> {
    let store: Arc<Store<P>> = caches.store();
    let keys = store.keys_where(|found| within(&found.facts.key));
    keys.iter().filter_map(|key| store.get(key)).collect()
}

async fn namespace_sight(
    cluster: &TenantCluster,
    namespace: &str,
    context: &Context,
) -> Result<Option<NamespaceSight>, Failure> {
    let key = ObjectKey::cluster(namespace);
    if let Some(found) = context.cache::<Metadata<Namespace>>().get(&key) {
        let deleted_at = found.value.metadata.deletion_timestamp.as_ref();
        return Ok(Some(NamespaceSight {
            owner: found.facts.owner.clone(),
            uid: found.facts.uid.clone(),
            deleted_at: deleted_at.map(|time| time.0),
        }));
    }
    if cluster.metadata.deletion_timestamp.is_none() {
        return Ok(None);
    }
    // That a cache shows none is no proof, and after this nothing holds the cluster back.
    let body = context.api().get(&Kind::of::<Namespace>(), &key).await?;
    let mut related = Related::default();
    if let Some(mut body) = body {
        body["kind"] = "Namespace".into();
        related.see(body);
    }
    Ok(related.namespace)
}

/// Takes in the images of templates of a kind.
fn templates<P: Projection>(
    caches: &Caches,
    within: impl Fn(&ObjectKey) -> bool,
    facts: impl Fn(&P) -> &TemplateFacts,
    related: &mut Related,
) {
    let found = of_namespace::<P>(caches, within).into_iter();
    let found = found.map(|found| {
        (
            found.facts.key.name.clone(),
            facts(&found.value).image.clone(),
        )
    });
    related.images.extend(found);
}

/// An object that was seen, of a kind whose facts are a part of what is cached.
fn seen<P: Projection, T>(
    caches: &Caches,
    key: &ObjectKey,
    facts: impl Fn(&P) -> T,
) -> Option<Seen<T>> {
    let found = caches.store::<P>().get(key)?;
    Some(Seen {
        kind: P::kind().kind,
        uid: found.facts.uid.clone(),
        facts: facts(&found.value),
    })
}

fn control_plane(
    caches: &Caches,
    key: &ObjectKey,
    origin: &Origin,
) -> Option<Seen<ControlPlaneFacts>> {
    let found = [
        seen(caches, key, |found: &StewardFacts| found.0.clone()),
        seen(caches, key, |found: &KamajiFacts| found.0.clone()),
        seen(caches, key, |found: &KubeadmFacts| found.0.clone()),
    ];
    named(found, origin.control_plane.as_ref())
}

fn infrastructure(
    caches: &Caches,
    key: &ObjectKey,
    origin: &Origin,
) -> Option<Seen<InfrastructureFacts>> {
    let of_butler = |found: &Whole<ButlerCluster>| InfrastructureFacts::of(&json!(found.0));
    let found = [
        seen(caches, key, of_butler),
        seen(caches, key, |found: &NutanixFacts| found.0.clone()),
        seen(caches, key, |found: &KubevirtFacts| found.0.clone()),
    ];
    named(found, origin.infrastructure.as_ref())
}

/// The one of the kind that the Cluster names, should there be several.
fn named<T>(found: [Option<Seen<T>>; 3], kind: Option<&String>) -> Option<Seen<T>> {
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    let place = found.iter().position(|seen| Some(&seen.kind) == kind);
    (!found.is_empty()).then(|| found.swap_remove(place.unwrap_or(0)))
}

fn balancer(
    cluster: &TenantCluster,
    namespace: &str,
    caches: &Caches,
) -> Option<LoadBalancerRequestStatus> {
    let store = caches.store::<Whole<LoadBalancerRequest>>();
    let owned = store.owned_by(&cluster.uid().unwrap_or_default());
    let mut owned = owned.iter().map(|facts| &facts.key);
    let key = owned.find(|key| key.namespace.as_deref() == Some(namespace))?;
    let found = store.get(key)?;
    Some(found.value.0.status.clone().unwrap_or_default())
}

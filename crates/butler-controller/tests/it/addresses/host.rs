//! The process on the host that serves Services, as far as pools and clusters notice. How many Services a cluster has is written on it,
//! so that users of a story can change it.

use butler_api::{
    butler::{
        ip_allocation::{AllocationPhase, AllocationType, IPAllocation},
        tenant_cluster::TenantCluster,
    },
    cluster_api::butler_cluster::ButlerCluster,
    keys::{annotations, finalizers, labels},
};
use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{ObjectStore, Operation};
use kube::ResourceExt;
use serde_json::{Value, json};

/// Who that is to the API server.
pub(crate) const HOST: &str = "host";
/// How many Services of type `LoadBalancer` a cluster of the story has.
pub(crate) const SERVICES: &str = "story/services";

/// The ranges of a cluster, in the order in which they are filled.
pub(crate) fn ranges(store: &ObjectStore, cluster: &str) -> Vec<IPAllocation> {
    let mut ranges = store.all::<IPAllocation>().unwrap();
    ranges.retain(|range| {
        let owner = range.spec.tenant_cluster_ref.as_ref();
        range.spec.kind == AllocationType::Loadbalancer
            && owner.is_some_and(|owner| owner.name == cluster)
    });
    ranges.sort_by_key(|range| (is_growth(range), range.name_any()));
    ranges
}

/// Whether a range was added.
pub(crate) fn is_growth(range: &IPAllocation) -> bool {
    range
        .labels()
        .get(labels::ALLOCATION_ROLE)
        .is_some_and(|role| role == "growth")
}

/// Whether a range has addresses.
pub(crate) fn is_granted(range: &IPAllocation) -> bool {
    let phase = range.status.as_ref().and_then(|status| status.phase);
    phase == Some(AllocationPhase::Allocated)
}

/// Whether Services use a range.
pub(crate) fn is_marked(range: &IPAllocation) -> bool {
    range
        .finalizers()
        .contains(&finalizers::ADDRESSES_IN_USE.to_owned())
}

/// How many Services a cluster has. In one that goes there are none.
pub(crate) fn services(cluster: &TenantCluster) -> i32 {
    let wanted = cluster.annotations().get(SERVICES);
    let wanted = wanted
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    if cluster.metadata.deletion_timestamp.is_some() {
        0
    } else {
        wanted
    }
}

/// Plays the process that serves Services: marks what it uses, and says how many wait.
pub(crate) fn serve(store: &mut ObjectStore) -> Option<String> {
    let clusters = store.all::<TenantCluster>().unwrap();
    clusters
        .iter()
        .find_map(|cluster| serve_one(store, cluster))
}

fn serve_one(store: &mut ObjectStore, cluster: &TenantCluster) -> Option<String> {
    let name = cluster.name_any();
    let mut left = services(cluster);
    for range in ranges(store, &name) {
        let open = is_granted(&range) && range.metadata.deletion_timestamp.is_none();
        let is_used = open && left > 0;
        if open {
            left -= range.spec.count.unwrap_or_default();
        }
        if is_used != is_marked(&range) {
            return Some(mark(store, &range, is_used));
        }
    }
    let namespace = cluster.status.as_ref()?.tenant_namespace.clone()?;
    let infrastructure = (
        Kind::of::<ButlerCluster>(),
        ObjectKey::namespaced(namespace, &name),
    );
    let found = store.get(&infrastructure.0, &infrastructure.1)?;
    let said = found
        .pointer("/metadata/annotations")
        .cloned()
        .unwrap_or_default();
    let waiting = (left > 0).then(|| left.to_string());
    if said[annotations::WAITING_LOAD_BALANCERS].as_str() == waiting.as_deref() {
        return None;
    }
    let since = &said[annotations::WAITING_LOAD_BALANCERS_SINCE];
    let since = match &waiting {
        None => Value::Null,
        Some(_) if since.is_string() => since.clone(),
        Some(_) => json!(store.now().to_string()),
    };
    let patch = json!({ "metadata": { "annotations": {
        annotations::WAITING_LOAD_BALANCERS: waiting,
        annotations::WAITING_LOAD_BALANCERS_SINCE: since,
    } } });
    let (kind, key) = infrastructure;
    store
        .perform(HOST, Operation::Merge(kind, key, patch))
        .unwrap();
    Some(format!("says that {left} of {name} wait"))
}

fn mark(store: &mut ObjectStore, range: &IPAllocation, is_used: bool) -> String {
    let mut held = range.finalizers().to_vec();
    held.retain(|held| held != finalizers::ADDRESSES_IN_USE);
    let since = (!is_used).then(|| store.now().to_string());
    if is_used {
        held.push(finalizers::ADDRESSES_IN_USE.to_owned());
    }
    let patch = json!({ "metadata": {
        "resourceVersion": range.resource_version(),
        "finalizers": held,
        "annotations": { annotations::ADDRESSES_UNUSED_SINCE: since },
    } });
    let merge = Operation::Merge(Kind::of::<IPAllocation>(), ObjectKey::of(range), patch);
    store.perform(HOST, merge).unwrap();
    format!("marks {}: {is_used}", range.name_any())
}

/// No range is taken from Services that use it, as long as its cluster is there.
pub(crate) fn used_ranges_stay(store: &ObjectStore) -> Result<(), String> {
    let clusters = store.all::<TenantCluster>().unwrap();
    let living = clusters
        .iter()
        .filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
    for cluster in living {
        for range in ranges(store, &cluster.name_any()) {
            if is_marked(&range) && range.metadata.deletion_timestamp.is_some() {
                return Err(format!("{} is in use and going", range.name_any()));
            }
        }
    }
    Ok(())
}

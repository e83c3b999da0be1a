//! What exists for a tenant cluster and stays although it is not asked for any more.

use butler_api::{
    butler::{ip_allocation::IPAllocation, tenant_cluster::TenantCluster},
    cluster_api::butler_machine::ButlerMachineTemplate,
};
use butler_runtime::object::{Kind, ObjectKey};

use super::{kinds, observe::World, related::Related, tenant_namespace};

/// Templates of machines that exist, and addresses, which may be announced.
pub(super) fn kept(cluster: &TenantCluster, world: &World) -> Vec<(Kind, ObjectKey)> {
    let mut kept = templates_in_use(cluster, &world.related);
    let allocations = world.allocations.iter();
    kept.extend(allocations.map(|(key, ..)| (Kind::of::<IPAllocation>(), key.clone())));
    kept
}

/// Templates that machines which exist were made from. They stay until the last of these is gone.
fn templates_in_use(cluster: &TenantCluster, related: &Related) -> Vec<(Kind, ObjectKey)> {
    let kinds = [
        Kind::of::<ButlerMachineTemplate>(),
        kinds::nutanix_machine_template(),
        kinds::kubevirt_machine_template(),
        kinds::kubeadm_config_template(),
    ];
    let namespace = tenant_namespace(cluster);
    let references = related.sets.values().flat_map(|set| &set.templates);
    let mut found: Vec<_> = references
        .filter_map(|(kind, name)| {
            let kind = kinds.iter().find(|known| known.kind == *kind)?;
            Some((kind.clone(), ObjectKey::namespaced(&namespace, name)))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

//! What somebody wrote on a cluster so that the platform leaves it alone. It is read from the object itself: whoever asks for a
//! change is told before anything is written, and need not wait for a status that would say so.

use butler_api::{
    butler::tenant_cluster::{ManagementMode, TenantCluster},
    keys::{annotations, finalizers, values},
};
use kube::ResourceExt as _;

/// Why the platform would change nothing of a cluster, if so.
pub(super) fn from_changing(cluster: &TenantCluster) -> Option<String> {
    is_observed(cluster).then(|| {
        "spec.managementPolicy.mode is Observe, so the platform only looks at it; set it to Active first"
            .to_owned()
    })
}

/// Why a cluster that is to be destroyed would stay, if so.
pub(super) fn from_going(cluster: &TenantCluster) -> Option<String> {
    let protection = annotations::DELETION_PROTECTION;
    let value = cluster.annotations().get(protection);
    if value.is_some_and(|value| value == values::TRUE) {
        let (name, namespace) = (cluster.name_any(), cluster.namespace().unwrap_or_default());
        return Some(format!(
            "it is protected from deletion; remove the annotation first, with \"kubectl annotate tenantcluster {name} -n \
             {namespace} {protection}-\""
        ));
    }
    // Of one that never was anything else nothing was made, and nothing holds it.
    let finalizers = cluster.finalizers().iter();
    let mut own = finalizers.filter(|finalizer| *finalizer == finalizers::TENANT_CLUSTER);
    if is_observed(cluster) && own.next().is_some() {
        let why = "spec.managementPolicy.mode is Observe, so nothing of it is removed; set it to Active first";
        return Some(why.to_owned());
    }
    None
}

fn is_observed(cluster: &TenantCluster) -> bool {
    let policy = cluster.spec.management_policy.as_ref();
    policy.is_some_and(|policy| policy.mode == ManagementMode::Observe)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ctl::cluster::testing::{cluster, observed, protected};

    #[test]
    fn a_cluster_that_is_only_looked_at_neither_changes_nor_goes() {
        let demo = cluster("True");
        assert_eq!((from_changing(&demo), from_going(&demo)), (None, None));
        let demo = observed(demo);
        assert_snapshot!(from_changing(&demo).unwrap(), @"spec.managementPolicy.mode is Observe, so the platform only looks at it; set it to Active first");
        assert_snapshot!(from_going(&demo).unwrap(), @"spec.managementPolicy.mode is Observe, so nothing of it is removed; set it to Active first");
        let mut visitor = demo;
        visitor.metadata.finalizers = None;
        assert_eq!(from_going(&visitor), None, "nothing was made for it");
    }

    #[test]
    fn a_protected_cluster_changes_and_stays() {
        let demo = protected(cluster("True"));
        assert_eq!(from_changing(&demo), None);
        assert_snapshot!(from_going(&demo).unwrap(), @r#"it is protected from deletion; remove the annotation first, with "kubectl annotate tenantcluster demo -n butler-tenants butler.butlerlabs.dev/deletion-protection-""#);
    }
}

//! Names that leave room for what is derived from them.

use butler_api::{
    butler::tenant_cluster::{ControlPlaneMode, WORKERS_POOL},
    conditions::{reasons, types},
    name::{CLUSTER_NAME_LENGTH, ClusterName, LABEL_LENGTH},
    normalize::tenant_cluster::read,
};
use kube::ResourceExt;

use super::{Breach, Case};

const KIND: (&str, &str) = (types::READY, reasons::VALIDATION_FAILED);

/// What follows the name in the name of a `MachineHealthCheck` and of templates, and is a label of machines.
const CONTROL_PLANE_SUFFIX: &str = "-control-plane";

pub(super) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let name = case.cluster.name_any();
    let reading = read(&case.cluster.spec);
    let mut found = Vec::new();
    if name.parse::<ClusterName>().is_err() {
        let rule = if name.len() > CLUSTER_NAME_LENGTH {
            format!(
                "has {} characters and may have {CLUSTER_NAME_LENGTH}: its namespace is the name, a dash and eight more, and \
                 a namespace may have {LABEL_LENGTH}",
                name.len()
            )
        } else {
            "use lower case letters, digits and dashes, with a letter first and no dash at the end: Services and machines \
             are called by it"
                .to_owned()
        };
        found.push(Breach::new(KIND, "metadata.name", rule));
        return found;
    }
    if reading.control_plane_mode == ControlPlaneMode::Standalone {
        let room = LABEL_LENGTH - CONTROL_PLANE_SUFFIX.len();
        if name.len() > room {
            let rule = format!(
                "has {} characters and may have {room} with a Standalone control plane: its machines carry the label \
                 {name}{CONTROL_PLANE_SUFFIX}, and a label may have {LABEL_LENGTH}",
                name.len()
            );
            found.push(Breach::new(KIND, "metadata.name", rule));
        }
    }
    // The name of the pool that every cluster has fits wherever the namespace does.
    for pool in reading
        .pools
        .iter()
        .filter(|pool| pool.name != WORKERS_POOL)
    {
        let room = LABEL_LENGTH - name.len() - 1;
        if pool.name.len() > room {
            let rule = format!(
                "has {} characters and may have {room} in this cluster: its machines carry the label {name}-{}, and a label \
                 may have {LABEL_LENGTH}",
                pool.name.len(),
                pool.name
            );
            found.push(Breach::new(KIND, format!("{}.name", pool.field), rule));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tenant_rules::testing::{Scene, cluster_named};

    fn told(name: &str, more: &serde_json::Value) -> String {
        let scene = Scene::new(cluster_named(name, more));
        scene.told(super::breaches)
    }

    #[test]
    fn a_name_too_long_for_its_namespace_is_refused_with_the_room_there_is() {
        assert_eq!(told(&"a".repeat(54), &json!({})), "");
        insta::assert_snapshot!(told(&"a".repeat(55), &json!({})), @"metadata.name: has 55 characters and may have 54: its namespace is the name, a dash and eight more, and a namespace may have 63");
        insta::assert_snapshot!(told("1st.cluster", &json!({})), @"metadata.name: use lower case letters, digits and dashes, with a letter first and no dash at the end: Services and machines are called by it");
    }

    #[test]
    fn a_pool_shares_its_room_with_the_cluster() {
        let pool = json!({"nodePools": [{"name": "memory-optimised", "replicas": 1}]});
        assert_eq!(told(&"a".repeat(46), &pool), "");
        insta::assert_snapshot!(told(&"a".repeat(50), &pool), @"spec.nodePools[0].name: has 16 characters and may have 12 in this cluster: its machines carry the label aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-memory-optimised, and a label may have 63");
    }

    #[test]
    fn machines_of_a_control_plane_need_room_too() {
        let standalone = json!({"controlPlane": {"mode": "Standalone"}});
        assert_eq!(told(&"a".repeat(49), &standalone), "");
        assert!(
            told(&"a".repeat(50), &standalone)
                .contains("may have 49 with a Standalone control plane")
        );
    }
}

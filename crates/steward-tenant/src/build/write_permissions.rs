//! Write permissions: kinds of writes that are refused while a tenant is over its limits or under maintenance.
//!
//! The wish is to stop people and their programs, not the cluster: the control plane, what runs in `kube-system`, kubelets of
//! nodes that have joined, and the super administrator go on. So a Deployment heals, and a node can be repaired, but nothing new
//! comes in. A node that has not joined yet is new.

use butler_api::steward::tenant_control_plane::WritePermissions;
use serde_json::Value;

use super::Workbench;
use super::policy::{self, Refusal, group_rule, rule};
use crate::desired::DesiredObject;
use crate::object::KUBE_SYSTEM;

/// Name of the policy.
pub const WRITE_PERMISSIONS_POLICY: &str = "steward-write-permissions";
/// Who Steward is to the tenant: the user of the kubeconfig that no role binding can take rights from.
pub const SUPER_ADMINISTRATOR: &str = "kubernetes-super-admin";

/// Namespaces of the cluster itself.
const SPARED: [&str; 2] = [KUBE_SYSTEM, "kube-node-lease"];
/// The control plane, and we.
const SPARED_USERS: [&str; 4] = [
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    SUPER_ADMINISTRATOR,
];

pub(crate) fn objects(
    workbench: Workbench<'_>,
    permissions: WritePermissions,
) -> Vec<DesiredObject> {
    let users: Vec<String> = SPARED_USERS
        .iter()
        .map(|user| format!("'{user}'"))
        .collect();
    let conditions = [
        (
            "not-the-control-plane",
            format!("!(request.userInfo.username in [{}])", users.join(", ")),
        ),
        (
            "not-the-system",
            format!("!('system:serviceaccounts:{KUBE_SYSTEM}' in request.userInfo.groups)"),
        ),
        (
            "not-a-node-that-has-joined",
            "!('system:nodes' in request.userInfo.groups) \
             || (request.operation == 'CREATE' && request.resource.resource == 'nodes')"
                .to_owned(),
        ),
    ];
    policy::objects(
        workbench,
        &Refusal {
            name: WRITE_PERMISSIONS_POLICY,
            rules: rules(permissions),
            spared_namespaces: &SPARED,
            conditions: &conditions,
            message: "the owner of this cluster has switched off writes of this kind; ask for more room, or for the maintenance to end",
        },
    )
}

/// A subresource is a change of an object; asking for an eviction is a deletion.
fn rules(permissions: WritePermissions) -> Vec<Value> {
    let mut rules = Vec::new();
    if permissions.block_creation {
        rules.push(rule(&["CREATE"], &["*"]));
    }
    if permissions.block_update {
        rules.push(rule(&["UPDATE"], &["*/*"]));
    }
    if permissions.block_deletion {
        rules.push(rule(&["DELETE"], &["*"]));
        rules.push(group_rule("", &["CREATE"], &["pods/eviction"]));
    }
    rules
}

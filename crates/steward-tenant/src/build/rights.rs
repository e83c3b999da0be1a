//! Roles and their bindings, in the few forms that are needed.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::{Value, json};

use super::Workbench;
use crate::desired::DesiredObject;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The group of nodes that have joined.
pub(crate) const NODES: &str = "system:nodes";

/// The group that tokens of joining nodes belong to, whoever makes them.
const JOINING_NODES: &str = "system:bootstrappers:kubeadm:default-node-token";

/// Those who join by a bootstrap token.
pub(crate) fn joining_nodes() -> Value {
    group(JOINING_NODES)
}

pub(crate) fn group(name: &str) -> Value {
    json!({ "apiGroup": GROUP, "kind": "Group", "name": name })
}

pub(crate) fn user(name: &str) -> Value {
    json!({ "apiGroup": GROUP, "kind": "User", "name": name })
}

pub(crate) fn service_account(namespace: &str, name: &str) -> Value {
    json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
}

impl Workbench<'_> {
    /// A role of this name to read one `ConfigMap`, and its binding to the subjects.
    pub(crate) fn reader_of_config_map(
        self,
        namespace: &str,
        name: &str,
        config_map: &str,
        subjects: &[Value],
    ) -> [DesiredObject; 2] {
        let role = self.object::<Role>(json!({
            "metadata": { "namespace": namespace, "name": name },
            "rules": [{
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": [config_map],
                "verbs": ["get"],
            }],
        }));
        let binding = self.object::<RoleBinding>(json!({
            "metadata": { "namespace": namespace, "name": name },
            "roleRef": { "apiGroup": GROUP, "kind": "Role", "name": name },
            "subjects": subjects,
        }));
        [role, binding]
    }

    /// A role in the whole cluster.
    pub(crate) fn cluster_role(self, name: &str, rules: &Value) -> DesiredObject {
        self.object::<ClusterRole>(json!({ "metadata": { "name": name }, "rules": rules }))
    }

    /// A binding in the whole cluster.
    pub(crate) fn cluster_binding(self, name: &str, role: &str, subject: &Value) -> DesiredObject {
        self.object::<ClusterRoleBinding>(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
            "subjects": [subject],
        }))
    }

    /// A service account.
    pub(crate) fn service_account(self, namespace: &str, name: &str) -> DesiredObject {
        self.object::<ServiceAccount>(
            json!({ "metadata": { "namespace": namespace, "name": name } }),
        )
    }
}

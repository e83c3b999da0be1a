//! Rights that are not about joining: administrators, and the API server towards kubelets.

use super::Workbench;
use super::rights::{group, user};
use crate::desired::DesiredObject;

/// Who the administrator's kubeconfig is made out to: a group, so that the binding can be taken away.
const ADMINISTRATORS: &str = "kubeadm:cluster-admins";
/// Who the API server is to kubelets. Its certificate names no privileged group, so logs and exec need this right.
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

pub(crate) fn objects(workbench: Workbench<'_>) -> Vec<DesiredObject> {
    vec![
        workbench.cluster_binding(ADMINISTRATORS, "cluster-admin", &group(ADMINISTRATORS)),
        workbench.cluster_binding(
            "kubeadm:apiserver-kubelet-client",
            "system:kubelet-api-admin",
            &user(KUBELET_CLIENT),
        ),
    ]
}

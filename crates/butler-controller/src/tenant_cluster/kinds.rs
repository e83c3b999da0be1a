//! Kinds of other projects that a tenant cluster is made of and that have no Rust type here, because they are only written.

use butler_api::keys::groups;
use butler_runtime::object::Kind;

fn kind(group: &str, version: &str, kind: &str) -> Kind {
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: true,
    }
}

/// A control plane that Kamaji hosts, as Cluster API sees it.
pub(crate) fn kamaji_control_plane() -> Kind {
    kind(groups::CONTROL_PLANE, "v1alpha1", "KamajiControlPlane")
}

/// What machines of Cluster API's kubeadm provider boot with.
pub(crate) fn kubeadm_config_template() -> Kind {
    kind(
        groups::BOOTSTRAP,
        groups::BOOTSTRAP_VERSION,
        "KubeadmConfigTemplate",
    )
}

/// When Cluster API replaces a machine.
pub(crate) fn machine_health_check() -> Kind {
    kind(
        groups::CLUSTER_API,
        groups::CLUSTER_API_VERSION,
        "MachineHealthCheck",
    )
}

/// Infrastructure that CAPX makes.
pub(crate) fn nutanix_cluster() -> Kind {
    kind(groups::INFRASTRUCTURE, "v1beta1", "NutanixCluster")
}

/// What machines that CAPX makes are like.
pub(crate) fn nutanix_machine_template() -> Kind {
    kind(groups::INFRASTRUCTURE, "v1beta1", "NutanixMachineTemplate")
}

/// Infrastructure that CAPK makes.
pub(crate) fn kubevirt_cluster() -> Kind {
    kind(groups::INFRASTRUCTURE, "v1alpha1", "KubevirtCluster")
}

/// What machines that CAPK makes are like.
pub(crate) fn kubevirt_machine_template() -> Kind {
    kind(
        groups::INFRASTRUCTURE,
        "v1alpha1",
        "KubevirtMachineTemplate",
    )
}

/// One entrance for many names.
pub(crate) fn gateway() -> Kind {
    kind("gateway.networking.k8s.io", "v1", "Gateway")
}

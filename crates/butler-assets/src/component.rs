//! The names of the binaries this crate provides. What each one is lives in the catalogue.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::error::Error;

/// One binary that Butler needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum Component {
    /// The database of a control plane.
    Etcd,
    /// The Kubernetes API server.
    KubeApiserver,
    /// The Kubernetes controllers.
    KubeControllerManager,
    /// The Kubernetes scheduler.
    KubeScheduler,
    /// The Service proxy of a node.
    KubeProxy,
    /// The node agent.
    Kubelet,
    /// Makes and joins clusters.
    Kubeadm,
    /// The Kubernetes command line.
    Kubectl,
    /// The container runtime of a machine.
    Containerd,
    /// containerd's own command line.
    Ctr,
    /// What containerd starts for each pod.
    ContainerdShimRuncV2,
    /// CNI plugin: a bridge for the pods of a node.
    CniBridge,
    /// CNI plugin: addresses from the node's range.
    CniHostLocal,
    /// CNI plugin: the loopback interface of a pod.
    CniLoopback,
    /// CNI plugin: host ports.
    CniPortmap,
    /// CNI plugin: a point-to-point link for each pod.
    CniPtp,
    /// The OCI runtime.
    Runc,
    /// The package manager of Kubernetes.
    Helm,
    /// The name server of a cluster.
    Coredns,
    /// Cluster API's core manager.
    ClusterApiCore,
    /// Cluster API's kubeadm bootstrap manager.
    ClusterApiKubeadmBootstrap,
    /// Cluster API's kubeadm control plane manager.
    ClusterApiKubeadmControlPlane,
    /// Plays nodes and pods for load tests.
    Kwok,
    /// Holds the namespaces of a pod.
    Pause,
    /// A messaging server that can keep the state of a control plane.
    NatsServer,
}

impl Component {
    /// Every component, in the order of the enum.
    pub const ALL: [Self; 25] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::KubeProxy,
        Self::Kubelet,
        Self::Kubeadm,
        Self::Kubectl,
        Self::Containerd,
        Self::Ctr,
        Self::ContainerdShimRuncV2,
        Self::CniBridge,
        Self::CniHostLocal,
        Self::CniLoopback,
        Self::CniPortmap,
        Self::CniPtp,
        Self::Runc,
        Self::Helm,
        Self::Coredns,
        Self::ClusterApiCore,
        Self::ClusterApiKubeadmBootstrap,
        Self::ClusterApiKubeadmControlPlane,
        Self::Kwok,
        Self::Pause,
        Self::NatsServer,
    ];

    /// The name users write, as in the catalogue.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::KubeProxy => "kube-proxy",
            Self::Kubelet => "kubelet",
            Self::Kubeadm => "kubeadm",
            Self::Kubectl => "kubectl",
            Self::Containerd => "containerd",
            Self::Ctr => "ctr",
            Self::ContainerdShimRuncV2 => "containerd-shim-runc-v2",
            Self::CniBridge => "cni-bridge",
            Self::CniHostLocal => "cni-host-local",
            Self::CniLoopback => "cni-loopback",
            Self::CniPortmap => "cni-portmap",
            Self::CniPtp => "cni-ptp",
            Self::Runc => "runc",
            Self::Helm => "helm",
            Self::Coredns => "coredns",
            Self::ClusterApiCore => "cluster-api-core",
            Self::ClusterApiKubeadmBootstrap => "cluster-api-kubeadm-bootstrap",
            Self::ClusterApiKubeadmControlPlane => "cluster-api-kubeadm-control-plane",
            Self::Kwok => "kwok",
            Self::Pause => "pause",
            Self::NatsServer => "nats-server",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Component {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|component| component.name() == text)
            .ok_or_else(|| Error::UnknownComponent {
                name: text.to_owned(),
                known: Self::ALL.map(Self::name).join(", "),
            })
    }
}

impl TryFrom<String> for Component {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_reads_back_from_its_name() {
        for component in Component::ALL {
            assert_eq!(component.name().parse::<Component>().unwrap(), component);
        }
    }

    #[test]
    fn unknown_component_is_told_the_known_ones() {
        let error = "kube-apisever"
            .parse::<Component>()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("\"kube-apisever\"") && error.contains("kube-apiserver,"),
            "{error}"
        );
    }
}

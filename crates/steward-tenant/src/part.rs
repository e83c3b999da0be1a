//! The parts that the tenant side is made of: each is switched, repaired and reported on by itself.

use std::fmt;

/// A part of the tenant side. Its name is the value of the component label on its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantPart {
    /// The policy that refuses every write while the data moves to another store.
    Freeze,
    /// The policy that refuses some kinds of writes.
    WritePermissions,
    /// Rights of administrators and of the API server towards kubelets.
    Access,
    /// What `kubeadm` reads about the cluster.
    KubeadmConfig,
    /// What joining kubelets are configured with.
    KubeletConfig,
    /// Bootstrap tokens, what they may do, and the signed cluster information.
    Bootstrap,
    /// Names of Services and pods.
    CoreDns,
    /// Services on every node.
    KubeProxy,
    /// Agents of the reverse tunnel.
    Tunnel,
    /// The proxy through which pods reach their API server.
    TcpProxy,
}

impl TenantPart {
    /// All parts.
    pub const ALL: [Self; 10] = [
        Self::Freeze,
        Self::WritePermissions,
        Self::Access,
        Self::KubeadmConfig,
        Self::KubeletConfig,
        Self::Bootstrap,
        Self::CoreDns,
        Self::KubeProxy,
        Self::Tunnel,
        Self::TcpProxy,
    ];

    /// As written in the component label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::WritePermissions => "write-permissions",
            Self::Access => "access",
            Self::KubeadmConfig => "kubeadm-config",
            Self::KubeletConfig => "kubelet-config",
            Self::Bootstrap => "bootstrap",
            Self::CoreDns => "coredns",
            Self::KubeProxy => "kube-proxy",
            Self::Tunnel => "tunnel",
            Self::TcpProxy => "tcp-proxy",
        }
    }

    /// The part of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == name)
    }
}

impl fmt::Display for TenantPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

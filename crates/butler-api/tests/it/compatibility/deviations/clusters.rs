//! Differences of the kinds for tenant clusters.

use super::{BOUNDED, Deviation};
use crate::compatibility::compare::What;

pub(super) const DEVIATIONS: &[Deviation] = &[
    Deviation {
        kind: "TenantCluster",
        what: What::Required,
        reason: "ButlerConfig.defaultAddonVersions, or else the catalogue, decides the version that is not named",
        paths: &[
            "spec.addons.certManager.version",
            "spec.addons.cni.version",
            "spec.addons.loadBalancer.version",
            "spec.addons.storage.version",
        ],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Default,
        reason: "the usual one depends on the provider, which no schema knows",
        paths: &[
            "spec.addons.cni.provider",
            "spec.addons.loadBalancer.provider",
            "spec.workers.machineTemplate.os.type",
        ],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Bounds,
        reason: BOUNDED,
        paths: &[
            "spec.addons.gitops.repository.url",
            "spec.controlPlane.certSANs",
            "spec.controlPlane.certSANs[]",
            "spec.timeServers",
            "spec.timeServers[]",
        ],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Bounds,
        reason: "a control plane on machines of its own may have five; a rule keeps hosted ones at three",
        paths: &["spec.controlPlane.replicas"],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Default,
        reason: "where the provider brings no cloud manager, as on local, nodes would wait for one for ever",
        paths: &["spec.controlPlane.externalCloudProvider"],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Bounds,
        reason: "says how large the integer may be",
        paths: &["spec.infrastructureOverride.proxmox.templateID"],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Bounds,
        reason: "the leading v may be left out, and a candidate of a release is accepted",
        paths: &["spec.kubernetesVersion"],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Bounds,
        reason: "must be a block or address of either family; the API server wants a bound on what a rule reads",
        paths: &[
            "spec.networking.loadBalancerPool.end",
            "spec.networking.loadBalancerPool.start",
            "spec.networking.podCIDR",
            "spec.networking.serviceCIDR",
        ],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Default,
        reason: "the defaults of the environment and of the team come first, and a schema's default would hide them",
        paths: &[
            "spec.workers.machineTemplate.cpu",
            "spec.workers.machineTemplate.diskSize",
            "spec.workers.machineTemplate.memory",
        ],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Default,
        reason: "depends on the operating system and the provider, which no schema knows",
        paths: &[
            "spec.workers.machineTemplate.os.talos.installDisk",
            "spec.workers.machineTemplate.os.talos.version",
            "spec.workers.machineTemplate.os.version",
        ],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Bounds,
        reason: "a cluster may have no workers",
        paths: &["spec.workers.replicas"],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Bounds,
        reason: "must be a length of time, so that a wrong one is refused here and not when the time has come",
        paths: &["spec.workspaces.autoDeleteAfter"],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Required,
        reason: "has a default",
        paths: &["spec.workspaces.enabled"],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Bounds,
        reason: "a negative number of workspaces is a mistake",
        paths: &["spec.workspaces.maxWorkspaces"],
    },
    Deviation {
        kind: "TenantCluster",
        what: What::Bounds,
        reason: "must be a quantity, so that a wrong one is refused here and not when it is counted",
        paths: &[
            "spec.workspaces.resourceQuota.maxCPU",
            "spec.workspaces.resourceQuota.maxMemory",
            "spec.workspaces.resourceQuota.maxStorage",
        ],
    },
];

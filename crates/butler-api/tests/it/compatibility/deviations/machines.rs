//! Differences of the kinds for management clusters, machines and images.

use super::{BOUNDED, Deviation};
use crate::compatibility::compare::What;

pub(super) const DEVIATIONS: &[Deviation] = &[
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Default,
        reason: "the release of Butler pins the versions and images of what it installs",
        paths: &[
            "spec.addons.butlerController.image",
            "spec.addons.butlerController.version",
            "spec.addons.capi.version",
            "spec.addons.console.version",
        ],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Default,
        reason: "the usual one depends on the provider and the topology, which no schema knows",
        paths: &[
            "spec.addons.cni.type",
            "spec.addons.controlPlaneHA.type",
            "spec.addons.loadBalancer.type",
            "spec.addons.storage.replicaCount",
            "spec.addons.storage.type",
            "spec.talos.installDisk",
        ],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Bounds,
        reason: BOUNDED,
        paths: &[
            "spec.addons.loadBalancer.addressPool",
            "spec.network.vip",
            "spec.network.vipInterface",
            "spec.talos.configPatches",
            "spec.talos.version",
        ],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Bounds,
        reason: "a volume without a replica is no volume",
        paths: &["spec.addons.storage.replicaCount"],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Required,
        reason: "sizes may be quantities in machineTemplate instead; a rule asks for one of the two",
        paths: &[
            "spec.cluster.controlPlane.cpu",
            "spec.cluster.controlPlane.diskGB",
            "spec.cluster.controlPlane.memoryMB",
            "spec.cluster.workers.cpu",
            "spec.cluster.workers.diskGB",
            "spec.cluster.workers.memoryMB",
        ],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Bounds,
        reason: "a cluster may have no workers, and its control plane then runs the workloads; a rule ties the control plane to the topology",
        paths: &[
            "spec.cluster.controlPlane.replicas",
            "spec.cluster.workers.replicas",
        ],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Required,
        reason: "may be written as networking instead; a rule asks for one of the two",
        paths: &["spec.network"],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Bounds,
        reason: "IPv6 is accepted, and the rules isCIDR and isIP say more than the patterns did",
        paths: &[
            "spec.network.loadBalancerPool.end",
            "spec.network.loadBalancerPool.start",
            "spec.network.podCIDR",
            "spec.network.serviceCIDR",
        ],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Required,
        reason: "the settings may be in providerConfig instead, and local needs none; a rule asks for one of the two elsewhere",
        paths: &["spec.providerRef"],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Required,
        reason: "the machines of local do not run Talos, and the release of Butler names a version elsewhere",
        paths: &["spec.talos"],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::List,
        reason: "several writers each own their conditions, as on every other kind",
        paths: &["status.conditions"],
    },
    Deviation {
        kind: "ClusterBootstrap",
        what: What::Enum,
        reason: "what the controller writes is a closed set",
        paths: &[
            "status.machines[].phase",
            "status.machines[].role",
            "status.phase",
        ],
    },
    Deviation {
        kind: "ImageSync",
        what: What::Default,
        reason: "depends on the provider that takes the image, which no schema knows",
        paths: &["spec.factoryRef.platform", "spec.format"],
    },
    Deviation {
        kind: "ImageSync",
        what: What::Bounds,
        reason: "becomes a part of an address, so that nothing else than a name may be in it",
        paths: &[
            "spec.factoryRef.platform",
            "spec.factoryRef.schematicID",
            "spec.factoryRef.version",
            "spec.format",
        ],
    },
    Deviation {
        kind: "LoadBalancerRequest",
        what: What::Bounds,
        reason: "the API server wants a bound on what a rule walks",
        paths: &["spec.targets"],
    },
    Deviation {
        kind: "LoadBalancerRequest",
        what: What::Bounds,
        reason: "must be an address; the API server wants a bound on what a rule reads",
        paths: &["spec.targets[].ip"],
    },
    Deviation {
        kind: "MachineRequest",
        what: What::Required,
        reason: "sizes may be quantities in resources instead; a rule asks for one of the two",
        paths: &["spec.cpu", "spec.diskGB", "spec.memoryMB"],
    },
    Deviation {
        kind: "MachineRequest",
        what: What::Required,
        reason: "the name of the request is the machine's unless another is given",
        paths: &["spec.machineName"],
    },
    Deviation {
        kind: "MachineRequest",
        what: What::Required,
        reason: "may be written as providerConfigRef instead; a rule asks for one of the two",
        paths: &["spec.providerRef"],
    },
];

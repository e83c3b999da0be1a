//! Differences of the kinds for hosted control planes.

use super::Deviation;
use crate::compatibility::compare::What;

pub(super) const DEVIATIONS: &[Deviation] = &[
    Deviation {
        kind: "KubeconfigGenerator",
        what: What::Required,
        reason: "has a default",
        paths: &["status.availableResources", "status.resources"],
    },
    Deviation {
        kind: "KubeconfigGenerator",
        what: What::Bounds,
        reason: "says how large the integer may be",
        paths: &["status.availableResources", "status.resources"],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Default,
        reason: "what is left out is filled in as a whole, so that readers find every default in the object",
        paths: &[
            "spec.addons",
            "spec.addons.konnectivity.agent",
            "spec.controlPlane.deployment",
            "spec.networkProfile",
        ],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Bounds,
        reason: "a port is a number from 1 to 65535",
        paths: &[
            "spec.addons.konnectivity.server.port",
            "spec.addons.workerBootstrap.talos.port",
            "spec.controlPlane.service.additionalPorts[].port",
            "spec.networkProfile.port",
        ],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Bounds,
        reason: "each entry is checked by a rule; the API server wants a bound on what a rule walks",
        paths: &[
            "spec.addons.workerBootstrap.allowedSubnets",
            "spec.addons.workerBootstrap.allowedSubnets[]",
            "spec.addons.workerBootstrap.talos.certSANs",
            "spec.addons.workerBootstrap.talos.certSANs[]",
            "spec.networkProfile.certSANs",
            "spec.networkProfile.certSANs[]",
            "spec.networkProfile.dnsServiceIPs",
            "spec.networkProfile.dnsServiceIPs[]",
            "spec.networkProfile.loadBalancerSourceRanges",
            "spec.networkProfile.loadBalancerSourceRanges[]",
        ],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Required,
        reason: "has a default",
        paths: &["spec.addons.workerBootstrap.csrApproval.autoApprove"],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Enum,
        reason: "one way exists; another word would have been ignored",
        paths: &["spec.addons.workerBootstrap.provider"],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Bounds,
        reason: "a negative number of pods is a mistake",
        paths: &["spec.controlPlane.deployment.replicas"],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Bounds,
        reason: "must be a version, so that a wrong one is refused here and not when an image is missing",
        paths: &["spec.kubernetes.version"],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Bounds,
        reason: "must be an address or host name; the API server wants a bound on what a rule reads",
        paths: &["spec.networkProfile.address"],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Bounds,
        reason: "must be a block of either family, or one of each; the API server wants a bound on what a rule reads",
        paths: &[
            "spec.networkProfile.podCidr",
            "spec.networkProfile.serviceCidr",
        ],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Required,
        reason: "Kubernetes' own type, where it is optional; only the controller writes it",
        paths: &[
            "status.addons.konnectivity.service.loadBalancer.ingress[].ports[].error",
            "status.addons.workerBootstrap.service.loadBalancer.ingress[].ports[].error",
            "status.kubernetesResources.ingress.loadBalancer.ingress[].ports[].error",
            "status.kubernetesResources.service.loadBalancer.ingress[].ports[].error",
        ],
    },
    Deviation {
        kind: "TenantControlPlane",
        what: What::Bounds,
        reason: "Kubernetes' own type, which leaves the check to the one who wrote it first",
        paths: &[
            "status.addons.konnectivity.service.loadBalancer.ingress[].ports[].error",
            "status.addons.workerBootstrap.service.loadBalancer.ingress[].ports[].error",
            "status.kubernetesResources.ingress.loadBalancer.ingress[].ports[].error",
            "status.kubernetesResources.service.loadBalancer.ingress[].ports[].error",
        ],
    },
];

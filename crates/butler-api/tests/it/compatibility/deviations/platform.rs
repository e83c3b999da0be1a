//! Differences of the kinds for the platform, its teams and its providers.

use super::Deviation;
use crate::compatibility::compare::What;

pub(super) const DEVIATIONS: &[Deviation] = &[
    Deviation {
        kind: "ButlerConfig",
        what: What::Bounds,
        reason: "a namespace's name is a DNS label; anything else failed later and without words",
        paths: &["spec.defaultNamespace"],
    },
    Deviation {
        kind: "ButlerConfig",
        what: What::Default,
        reason: "the public address depends on the type of the Git service, so it is not a default of the schema",
        paths: &["spec.gitProvider.url"],
    },
    Deviation {
        kind: "IPAllocation",
        what: What::Bounds,
        reason: "IPv6 is accepted, and the rule isIP says more than the pattern did",
        paths: &[
            "spec.pinnedRange.endAddress",
            "spec.pinnedRange.startAddress",
        ],
    },
    Deviation {
        kind: "IPAllocation",
        what: What::Bounds,
        reason: "a ledger of one grant stays small",
        paths: &["spec.count"],
    },
    Deviation {
        kind: "IPAllocation",
        what: What::Required,
        reason: "addresses may belong to another object, named by ownerRef; a rule asks for one of the two",
        paths: &["spec.tenantClusterRef"],
    },
    Deviation {
        kind: "NetworkPool",
        what: What::Bounds,
        reason: "IPv6 is accepted, and the rule isCIDR says more than the pattern did",
        paths: &["spec.cidr", "spec.reserved[].cidr"],
    },
    Deviation {
        kind: "NetworkPool",
        what: What::Bounds,
        reason: "the API server wants a bound on what a rule walks",
        paths: &["spec.reserved"],
    },
    Deviation {
        kind: "NetworkPool",
        what: What::Bounds,
        reason: "must be an address; the API server wants a bound on what a rule reads",
        paths: &["spec.tenantAllocation.end", "spec.tenantAllocation.start"],
    },
    Deviation {
        kind: "NetworkPool",
        what: What::Required,
        reason: "windows may be given by ranges instead; start and end must come together",
        paths: &["spec.tenantAllocation.end", "spec.tenantAllocation.start"],
    },
    Deviation {
        kind: "ProviderConfig",
        what: What::Bounds,
        reason: "an empty region was refused by the admission webhook",
        paths: &["spec.aws.region", "spec.gcp.region"],
    },
    Deviation {
        kind: "ProviderConfig",
        what: What::Bounds,
        reason: "an empty resource group was refused by the admission webhook",
        paths: &["spec.azure.resourceGroup"],
    },
    Deviation {
        kind: "ProviderConfig",
        what: What::Bounds,
        reason: "an empty subscription was refused by the admission webhook",
        paths: &["spec.azure.subscriptionID"],
    },
    Deviation {
        kind: "ProviderConfig",
        what: What::Required,
        reason: "the provider local needs no credentials; a rule asks for them with all others",
        paths: &["spec.credentialsRef"],
    },
    Deviation {
        kind: "ProviderConfig",
        what: What::Bounds,
        reason: "an empty project was refused by the admission webhook",
        paths: &["spec.gcp.projectID"],
    },
    Deviation {
        kind: "ProviderConfig",
        what: What::Bounds,
        reason: "the API server wants a bound on what a rule walks",
        paths: &["spec.network.dnsServers", "spec.network.poolRefs"],
    },
    Deviation {
        kind: "ProviderConfig",
        what: What::Bounds,
        reason: "must be an address; the API server wants a bound on what a rule reads",
        paths: &["spec.network.dnsServers[]", "spec.network.gateway"],
    },
    Deviation {
        kind: "Team",
        what: What::Bounds,
        reason: "must be a version, so that a wrong one is refused here and not in each new cluster",
        paths: &[
            "spec.clusterDefaults.kubernetesVersion",
            "spec.environments[].clusterDefaults.kubernetesVersion",
        ],
    },
    Deviation {
        kind: "User",
        what: What::List,
        reason: "several writers each own their conditions, as on every other kind",
        paths: &["status.conditions"],
    },
    Deviation {
        kind: "User",
        what: What::Enum,
        reason: "the four phases the server knows are a closed set",
        paths: &["status.phase"],
    },
    Deviation {
        kind: "User",
        what: What::Enum,
        reason: "roles are a closed set, the same as in Team",
        paths: &["status.teams[].role"],
    },
];

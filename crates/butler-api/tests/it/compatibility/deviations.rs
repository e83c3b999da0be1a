//! Where our definitions differ from the tables on purpose.

use super::compare::{Problem, What};

/// One difference on purpose.
#[derive(Debug)]
pub(super) struct Deviation {
    pub(super) kind: &'static str,
    pub(super) path: &'static str,
    pub(super) what: What,
    pub(super) reason: &'static str,
}

impl Deviation {
    pub(super) fn covers(&self, problem: &Problem) -> bool {
        self.kind == problem.kind && self.path == problem.path && self.what == problem.what
    }
}

const fn deviation(
    kind: &'static str,
    path: &'static str,
    what: What,
    reason: &'static str,
) -> Deviation {
    Deviation {
        kind,
        path,
        what,
        reason,
    }
}

/// Every difference on purpose, by kind and path. An entry that no longer differs fails the test.
pub(super) const DEVIATIONS: &[Deviation] = &[
    deviation(
        "ButlerConfig",
        "spec.defaultNamespace",
        What::Bounds,
        "a namespace's name is a DNS label; anything else failed later and without words",
    ),
    deviation(
        "ButlerConfig",
        "spec.gitProvider.url",
        What::Default,
        "the public address depends on the type of the Git service, so it is not a default of the schema",
    ),
    deviation(
        "IPAllocation",
        "spec.pinnedRange.endAddress",
        What::Bounds,
        "IPv6 is accepted, and the rule isIP says more than the pattern did",
    ),
    deviation(
        "IPAllocation",
        "spec.pinnedRange.startAddress",
        What::Bounds,
        "IPv6 is accepted, and the rule isIP says more than the pattern did",
    ),
    deviation(
        "IPAllocation",
        "spec.tenantClusterRef",
        What::Required,
        "addresses may belong to another object, named by ownerRef; a rule asks for one of the two",
    ),
    deviation(
        "NetworkPool",
        "spec.cidr",
        What::Bounds,
        "IPv6 is accepted, and the rule isCIDR says more than the pattern did",
    ),
    deviation(
        "NetworkPool",
        "spec.reserved",
        What::Bounds,
        "the API server wants a bound on what a rule walks",
    ),
    deviation(
        "NetworkPool",
        "spec.reserved[].cidr",
        What::Bounds,
        "IPv6 is accepted, and the rule isCIDR says more than the pattern did",
    ),
    deviation(
        "NetworkPool",
        "spec.tenantAllocation.end",
        What::Bounds,
        "must be an address; the API server wants a bound on what a rule reads",
    ),
    deviation(
        "NetworkPool",
        "spec.tenantAllocation.end",
        What::Required,
        "windows may be given by ranges instead; start and end must come together",
    ),
    deviation(
        "NetworkPool",
        "spec.tenantAllocation.start",
        What::Bounds,
        "must be an address; the API server wants a bound on what a rule reads",
    ),
    deviation(
        "NetworkPool",
        "spec.tenantAllocation.start",
        What::Required,
        "windows may be given by ranges instead; start and end must come together",
    ),
    deviation(
        "ProviderConfig",
        "spec.aws.region",
        What::Bounds,
        "an empty region was refused by the admission webhook",
    ),
    deviation(
        "ProviderConfig",
        "spec.azure.resourceGroup",
        What::Bounds,
        "an empty resource group was refused by the admission webhook",
    ),
    deviation(
        "ProviderConfig",
        "spec.azure.subscriptionID",
        What::Bounds,
        "an empty subscription was refused by the admission webhook",
    ),
    deviation(
        "ProviderConfig",
        "spec.credentialsRef",
        What::Required,
        "the provider local needs no credentials; a rule asks for them with all others",
    ),
    deviation(
        "ProviderConfig",
        "spec.gcp.projectID",
        What::Bounds,
        "an empty project was refused by the admission webhook",
    ),
    deviation(
        "ProviderConfig",
        "spec.gcp.region",
        What::Bounds,
        "an empty region was refused by the admission webhook",
    ),
    deviation(
        "ProviderConfig",
        "spec.network.dnsServers",
        What::Bounds,
        "the API server wants a bound on what a rule walks",
    ),
    deviation(
        "ProviderConfig",
        "spec.network.dnsServers[]",
        What::Bounds,
        "must be an address; the API server wants a bound on what a rule reads",
    ),
    deviation(
        "ProviderConfig",
        "spec.network.gateway",
        What::Bounds,
        "must be an address; the API server wants a bound on what a rule reads",
    ),
    deviation(
        "ProviderConfig",
        "spec.network.poolRefs",
        What::Bounds,
        "the API server wants a bound on what a rule walks",
    ),
    deviation(
        "Team",
        "spec.clusterDefaults.kubernetesVersion",
        What::Bounds,
        "must be a version, so that a wrong one is refused here and not in each new cluster",
    ),
    deviation(
        "Team",
        "spec.environments[].clusterDefaults.kubernetesVersion",
        What::Bounds,
        "must be a version, so that a wrong one is refused here and not in each new cluster",
    ),
    deviation(
        "User",
        "status.conditions",
        What::List,
        "several writers each own their conditions, as on every other kind",
    ),
    deviation(
        "User",
        "status.phase",
        What::Enum,
        "the four phases the server knows are a closed set",
    ),
    deviation(
        "User",
        "status.teams[].role",
        What::Enum,
        "roles are a closed set, the same as in Team",
    ),
];

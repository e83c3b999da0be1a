//! Mistakes in the platform's settings, its teams, providers and pools.

use super::Refusal;

pub(super) const REFUSALS: &[Refusal] = &[
    (
        "a second ButlerConfig",
        "ButlerConfig",
        "metadata: {name: other}\nspec: {}",
        &["metadata.name must be butler"],
    ),
    (
        "an unknown tenancy mode",
        "ButlerConfig",
        "metadata: {name: butler}\nspec: {multiTenancy: {mode: Sometimes}}",
        &["spec.multiTenancy.mode", "Unsupported value", "Enforced"],
    ),
    (
        "a Gateway that is not named",
        "ButlerConfig",
        "metadata: {name: butler}\nspec: {controlPlaneExposure: {mode: Gateway}}",
        &[
            "spec.controlPlaneExposure",
            "gatewayRef is required when mode is Gateway",
        ],
    ),
    (
        "a field that does not exist",
        "Team",
        "metadata: {name: payments}\nspec: {displayname: Payments}",
        &["unknown field", "spec.displayname"],
    ),
    (
        "a team that would take kube-system",
        "Team",
        "metadata: {name: kube-system}\nspec: {}",
        &["metadata.name becomes the team's namespace", "kube-*"],
    ),
    (
        "a team with dots in its name",
        "Team",
        "metadata: {name: pay.ments}\nspec: {}",
        &["metadata.name becomes the team's namespace"],
    ),
    (
        "an unknown role",
        "Team",
        "metadata: {name: payments}\nspec: {access: {users: [{name: a@example.com, role: owner}]}}",
        &["spec.access.users[0].role", "Unsupported value", "operator"],
    ),
    (
        "a version that is none",
        "Team",
        "metadata: {name: payments}\nspec: {clusterDefaults: {kubernetesVersion: latest}}",
        &["spec.clusterDefaults.kubernetesVersion", "should match"],
    ),
    (
        "a limit that is no quantity",
        "Team",
        "metadata: {name: payments}\nspec: {resourceLimits: {maxTotalMemory: plenty}}",
        &["spec.resourceLimits.maxTotalMemory", "should match"],
    ),
    (
        "two environments of one name",
        "Team",
        "metadata: {name: payments}\nspec: {environments: [{name: dev}, {name: dev}]}",
        &["spec.environments[1]", "Duplicate value"],
    ),
    (
        "a person without an e-mail",
        "User",
        "metadata: {name: someone}\nspec: {displayName: Someone}",
        &["spec.email", "Required value"],
    ),
    (
        "an identity provider without settings",
        "IdentityProvider",
        "metadata: {name: corporate}\nspec: {type: oidc}",
        &["oidc is required when type is oidc"],
    ),
    (
        "an issuer without TLS",
        "IdentityProvider",
        "metadata: {name: corporate}\nspec: {type: oidc, oidc: {issuerURL: 'http://login.example.com', \
         clientID: butler, clientSecretRef: {name: oidc}, redirectURL: 'https://butler.example.com'}}",
        &["spec.oidc.issuerURL", "should match", "^https://"],
    ),
    (
        "an unknown provider",
        "ProviderConfig",
        "metadata: {name: cloud}\nspec: {provider: openstack, credentialsRef: {name: c}}",
        &["spec.provider", "Unsupported value", "local"],
    ),
    (
        "a provider without credentials",
        "ProviderConfig",
        "metadata: {name: cloud}\nspec: {provider: aws, aws: {region: eu-central-1}}",
        &["credentialsRef is required unless provider is local"],
    ),
    (
        "a provider without its settings",
        "ProviderConfig",
        "metadata: {name: cloud}\nspec: {provider: gcp, credentialsRef: {name: c}}",
        &["gcp is required when provider is gcp"],
    ),
    (
        "a provider with half of its settings",
        "ProviderConfig",
        "metadata: {name: cloud}\nspec: {provider: azure, credentialsRef: {name: c}, azure: {subscriptionID: s}}",
        &["spec.azure.resourceGroup", "Required value"],
    ),
    (
        "a team's provider without the team",
        "ProviderConfig",
        "metadata: {name: here}\nspec: {provider: local, scope: {type: team}}",
        &["spec.scope", "teamRef is required when type is team"],
    ),
    (
        "addresses from no pool",
        "ProviderConfig",
        "metadata: {name: here}\nspec: {provider: local, network: {mode: ipam}}",
        &[
            "spec.network",
            "poolRefs must name at least one NetworkPool",
        ],
    ),
    (
        "pools in a cloud",
        "ProviderConfig",
        "metadata: {name: cloud}\nspec: {provider: aws, aws: {region: eu-central-1}, credentialsRef: {name: c}, \
         network: {mode: ipam, poolRefs: [{name: rack-1}]}}",
        &["network.mode ipam is not possible with azure, aws and gcp"],
    ),
    (
        "machine identifiers backwards",
        "ProviderConfig",
        "metadata: {name: proxmox}\nspec: {provider: proxmox, credentialsRef: {name: c}, proxmox: \
         {endpoint: 'https://pve', nodes: [a], storage: s, vmidRange: {start: 300, end: 200}}}",
        &["spec.proxmox.vmidRange", "start must not come after end"],
    ),
    (
        "a bridge network that is none",
        "ProviderConfig",
        "metadata: {name: here}\nspec: {provider: local, local: {cidr: 10.40.0.0/99}}",
        &["spec.local.cidr", "must be a block in CIDR notation"],
    ),
    (
        "a gateway that is no address",
        "ProviderConfig",
        "metadata: {name: here}\nspec: {provider: local, network: {gateway: router}}",
        &["spec.network.gateway", "must be an IPv4 or IPv6 address"],
    ),
    (
        "a pool of a network that is none",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.300/16}",
        &["spec.cidr", "must be a block in CIDR notation"],
    ),
    (
        "a pool with host bits",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.1.7/16}",
        &["spec.cidr", "must not have address bits beyond the prefix"],
    ),
    (
        "a pool of everything",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 0.0.0.0/0}",
        &["spec.cidr", "must have a prefix of at least /1"],
    ),
    (
        "a window backwards",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.1.200, end: 10.40.1.30}}",
        &["spec.tenantAllocation", "start must not come after end"],
    ),
    (
        "a window among several backwards",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: \
         {ranges: [{start: 10.40.2.0, end: 10.40.1.255}]}}",
        &[
            "spec.tenantAllocation.ranges[0]",
            "start must not come after end",
        ],
    ),
    (
        "half a window",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.1.200}}",
        &[
            "spec.tenantAllocation",
            "start and end must be given together",
        ],
    ),
    (
        "a window of two families",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.1.200, end: 'fd00::1'}}",
        &["start and end must both be IPv4 or both be IPv6"],
    ),
    (
        "a window outside of the network",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.41.0.1, end: 10.41.0.9}}",
        &["tenantAllocation: start and end must lie within cidr"],
    ),
    (
        "a reserved block outside of the network",
        "NetworkPool",
        "metadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, reserved: [{cidr: 10.41.0.0/24}]}",
        &["reserved: each block must lie within cidr"],
    ),
    (
        "addresses for nobody",
        "IPAllocation",
        "metadata: {name: lost}\nspec: {poolRef: {name: rack-1}, type: nodes}",
        &["tenantClusterRef or ownerRef is required"],
    ),
    (
        "addresses of no pool",
        "IPAllocation",
        "metadata: {name: lost}\nspec: {tenantClusterRef: {name: a, namespace: b}, type: nodes}",
        &["spec.poolRef", "Required value"],
    ),
    (
        "pinned addresses backwards",
        "IPAllocation",
        "metadata: {name: lost}\nspec: {poolRef: {name: rack-1}, tenantClusterRef: {name: a, namespace: b}, \
         type: loadbalancer, pinnedRange: {startAddress: 10.0.1.0, endAddress: 10.0.0.255}}",
        &[
            "spec.pinnedRange",
            "startAddress must not come after endAddress",
        ],
    ),
    (
        "no addresses at all",
        "IPAllocation",
        "metadata: {name: lost}\nspec: {poolRef: {name: rack-1}, tenantClusterRef: {name: a, namespace: b}, \
         type: nodes, count: 0}",
        &["spec.count", "greater than or equal to 1"],
    ),
];

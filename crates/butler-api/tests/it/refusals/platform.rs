//! Mistakes in the platform's settings, its teams and providers.

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
        "a provider of Cluster API on infrastructure that it does not know",
        "ProviderConfig",
        "metadata: {name: here}\nspec: {provider: local, clusterAPIProvider: CAPX}",
        &["clusterAPIProvider CAPX is for provider nutanix alone"],
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
];

//! Manifests with a mistake are refused, in words that name the field and the rule.

use butler_testkit::ApiServer;

use crate::manifests::Manifest;

/// What was done wrong, the manifest below `apiVersion`, and what the answer must say.
type Refusal = (&'static str, &'static str, &'static [&'static str]);

const REFUSALS: &[Refusal] = &[
    (
        "a second ButlerConfig",
        "kind: ButlerConfig\nmetadata: {name: other}\nspec: {}",
        &["metadata.name must be butler"],
    ),
    (
        "an unknown tenancy mode",
        "kind: ButlerConfig\nmetadata: {name: butler}\nspec: {multiTenancy: {mode: Sometimes}}",
        &["spec.multiTenancy.mode", "Unsupported value", "Enforced"],
    ),
    (
        "a Gateway that is not named",
        "kind: ButlerConfig\nmetadata: {name: butler}\nspec: {controlPlaneExposure: {mode: Gateway}}",
        &[
            "spec.controlPlaneExposure",
            "gatewayRef is required when mode is Gateway",
        ],
    ),
    (
        "a field that does not exist",
        "kind: Team\nmetadata: {name: payments}\nspec: {displayname: Payments}",
        &["unknown field", "spec.displayname"],
    ),
    (
        "a team that would take kube-system",
        "kind: Team\nmetadata: {name: kube-system}\nspec: {}",
        &["metadata.name becomes the team's namespace", "kube-*"],
    ),
    (
        "a team with dots in its name",
        "kind: Team\nmetadata: {name: pay.ments}\nspec: {}",
        &["metadata.name becomes the team's namespace"],
    ),
    (
        "an unknown role",
        "kind: Team\nmetadata: {name: payments}\nspec: {access: {users: [{name: a@example.com, role: owner}]}}",
        &["spec.access.users[0].role", "Unsupported value", "operator"],
    ),
    (
        "a version that is none",
        "kind: Team\nmetadata: {name: payments}\nspec: {clusterDefaults: {kubernetesVersion: latest}}",
        &["spec.clusterDefaults.kubernetesVersion", "should match"],
    ),
    (
        "a limit that is no quantity",
        "kind: Team\nmetadata: {name: payments}\nspec: {resourceLimits: {maxTotalMemory: plenty}}",
        &["spec.resourceLimits.maxTotalMemory", "should match"],
    ),
    (
        "two environments of one name",
        "kind: Team\nmetadata: {name: payments}\nspec: {environments: [{name: dev}, {name: dev}]}",
        &["spec.environments[1]", "Duplicate value"],
    ),
    (
        "a person without an e-mail",
        "kind: User\nmetadata: {name: someone}\nspec: {displayName: Someone}",
        &["spec.email", "Required value"],
    ),
    (
        "an identity provider without settings",
        "kind: IdentityProvider\nmetadata: {name: corporate}\nspec: {type: oidc}",
        &["oidc is required when type is oidc"],
    ),
    (
        "an issuer without TLS",
        "kind: IdentityProvider\nmetadata: {name: corporate}\nspec: {type: oidc, oidc: {issuerURL: 'http://login.example.com', \
         clientID: butler, clientSecretRef: {name: oidc}, redirectURL: 'https://butler.example.com'}}",
        &["spec.oidc.issuerURL", "should match", "^https://"],
    ),
    (
        "an unknown provider",
        "kind: ProviderConfig\nmetadata: {name: cloud}\nspec: {provider: openstack, credentialsRef: {name: c}}",
        &["spec.provider", "Unsupported value", "local"],
    ),
    (
        "a provider without credentials",
        "kind: ProviderConfig\nmetadata: {name: cloud}\nspec: {provider: aws, aws: {region: eu-central-1}}",
        &["credentialsRef is required unless provider is local"],
    ),
    (
        "a provider without its settings",
        "kind: ProviderConfig\nmetadata: {name: cloud}\nspec: {provider: gcp, credentialsRef: {name: c}}",
        &["gcp is required when provider is gcp"],
    ),
    (
        "a provider with half of its settings",
        "kind: ProviderConfig\nmetadata: {name: cloud}\nspec: {provider: azure, credentialsRef: {name: c}, azure: {subscriptionID: s}}",
        &["spec.azure.resourceGroup", "Required value"],
    ),
    (
        "a team's provider without the team",
        "kind: ProviderConfig\nmetadata: {name: here}\nspec: {provider: local, scope: {type: team}}",
        &["spec.scope", "teamRef is required when type is team"],
    ),
    (
        "addresses from no pool",
        "kind: ProviderConfig\nmetadata: {name: here}\nspec: {provider: local, network: {mode: ipam}}",
        &[
            "spec.network",
            "poolRefs must name at least one NetworkPool",
        ],
    ),
    (
        "pools in a cloud",
        "kind: ProviderConfig\nmetadata: {name: cloud}\nspec: {provider: aws, aws: {region: eu-central-1}, credentialsRef: {name: c}, \
         network: {mode: ipam, poolRefs: [{name: rack-1}]}}",
        &["network.mode ipam is not possible with azure, aws and gcp"],
    ),
    (
        "machine identifiers backwards",
        "kind: ProviderConfig\nmetadata: {name: proxmox}\nspec: {provider: proxmox, credentialsRef: {name: c}, proxmox: \
         {endpoint: 'https://pve', nodes: [a], storage: s, vmidRange: {start: 300, end: 200}}}",
        &["spec.proxmox.vmidRange", "start must not come after end"],
    ),
    (
        "a bridge network that is none",
        "kind: ProviderConfig\nmetadata: {name: here}\nspec: {provider: local, local: {cidr: 10.40.0.0/99}}",
        &["spec.local.cidr", "must be a block in CIDR notation"],
    ),
    (
        "a gateway that is no address",
        "kind: ProviderConfig\nmetadata: {name: here}\nspec: {provider: local, network: {gateway: router}}",
        &["spec.network.gateway", "must be an IPv4 or IPv6 address"],
    ),
    (
        "a pool of a network that is none",
        "kind: NetworkPool\nmetadata: {name: rack-1}\nspec: {cidr: 10.40.0.300/16}",
        &["spec.cidr", "must be a block in CIDR notation"],
    ),
    (
        "a pool with host bits",
        "kind: NetworkPool\nmetadata: {name: rack-1}\nspec: {cidr: 10.40.1.7/16}",
        &["spec.cidr", "must not have address bits beyond the prefix"],
    ),
    (
        "a pool of everything",
        "kind: NetworkPool\nmetadata: {name: rack-1}\nspec: {cidr: 0.0.0.0/0}",
        &["spec.cidr", "must have a prefix of at least /1"],
    ),
    (
        "a window backwards",
        "kind: NetworkPool\nmetadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.1.200, end: 10.40.1.30}}",
        &["spec.tenantAllocation", "start must not come after end"],
    ),
    (
        "a window among several backwards",
        "kind: NetworkPool\nmetadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: \
         {ranges: [{start: 10.40.2.0, end: 10.40.1.255}]}}",
        &[
            "spec.tenantAllocation.ranges[0]",
            "start must not come after end",
        ],
    ),
    (
        "half a window",
        "kind: NetworkPool\nmetadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.1.200}}",
        &[
            "spec.tenantAllocation",
            "start and end must be given together",
        ],
    ),
    (
        "a window of two families",
        "kind: NetworkPool\nmetadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.1.200, end: 'fd00::1'}}",
        &["start and end must both be IPv4 or both be IPv6"],
    ),
    (
        "a window outside of the network",
        "kind: NetworkPool\nmetadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.41.0.1, end: 10.41.0.9}}",
        &["tenantAllocation: start and end must lie within cidr"],
    ),
    (
        "a reserved block outside of the network",
        "kind: NetworkPool\nmetadata: {name: rack-1}\nspec: {cidr: 10.40.0.0/16, reserved: [{cidr: 10.41.0.0/24}]}",
        &["reserved: each block must lie within cidr"],
    ),
    (
        "addresses for nobody",
        "kind: IPAllocation\nmetadata: {name: lost}\nspec: {poolRef: {name: rack-1}, type: nodes}",
        &["tenantClusterRef or ownerRef is required"],
    ),
    (
        "addresses of no pool",
        "kind: IPAllocation\nmetadata: {name: lost}\nspec: {tenantClusterRef: {name: a, namespace: b}, type: nodes}",
        &["spec.poolRef", "Required value"],
    ),
    (
        "pinned addresses backwards",
        "kind: IPAllocation\nmetadata: {name: lost}\nspec: {poolRef: {name: rack-1}, tenantClusterRef: {name: a, namespace: b}, \
         type: loadbalancer, pinnedRange: {startAddress: 10.0.1.0, endAddress: 10.0.0.255}}",
        &[
            "spec.pinnedRange",
            "startAddress must not come after endAddress",
        ],
    ),
    (
        "no addresses at all",
        "kind: IPAllocation\nmetadata: {name: lost}\nspec: {poolRef: {name: rack-1}, tenantClusterRef: {name: a, namespace: b}, \
         type: nodes, count: 0}",
        &["spec.count", "greater than or equal to 1"],
    ),
];

#[tokio::test]
async fn mistakes_are_refused_in_words_that_name_field_and_rule() {
    let client = ApiServer::shared().await.client();
    let mut wrong = Vec::new();
    for (mistake, body, fragments) in REFUSALS {
        let yaml = format!("apiVersion: butler.butlerlabs.dev/v1alpha1\n{body}\n");
        match Manifest::parse(&yaml).create(&client, true).await {
            Ok(_) => wrong.push(format!("{mistake}: accepted")),
            Err(kube::Error::Api(status)) => {
                for fragment in *fragments {
                    if !status.message.contains(fragment) {
                        wrong.push(format!(
                            "{mistake}: no {fragment:?} in {:?}",
                            status.message
                        ));
                    }
                }
            }
            Err(error) => wrong.push(format!("{mistake}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_pool_can_be_widened_but_not_moved() {
    let server = ApiServer::shared().await;
    let client = server.client();
    let namespace = server.namespace("pool").await;
    let pool = |cidr: &str| {
        Manifest::parse(&format!(
            "apiVersion: butler.butlerlabs.dev/v1alpha1\nkind: NetworkPool\n\
             metadata: {{name: rack-1, namespace: {}}}\nspec: {{cidr: {cidr}}}\n",
            namespace.name()
        ))
    };
    pool("10.40.0.0/16")
        .create(&client, false)
        .await
        .expect("created");
    pool("10.0.0.0/8").replace(&client).await.expect("widened");
    let refusal = pool("10.40.0.0/16")
        .replace(&client)
        .await
        .expect_err("narrowed");
    assert!(
        refusal.to_string().contains("cidr can be widened"),
        "{refusal}"
    );
}

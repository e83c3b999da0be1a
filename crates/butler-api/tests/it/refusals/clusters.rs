//! Mistakes in tenant clusters, their addons and their workspaces.

use super::Refusal;

pub(super) const REFUSALS: &[Refusal] = &[
    (
        "a cluster without a version",
        "TenantCluster",
        "metadata: {name: production}\nspec: {workers: {replicas: 1}}",
        &["spec.kubernetesVersion", "Required value"],
    ),
    (
        "a cluster without workers being mentioned",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2}",
        &["spec.workers", "Required value"],
    ),
    (
        "a version that is none",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: latest, workers: {replicas: 1}}",
        &["spec.kubernetesVersion", "should match"],
    ),
    (
        "half a version",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35, workers: {replicas: 1}}",
        &["spec.kubernetesVersion", "should match"],
    ),
    (
        "less than no workers",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: -1}}",
        &["spec.workers.replicas", "greater than or equal to 0"],
    ),
    (
        "an even number of control plane machines",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, controlPlane: {mode: Standalone, replicas: 2}}",
        &["replicas of a Standalone control plane must be 1, 3 or 5"],
    ),
    (
        "machines for a control plane that has none",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, controlPlane: {machineTemplate: {cpu: 2}}}",
        &["machineTemplate is for a Standalone control plane"],
    ),
    (
        "a data store for a control plane with its own",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, controlPlane: {mode: Standalone, dataStoreRef: {name: default}}}",
        &["dataStoreRef is for a Hosted control plane"],
    ),
    (
        "a pool called as the workers are",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, nodePools: [{name: workers, replicas: 1}]}",
        &["spec.nodePools[0].name", "choose another name for the pool"],
    ),
    (
        "two pools of one name",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, nodePools: [{name: gpu, replicas: 1}, {name: gpu, replicas: 2}]}",
        &["spec.nodePools[1]", "Duplicate value"],
    ),
    (
        "a pool without a size unit",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, nodePools: [{name: gpu, replicas: 1, machineTemplate: {memory: 16}}]}",
        &[
            "spec.nodePools[0].machineTemplate.memory",
            "memory must be at least 256Mi",
        ],
    ),
    (
        "a taint that does nothing",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, nodePools: [{name: gpu, replicas: 1, taints: [{key: gpu, effect: Never}]}]}",
        &["spec.nodePools[0].taints[0].effect", "Unsupported value"],
    ),
    (
        "a time that is none",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, machineHealth: {unhealthyTimeout: soon}}",
        &["spec.machineHealth.unhealthyTimeout", "should match"],
    ),
    (
        "a field that does not exist",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, networking: {podCidr: 10.244.0.0/16}}",
        &["unknown field", "spec.networking.podCidr"],
    ),
    (
        "a pod network that is none",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, networking: {podCIDR: 10.244.0.0/33}}",
        &["spec.networking.podCIDR", "podCIDR must be a CIDR block"],
    ),
    (
        "a pod network with host bits",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, networking: {podCIDR: 10.244.1.7/16}}",
        &[
            "spec.networking.podCIDR",
            "must not have address bits beyond its prefix",
        ],
    ),
    (
        "networks that overlap",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, networking: {podCIDR: 10.0.0.0/8}}",
        &[
            "spec.networking",
            "podCIDR and serviceCIDR must not overlap",
        ],
    ),
    (
        "networks of two families",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, networking: {podCIDR: 'fd00:10:244::/56'}}",
        &["spec.networking", "must both be IPv4 or both be IPv6"],
    ),
    (
        "a pool backwards",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, networking: {loadBalancerPool: {start: 10.40.1.150, end: 10.40.1.100}}}",
        &[
            "spec.networking.loadBalancerPool",
            "start must not come after end",
        ],
    ),
    (
        "a pool with an end that is no address",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, networking: {loadBalancerPool: {start: 10.40.1.1, end: 10.40.1.256}}}",
        &[
            "spec.networking.loadBalancerPool.end",
            "end must be an IP address",
        ],
    ),
    (
        "a pool inside the pod network",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, networking: {loadBalancerPool: {start: 10.244.1.1, end: 10.244.1.9}}}",
        &[
            "spec.networking",
            "loadBalancerPool must lie outside podCIDR",
        ],
    ),
    (
        "an unknown pod network",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, addons: {cni: {provider: weave}}}",
        &["spec.addons.cni.provider", "Unsupported value", "cilium"],
    ),
    (
        "two spellings of one addon",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, addons: {gitops: {provider: flux}, gitOps: {provider: flux}}}",
        &["spec.addons", "two spellings of one setting"],
    ),
    (
        "sixteen bytes of memory",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1, machineTemplate: {memory: 16}}}",
        &[
            "spec.workers.machineTemplate.memory",
            "memory must be at least 256Mi; write the unit",
        ],
    ),
    (
        "memory that is no quantity",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1, machineTemplate: {memory: plenty}}}",
        &["spec.workers.machineTemplate.memory", "should match"],
    ),
    (
        "an unknown operating system",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1, machineTemplate: {os: {type: beos}}}}",
        &[
            "spec.workers.machineTemplate.os.type",
            "Unsupported value",
            "rocky",
        ],
    ),
    (
        "too many control planes",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, controlPlane: {replicas: 5}}",
        &[
            "spec.controlPlane",
            "replicas of a Hosted control plane must be 1, 2 or 3",
        ],
    ),
    (
        "a team without a name",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, teamRef: {name: ''}}",
        &["spec.teamRef.name", "at least 1 chars long"],
    ),
    (
        "an unknown policy",
        "TenantCluster",
        "metadata: {name: production}\nspec: {kubernetesVersion: v1.35.2, workers: {replicas: 1}, managementPolicy: {mode: Passive}}",
        &["spec.managementPolicy.mode", "Unsupported value", "Observe"],
    ),
    (
        "an addon for no cluster",
        "TenantAddon",
        "metadata: {name: argocd}\nspec: {addon: argocd}",
        &["spec.clusterRef", "Required value"],
    ),
    (
        "an addon that is nothing",
        "TenantAddon",
        "metadata: {name: argocd}\nspec: {clusterRef: {name: production}}",
        &["spec", "give either addon", "or helm"],
    ),
    (
        "a chart without a version",
        "TenantAddon",
        "metadata: {name: own}\nspec: {clusterRef: {name: production}, helm: {repository: \"https://charts.example.com\", chart: own}}",
        &["spec", "version is required with helm"],
    ),
    (
        "a chart from a strange address",
        "TenantAddon",
        "metadata: {name: own}\nspec: {clusterRef: {name: production}, version: 1.0.0, helm: {repository: \"ftp://charts.example.com\", chart: own}}",
        &["spec.helm.repository", "should match"],
    ),
    (
        "a platform addon without a name",
        "ManagementAddon",
        "metadata: {name: monitoring}\nspec: {}",
        &["spec.addon", "Required value"],
    ),
    (
        "a catalogue entry without a chart",
        "AddonDefinition",
        "metadata: {name: argocd}\nspec: {displayName: Argo CD, category: gitops}",
        &["spec.chart", "Required value"],
    ),
    (
        "a policy for nobody",
        "ClusterCreationPolicy",
        "metadata: {name: small}\nspec: {scope: {}, options: {}}",
        &["spec.scope", "needs exactly one of"],
    ),
    (
        "a workspace of nobody",
        "Workspace",
        "metadata: {name: ada}\nspec: {clusterRef: {name: production}, image: base}",
        &["spec.owner", "Required value"],
    ),
    (
        "a branch that is an option of git",
        "Workspace",
        "metadata: {name: ada}\nspec: {clusterRef: {name: production}, owner: ada@example.com, image: base, repository: {url: 'https://example.com/a.git', branch: '--upload-pack=x'}}",
        &["spec.repository.branch", "should match"],
    ),
    (
        "a time that is none",
        "Workspace",
        "metadata: {name: ada}\nspec: {clusterRef: {name: production}, owner: ada@example.com, image: base, idleTimeout: soon}",
        &["spec.idleTimeout", "should match"],
    ),
    (
        "a template without an image",
        "WorkspaceTemplate",
        "metadata: {name: go}\nspec: {displayName: Go, template: {}}",
        &["spec.template.image", "Required value"],
    ),
];

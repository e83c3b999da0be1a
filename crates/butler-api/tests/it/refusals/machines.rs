//! Mistakes in management clusters and in what is asked of providers.

use super::Refusal;

pub(super) const REFUSALS: &[Refusal] = &[
    (
        "an unknown provider",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: openstack, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &["spec.provider", "Unsupported value", "local"],
    ),
    (
        "a provider without its settings",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: harvester, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &["providerRef or providerConfig is required for every provider but local"],
    ),
    (
        "settings of another provider",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: harvester, providerConfig: {aws: {region: eu-central-1, credentialsRef: {name: c}}}, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &["providerConfig must hold the section that provider names"],
    ),
    (
        "a cluster without networks",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}}",
        &["give the networks either as network or as networking"],
    ),
    (
        "networks in both spellings",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}, networking: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &["give the networks either as network or as networking"],
    ),
    (
        "a pod network that is none",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0, serviceCIDR: 10.96.0.0/12}}",
        &["spec.network.podCIDR", "podCIDR must be a CIDR block"],
    ),
    (
        "networks that overlap",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.0.0.0/8, serviceCIDR: 10.96.0.0/12}}",
        &["spec.network", "podCIDR and serviceCIDR must not overlap"],
    ),
    (
        "a pool backwards",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12, loadBalancerPool: {start: 10.40.2.0, end: 10.40.1.255}}}",
        &[
            "spec.network.loadBalancerPool",
            "start must not come after end",
        ],
    ),
    (
        "a pool written backwards as text",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}, platform: {metalLBPool: 10.40.0.250-10.40.0.200}}",
        &["spec.platform.metalLBPool", "is reversed"],
    ),
    (
        "an address that is none",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12, vip: 10.40.0.300}}",
        &[
            "spec.network.vip",
            "must be an IPv4 or IPv6 address or a DNS name",
        ],
    ),
    (
        "two control planes",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, controlPlane: {replicas: 2, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &[
            "spec.cluster",
            "controlPlane.replicas must be an odd number of at least 3",
        ],
    ),
    (
        "workers beside a single node",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}, workers: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &[
            "spec.cluster",
            "workers.replicas must be 0 for topology single-node",
        ],
    ),
    (
        "an unknown topology",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: ring, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &["spec.cluster.topology", "Unsupported value", "single-node"],
    ),
    (
        "a version that is none",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, kubernetesVersion: newest, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &["spec.cluster.kubernetesVersion", "should match"],
    ),
    (
        "machines of no size",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &[
            "spec.cluster.controlPlane",
            "machineTemplate, or all of cpu, memoryMB and diskGB, is required",
        ],
    ),
    (
        "machines of two sizes",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, machineTemplate: {cpu: 4, memory: 16Gi, diskSize: 100Gi}}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &[
            "spec.cluster.controlPlane",
            "either as machineTemplate or as cpu, memoryMB and diskGB",
        ],
    ),
    (
        "half a processor",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, machineTemplate: {cpu: 500m, memory: 16Gi, diskSize: 100Gi}}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}}",
        &[
            "spec.cluster.controlPlane.machineTemplate.cpu",
            "cpu must be a whole number from 1 to 128",
        ],
    ),
    (
        "a field that does not exist",
        "ClusterBootstrap",
        "metadata: {name: mgmt1}\nspec: {provider: local, cluster: {name: mgmt1, topology: single-node, controlPlane: {replicas: 1, cpu: 4, memoryMB: 8192, diskGB: 50}}, network: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12}, platfrom: {cni: cilium}}",
        &["unknown field", "spec.platfrom"],
    ),
    (
        "an unknown role",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: etcd, cpu: 4, memoryMB: 8192, diskGB: 50}",
        &["spec.role", "Unsupported value", "worker"],
    ),
    (
        "a machine from nowhere",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {role: worker, cpu: 4, memoryMB: 8192, diskGB: 50}",
        &[
            "spec",
            "give the provider either as providerRef or as providerConfigRef",
        ],
    ),
    (
        "a machine from two providers",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, providerConfigRef: {name: q}, cpu: 4, memoryMB: 8192, diskGB: 50}",
        &[
            "spec",
            "give the provider either as providerRef or as providerConfigRef",
        ],
    ),
    (
        "a provider without a name",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {}, role: worker, cpu: 4, memoryMB: 8192, diskGB: 50}",
        &["spec.providerRef.name", "Required value"],
    ),
    (
        "a machine of no size",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, labels: {rack: a}}",
        &[
            "spec",
            "give the machine's size either as resources or as cpu",
        ],
    ),
    (
        "a machine of half a size",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, cpu: 4}",
        &["spec", "cpu, memoryMB and diskGB are all required"],
    ),
    (
        "a machine of two sizes",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, cpu: 4, resources: {cpu: 4, memory: 16Gi, disk: 100Gi}}",
        &[
            "spec",
            "give the machine's size either as resources or as cpu",
        ],
    ),
    (
        "sixteen bytes of memory",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, resources: {cpu: 4, memory: 16, disk: 100Gi}}",
        &["spec.resources.memory", "memory must be at least 1Gi"],
    ),
    (
        "a disk that is no quantity",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, resources: {cpu: 4, memory: 16Gi, disk: large}}",
        &["spec.resources.disk", "should match"],
    ),
    (
        "too little memory",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, cpu: 4, memoryMB: 512, diskGB: 50}",
        &["spec.memoryMB", "greater than or equal to 1024"],
    ),
    (
        "a name that is no host name",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, machineName: Worker_0, cpu: 4, memoryMB: 8192, diskGB: 50}",
        &["spec.machineName", "should match"],
    ),
    (
        "a field that does not exist",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, memory: 8192, cpu: 4, memoryMB: 8192, diskGB: 50}",
        &["unknown field", "spec.memory"],
    ),
    (
        "user data in two places",
        "MachineRequest",
        "metadata: {name: w0}\nspec: {providerRef: {name: p}, role: worker, userData: x, userDataSecretRef: {name: s}, cpu: 4, memoryMB: 8192, diskGB: 50}",
        &["spec", "either as userData or as userDataSecretRef"],
    ),
    (
        "a load balancer of no provider",
        "LoadBalancerRequest",
        "metadata: {name: api}\nspec: {clusterName: demo}",
        &["spec.providerConfigRef", "Required value"],
    ),
    (
        "a target that is no address",
        "LoadBalancerRequest",
        "metadata: {name: api}\nspec: {clusterName: demo, providerConfigRef: {name: p}, targets: [{ip: node-1}]}",
        &["spec.targets[0].ip", "must be an IPv4 or IPv6 address"],
    ),
    (
        "a port that is none",
        "LoadBalancerRequest",
        "metadata: {name: api}\nspec: {clusterName: demo, providerConfigRef: {name: p}, port: 70000}",
        &["spec.port", "less than or equal to 65535"],
    ),
    (
        "an image of no provider",
        "ImageSync",
        "metadata: {name: talos}\nspec: {factoryRef: {schematicID: 376567988ad370138ad8b2698212367b8edcb69b, version: v1.9.3}}",
        &["spec.providerConfigRef", "Required value"],
    ),
    (
        "a version with a way out",
        "ImageSync",
        "metadata: {name: talos}\nspec: {providerConfigRef: {name: p}, factoryRef: {schematicID: 376567988ad370138ad8b2698212367b8edcb69b, version: ../v1}}",
        &["spec.factoryRef.version", "should match"],
    ),
];

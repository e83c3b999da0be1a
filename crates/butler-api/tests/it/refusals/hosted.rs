//! Mistakes in hosted control planes and in what Cluster API makes of them.

use super::Refusal;

pub(super) const REFUSALS: &[Refusal] = &[
    (
        "a control plane of nothing",
        "TenantControlPlane",
        "metadata: {name: demo}",
        &["spec", "Required value"],
    ),
    (
        "a control plane without a Service",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {}, kubernetes: {version: v1.35.2, kubelet: {}}}",
        &["spec.controlPlane.service", "Required value"],
    ),
    (
        "an unknown kind of Service",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ExternalName}}, kubernetes: {version: v1.35.2, kubelet: {}}}",
        &[
            "spec.controlPlane.service.serviceType",
            "Unsupported value",
            "NodePort",
        ],
    ),
    (
        "a version that is none",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: newest, kubelet: {}}}",
        &["spec.kubernetes.version", "should match"],
    ),
    (
        "less than no pods",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}, deployment: {replicas: -1}}, kubernetes: {version: v1.35.2, kubelet: {}}}",
        &[
            "spec.controlPlane.deployment.replicas",
            "greater than or equal to 0",
        ],
    ),
    (
        "a Service network that is none",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: v1.35.2, kubelet: {}}, networkProfile: {serviceCidr: 10.96.0.0/99}}",
        &["spec.networkProfile.serviceCidr", "must be a CIDR"],
    ),
    (
        "two networks of one family",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: v1.35.2, kubelet: {}}, networkProfile: {podCidr: '10.0.0.0/16,10.1.0.0/16'}}",
        &["spec.networkProfile.podCidr", "or one of each family"],
    ),
    (
        "a port that is none",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: v1.35.2, kubelet: {}}, networkProfile: {port: 0}}",
        &["spec.networkProfile.port", "greater than or equal to 1"],
    ),
    (
        "an address with a scheme",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: v1.35.2, kubelet: {}}, networkProfile: {address: 'https://api.example.com'}}",
        &["spec.networkProfile.address", "without scheme and port"],
    ),
    (
        "a DNS Service without an address",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: v1.35.2, kubelet: {}}, networkProfile: {dnsServiceIPs: [kube-dns]}}",
        &[
            "spec.networkProfile.dnsServiceIPs",
            "must be an IPv4 or IPv6 address",
        ],
    ),
    (
        "source ranges without a load balancer",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: v1.35.2, kubelet: {}}, networkProfile: {loadBalancerSourceRanges: [192.0.2.0/24]}}",
        &["loadBalancerSourceRanges needs controlPlane.service.serviceType LoadBalancer"],
    ),
    (
        "an unknown admission plugin",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: v1.35.2, kubelet: {}, admissionControllers: [Doorman]}}",
        &[
            "spec.kubernetes.admissionControllers[0]",
            "Unsupported value",
        ],
    ),
    (
        "a field that does not exist",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: v1.35.2, kubelet: {}}, networkProfile: {podCIDR: 10.244.0.0/16}}",
        &["unknown field", "spec.networkProfile.podCIDR"],
    ),
    (
        "agents counted on every node",
        "TenantControlPlane",
        "metadata: {name: demo}\nspec: {controlPlane: {service: {serviceType: ClusterIP}}, kubernetes: {version: v1.35.2, kubelet: {}}, addons: {konnectivity: {agent: {mode: DaemonSet, replicas: 2}}}}",
        &[
            "spec.addons.konnectivity.agent",
            "replicas must not be set in mode DaemonSet",
        ],
    ),
    (
        "an unknown database",
        "DataStore",
        "metadata: {name: sql}\nspec: {driver: SQLite, endpoints: [\"db:1\"]}",
        &["spec.driver", "Unsupported value", "etcd"],
    ),
    (
        "a database without a way in",
        "DataStore",
        "metadata: {name: sql}\nspec: {driver: PostgreSQL, endpoints: [\"db:5432\"]}",
        &["spec", "need tlsConfig or basicAuth"],
    ),
    (
        "a database that is nowhere",
        "DataStore",
        "metadata: {name: sql}\nspec: {driver: PostgreSQL, endpoints: [], basicAuth: {username: {content: YQ==}, password: {content: YQ==}}}",
        &["spec.endpoints", "at least 1 items"],
    ),
    (
        "a kubeconfig for nobody",
        "KubeconfigGenerator",
        "metadata: {name: admins}\nspec: {}",
        &["spec.user", "Required value"],
    ),
    (
        "a user in two spellings",
        "KubeconfigGenerator",
        "metadata: {name: admins}\nspec: {user: {stringValue: admin, fromDefinition: metadata.name}}",
        &["spec.user", "exactly one of stringValue and fromDefinition"],
    ),
    (
        "a kubeconfig that ends before it can be renewed",
        "KubeconfigGenerator",
        "metadata: {name: admins}\nspec: {user: {stringValue: admin}, expirationSeconds: 60}",
        &["spec.expirationSeconds", "from 600 (ten minutes)"],
    ),
    (
        "a kubeconfig for ever",
        "KubeconfigGenerator",
        "metadata: {name: admins}\nspec: {user: {stringValue: admin}, expirationSeconds: 315360000}",
        &["spec.expirationSeconds", "to 31536000 (a year)"],
    ),
    (
        "a control plane without a version",
        "StewardControlPlane",
        "metadata: {name: demo}\nspec: {replicas: 2}",
        &["spec.version", "Required value"],
    ),
    (
        "a control plane behind two doors",
        "StewardControlPlane",
        "metadata: {name: demo}\nspec: {version: v1.35.2, network: {ingress: {hostname: a.example.com}, gateway: {hostname: a.example.com}}}",
        &["spec.network", "ingress and gateway exclude each other"],
    ),
    (
        "a machine without memory",
        "ButlerMachine",
        "metadata: {name: w0}\nspec: {cpu: 4, disk: 50Gi, labels: {}}",
        &["spec.memory", "Required value"],
    ),
    (
        "a machine with memory of nothing",
        "ButlerMachine",
        "metadata: {name: w0}\nspec: {cpu: 4, memory: 0, disk: 50Gi, labels: {}}",
        &["spec.memory", "greater than zero"],
    ),
    (
        "a machine with memory that is no quantity",
        "ButlerMachine",
        "metadata: {name: w0}\nspec: {cpu: 4, memory: plenty, disk: 50Gi, labels: {}}",
        &["spec.memory", "should match"],
    ),
    (
        "a machine of too many processors",
        "ButlerMachine",
        "metadata: {name: w0}\nspec: {cpu: 512, memory: 8Gi, disk: 50Gi}",
        &["spec.cpu", "less than or equal to 128"],
    ),
    (
        "a disk of nothing",
        "ButlerMachine",
        "metadata: {name: w0}\nspec: {cpu: 4, memory: 8Gi, disk: 50Gi, extraDisks: [{size: 0Gi}]}",
        &["spec.extraDisks[0].size", "should match"],
    ),
    (
        "a field that does not exist",
        "ButlerMachine",
        "metadata: {name: w0}\nspec: {cpu: 4, memory: 8Gi, disk: 50Gi, diskSize: 50Gi}",
        &["unknown field", "spec.diskSize"],
    ),
    (
        "a template of nothing",
        "ButlerMachineTemplate",
        "metadata: {name: workers}\nspec: {}",
        &["spec.template", "Required value"],
    ),
    (
        "an endpoint without a port",
        "ButlerCluster",
        "metadata: {name: demo}\nspec: {controlPlaneEndpoint: {host: api.example.com}}",
        &["spec.controlPlaneEndpoint.port", "Required value"],
    ),
];

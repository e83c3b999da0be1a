//! Every string that other programs look for on our objects.
//!
//! Owns: API groups, labels, annotations, finalizers, field managers and well-known names, each spelled once.
//!
//! Must not: decide when a key is set. A value here is an external contract; changing one orphans what exists.

/// API groups and the versions we serve or read.
pub mod groups {
    /// Group of Butler's own kinds.
    pub const BUTLER: &str = "butler.butlerlabs.dev";
    /// Version of Butler's own kinds.
    pub const BUTLER_VERSION: &str = "v1alpha1";
    /// Group and version of Butler's own kinds, as `apiVersion` spells it.
    pub const BUTLER_API_VERSION: &str = "butler.butlerlabs.dev/v1alpha1";
    /// Group of Steward's kinds: `TenantControlPlane`, `DataStore`, `KubeconfigGenerator`.
    pub const STEWARD: &str = "steward.butlerlabs.dev";
    /// Version of Steward's kinds.
    pub const STEWARD_VERSION: &str = "v1alpha1";
    /// Group and version of Steward's kinds, as `apiVersion` spells it.
    pub const STEWARD_API_VERSION: &str = "steward.butlerlabs.dev/v1alpha1";
    /// Group of Cluster API's core kinds.
    pub const CLUSTER_API: &str = "cluster.x-k8s.io";
    /// Version of Cluster API's core kinds that we read.
    pub const CLUSTER_API_VERSION: &str = "v1beta2";
    /// Group of Cluster API control planes, ours (`StewardControlPlane`) among them.
    pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
    /// Version of our control plane kinds.
    pub const CONTROL_PLANE_VERSION: &str = "v1alpha1";
    /// Group and version of our control plane kinds, as `apiVersion` spells it.
    pub const CONTROL_PLANE_API_VERSION: &str = "controlplane.cluster.x-k8s.io/v1alpha1";
    /// Group of Cluster API infrastructure, ours (`ButlerCluster`, `ButlerMachine`) among them.
    pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
    /// Version of our infrastructure kinds.
    pub const INFRASTRUCTURE_VERSION: &str = "v1alpha1";
    /// Group and version of our infrastructure kinds, as `apiVersion` spells it.
    pub const INFRASTRUCTURE_API_VERSION: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";
    /// Version of Cluster API's own control plane kind, `KubeadmControlPlane`.
    pub const KUBEADM_CONTROL_PLANE_VERSION: &str = "v1beta2";
    /// Group of Cluster API bootstrap providers.
    pub const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
    /// Version of Cluster API's own bootstrap kinds, `KubeadmConfigTemplate` among them.
    pub const BOOTSTRAP_VERSION: &str = "v1beta2";
}

/// Label keys.
pub mod labels {
    /// Which tool made the object; ours carry [`super::values::MANAGED_BY_BUTLER`].
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Which product the object belongs to; ours carry [`super::values::PART_OF_BUTLER`].
    pub const PART_OF: &str = "app.kubernetes.io/part-of";

    /// UID of the object for whose sake this one exists. The engine prunes by it, and by nothing weaker.
    pub const OWNER_UID: &str = "butler.butlerlabs.dev/owner-uid";
    /// Kind of the object named by [`OWNER_UID`].
    pub const OWNER_KIND: &str = "butler.butlerlabs.dev/owner-kind";

    /// Name of the Team the object belongs to. On an `IPAllocation`: namespace of the tenant cluster.
    pub const TEAM: &str = "butler.butlerlabs.dev/team";
    /// Name of the `TenantCluster` the object belongs to.
    pub const TENANT: &str = "butler.butlerlabs.dev/tenant";
    /// Namespace of the `TenantCluster` the object was made from.
    pub const SOURCE_NAMESPACE: &str = "butler.butlerlabs.dev/source-namespace";
    /// Name of the `TenantCluster` the object was made from.
    pub const SOURCE_NAME: &str = "butler.butlerlabs.dev/source-name";
    /// Name of the `NetworkPool` an allocation comes from.
    pub const NETWORK_POOL: &str = "butler.butlerlabs.dev/network-pool";
    /// Name of the `ProviderConfig` in use.
    pub const PROVIDER_CONFIG: &str = "butler.butlerlabs.dev/provider-config";
    /// Owner of a workspace.
    pub const WORKSPACE_OWNER: &str = "butler.butlerlabs.dev/workspace-owner";
    /// Name of the Workspace the object belongs to.
    pub const WORKSPACE: &str = "butler.butlerlabs.dev/workspace";
    /// What allocated addresses are for: see [`super::values::ALLOCATION_TYPE_LOAD_BALANCER`].
    pub const ALLOCATION_TYPE: &str = "butler.butlerlabs.dev/allocation-type";
    /// Whether an allocation is the first one or growth: see [`super::values::ALLOCATION_ROLE_INITIAL`].
    pub const ALLOCATION_ROLE: &str = "butler.butlerlabs.dev/allocation-role";
    /// Image factory schematic of an image, cut to the length of a label value.
    pub const SCHEMATIC_ID: &str = "butler.butlerlabs.dev/schematic-id";
    /// Operating system version of an image.
    pub const IMAGE_VERSION: &str = "butler.butlerlabs.dev/image-version";
    /// Processor architecture of an image.
    pub const IMAGE_ARCHITECTURE: &str = "butler.butlerlabs.dev/image-arch";
    /// Environment of the team that a tenant cluster is counted in.
    pub const ENVIRONMENT: &str = "butler.butlerlabs.dev/environment";
    /// Marks a tenant's Service of type `LoadBalancer` as one that the platform itself needs.
    pub const PLATFORM_LOAD_BALANCER: &str = "butler.butlerlabs.dev/platform-lb";
    /// Name of the cluster an addon is installed in.
    pub const CLUSTER: &str = "butler.butlerlabs.dev/cluster";
    /// Name of the `AddonDefinition` an addon was made from.
    pub const ADDON_DEFINITION: &str = "butler.butlerlabs.dev/addon-definition";
    /// Marks a `TenantAddon` that observability enrolment made.
    pub const AUTO_ENROLLED: &str = "butler.butlerlabs.dev/auto-enrolled";
    /// Name of the pool of a tenant cluster that the object belongs to.
    pub const NODE_POOL: &str = "butler.butlerlabs.dev/node-pool";
    /// What a machine is for in its cluster, as [`crate::butler::machine_request::MachineRole`] spells it.
    pub const ROLE: &str = "butler.butlerlabs.dev/role";
    /// What a Secret holds: see [`super::values::SECRET_TYPE_KUBECONFIG`].
    pub const SECRET_TYPE: &str = "butler.butlerlabs.dev/secret-type";

    /// On everything made for a hosted control plane: see [`super::values::STEWARD_PROJECT`].
    pub const STEWARD_PROJECT: &str = "steward.butlerlabs.dev/project";
    /// Name of the `TenantControlPlane`.
    pub const STEWARD_NAME: &str = "steward.butlerlabs.dev/name";
    /// Which part of a hosted control plane the object is (`deployment`, `ca`, `admin-kubeconfig` …).
    pub const STEWARD_COMPONENT: &str = "steward.butlerlabs.dev/component";
    /// Which Secret of Cluster API's contract this is (`kubeconfig`, `ca`).
    pub const STEWARD_SECRET: &str = "steward.butlerlabs.dev/secret";
    /// Name of the Cluster API Cluster a Secret was made for.
    pub const STEWARD_CLUSTER: &str = "steward.butlerlabs.dev/cluster";
    /// Name of the `TenantControlPlane` a Secret was copied from.
    pub const STEWARD_TENANT_CONTROL_PLANE: &str = "steward.butlerlabs.dev/tcp";
    /// On a generated kubeconfig: name of its `KubeconfigGenerator`.
    pub const STEWARD_MANAGED_BY: &str = "steward.butlerlabs.dev/managed-by";
    /// On a generated kubeconfig: name of its `TenantControlPlane`.
    pub const STEWARD_MANAGED_FOR: &str = "steward.butlerlabs.dev/managed-for";
    /// Marks Secrets whose expiry is watched: see [`super::values::LIFECYCLE_X509`].
    pub const STEWARD_CERTIFICATE_LIFECYCLE: &str =
        "steward.butlerlabs.dev/certificate_lifecycle_controller";
    /// Name of the `TenantControlPlane` a migration Job works for.
    pub const STEWARD_JOB_NAME: &str = "tcp.steward.butlerlabs.dev/name";
    /// Namespace of the `TenantControlPlane` a migration Job works for.
    pub const STEWARD_JOB_NAMESPACE: &str = "tcp.steward.butlerlabs.dev/namespace";
    /// Prefix of the pod labels that carry the checksum of a Secret, so that a new Secret rolls the pods.
    pub const STEWARD_COMPONENT_CHECKSUM_PREFIX: &str = "component.steward.butlerlabs.dev/";
    /// Pod label that names the `DataStore` in use.
    pub const STEWARD_DATA_STORE: &str = "component.steward.butlerlabs.dev/datastore";
    /// The label older hosted control planes (Kamaji) put where we put [`STEWARD_COMPONENT`].
    pub const KAMAJI_COMPONENT: &str = "kamaji.clastix.io/component";

    /// Name of the Cluster API Cluster the object belongs to.
    pub const CLUSTER_API_CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
    /// On a Machine that is a control plane node.
    pub const CLUSTER_API_CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    /// Name of the `MachineSet` a Machine belongs to.
    pub const CLUSTER_API_MACHINE_SET: &str = "cluster.x-k8s.io/set-name";
    /// Name of the `MachineDeployment` a Machine or `MachineSet` belongs to.
    pub const CLUSTER_API_MACHINE_DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
    /// Restricts which controller instance looks at an object.
    pub const CLUSTER_API_WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
    /// Which Cluster API provider a CRD belongs to.
    pub const CLUSTER_API_PROVIDER: &str = "cluster.x-k8s.io/provider";
    /// On a CRD: the versions that follow Cluster API's contract v1beta2.
    pub const CLUSTER_API_CONTRACT_V1BETA2: &str = "cluster.x-k8s.io/v1beta2";
    /// On a CRD: the versions that follow Cluster API's older contract v1beta1.
    pub const CLUSTER_API_CONTRACT_V1BETA1: &str = "cluster.x-k8s.io/v1beta1";

    /// What the namespace refuses to run.
    pub const POD_SECURITY_ENFORCE: &str = "pod-security.kubernetes.io/enforce";
    /// What the namespace writes to the audit log.
    pub const POD_SECURITY_AUDIT: &str = "pod-security.kubernetes.io/audit";
    /// What the namespace warns about.
    pub const POD_SECURITY_WARN: &str = "pod-security.kubernetes.io/warn";
    /// The zone something runs in, or shall run in.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// On a Node: no load balancer sends packets there.
    pub const EXCLUDE_FROM_LOAD_BALANCERS: &str =
        "node.kubernetes.io/exclude-from-external-load-balancers";
    /// On an `EndpointSlice`: the Service whose endpoints it lists.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// The label every namespace carries with its own name.
    pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
}

/// Values of labels and annotations that have a fixed set.
pub mod values {
    /// Value of [`super::labels::MANAGED_BY`] on what we make.
    pub const MANAGED_BY_BUTLER: &str = "butler";
    /// Value of [`super::labels::PART_OF`] on what we make.
    pub const PART_OF_BUTLER: &str = "butler";
    /// A flag that is set.
    pub const TRUE: &str = "true";
    /// Addresses for Services of type `LoadBalancer`.
    pub const ALLOCATION_TYPE_LOAD_BALANCER: &str = "loadbalancer";
    /// Addresses for machines.
    pub const ALLOCATION_TYPE_NODES: &str = "nodes";
    /// The allocation a cluster starts with; never given back while the cluster lives.
    pub const ALLOCATION_ROLE_INITIAL: &str = "initial";
    /// An allocation added by demand, given back when unused.
    pub const ALLOCATION_ROLE_GROWTH: &str = "growth";
    /// Value of [`super::labels::SECRET_TYPE`] on a kubeconfig.
    pub const SECRET_TYPE_KUBECONFIG: &str = "kubeconfig";
    /// Value of [`super::labels::STEWARD_PROJECT`]; without it Steward deletes nothing in a tenant.
    pub const STEWARD_PROJECT: &str = "steward";
    /// Value of [`super::labels::STEWARD_COMPONENT`] on Secrets made for Cluster API.
    pub const STEWARD_COMPONENT_CLUSTER_API: &str = "capi";
    /// Value of [`super::labels::STEWARD_COMPONENT`] on the administrator's kubeconfig.
    pub const STEWARD_COMPONENT_ADMIN_KUBECONFIG: &str = "admin-kubeconfig";
    /// Value of [`super::labels::STEWARD_COMPONENT`] on the Deployment and its pods.
    pub const STEWARD_COMPONENT_DEPLOYMENT: &str = "deployment";
    /// Value of [`super::labels::STEWARD_COMPONENT`] on a datastore migration Job.
    pub const STEWARD_COMPONENT_MIGRATE: &str = "migrate";
    /// Value of [`super::labels::STEWARD_CERTIFICATE_LIFECYCLE`]: the Secret holds a certificate.
    pub const LIFECYCLE_X509: &str = "x509";
    /// Value of [`super::labels::STEWARD_CERTIFICATE_LIFECYCLE`]: the Secret holds kubeconfigs.
    pub const LIFECYCLE_KUBECONFIG: &str = "kubeconfig";
    /// Value of [`super::labels::CLUSTER_API_PROVIDER`] on our infrastructure kinds.
    pub const PROVIDER_INFRASTRUCTURE: &str = "infrastructure-butler";
    /// Value of [`super::labels::CLUSTER_API_PROVIDER`] on our control plane kinds.
    pub const PROVIDER_CONTROL_PLANE: &str = "control-plane-steward";
    /// Class of the Services of type `LoadBalancer` whose addresses local machines serve.
    pub const LOAD_BALANCER_CLASS_LOCAL: &str = "butler.butlerlabs.dev/local";
    /// The annotation for pods' networks: the provider gives none.
    pub const POD_NETWORK_NONE: &str = "none";
    /// Pod security level without restrictions.
    pub const POD_SECURITY_PRIVILEGED: &str = "privileged";
    /// Type of the Secrets that Cluster API reads.
    pub const SECRET_KIND_CLUSTER_API: &str = "cluster.x-k8s.io/secret";
}

/// Annotation keys.
pub mod annotations {
    /// `"true"`: the engine leaves the object alone until the annotation is gone. On a Cluster: Butler paused it with its
    /// `TenantCluster`.
    pub const PAUSED: &str = "butler.butlerlabs.dev/paused";
    /// `"true"` on a `TenantCluster`: it cannot be deleted until the annotation is gone.
    pub const DELETION_PROTECTION: &str = "butler.butlerlabs.dev/deletion-protection";
    /// On a copy of a Secret: what it was copied from, and which version of that.
    pub const COPY_OF: &str = "butler.butlerlabs.dev/copy-of";
    /// On a copy of a Secret: checksum of what was written.
    pub const CONTENT_CHECKSUM: &str = "butler.butlerlabs.dev/checksum";
    /// A sentence for people.
    pub const DESCRIPTION: &str = "butler.butlerlabs.dev/description";
    /// Which component or person made the object.
    pub const CREATED_BY: &str = "butler.butlerlabs.dev/created-by";
    /// E-mail of the person who asked for the object.
    pub const CREATOR_EMAIL: &str = "butler.butlerlabs.dev/creator-email";
    /// E-mail of the person the object is counted for.
    pub const OWNER: &str = "butler.butlerlabs.dev/owner";
    /// `"true"`: a change of environment is part of a migration and is let through.
    pub const MIGRATION_OPERATION: &str = "butler.butlerlabs.dev/migration-operation";
    /// `"true"`: the owner wants to connect to the workspace.
    pub const CONNECT: &str = "butler.butlerlabs.dev/connect";
    /// When the owner connected, RFC 3339.
    pub const CONNECT_TIME: &str = "butler.butlerlabs.dev/connect-time";
    /// `"true"` on a Cluster API Machine that has its Talos configuration.
    pub const TALOS_CONFIG_APPLIED: &str = "butler.butlerlabs.dev/talos-config-applied";
    /// On a `MachineRequest`: the id of a machine that is there already and becomes this request's, instead of a new one.
    pub const ADOPT_MACHINE_ID: &str = "butler.butlerlabs.dev/adopt-machine-id";
    /// On a Service of type `LoadBalancer`: the address it asks for.
    pub const LOAD_BALANCER_ADDRESS: &str = "butler.butlerlabs.dev/load-balancer-address";
    /// On a Service of type `LoadBalancer` in a tenant cluster: the address of the cluster's ranges that it was given.
    pub const LOAD_BALANCER_ASSIGNED: &str = "butler.butlerlabs.dev/load-balancer-assigned";
    /// On an `IPAllocation` in use: which component uses addresses of it, and so holds its mark.
    pub const ADDRESSES_USED_BY: &str = "butler.butlerlabs.dev/addresses-used-by";
    /// On an `IPAllocation` that was in use: since when it is not any more, RFC 3339.
    pub const ADDRESSES_UNUSED_SINCE: &str = "butler.butlerlabs.dev/addresses-unused-since";
    /// On a `ButlerCluster`: how many Services wait because no address of the cluster's ranges is left. Absent: none.
    pub const WAITING_LOAD_BALANCERS: &str = "butler.butlerlabs.dev/waiting-load-balancers";
    /// On a `ButlerCluster`: since when the one waits that has waited longest, RFC 3339.
    pub const WAITING_LOAD_BALANCERS_SINCE: &str =
        "butler.butlerlabs.dev/waiting-load-balancers-since";
    /// On a `ButlerCluster`: `none` if the tenant brings a network for its pods, so that machines are told nothing about pods.
    /// Absent: the provider gives them one where it can.
    pub const POD_NETWORK: &str = "butler.butlerlabs.dev/pod-network";
    /// On a Cluster: the infrastructure that it was made on, as `spec.provider` of its `ProviderConfig` spells it.
    pub const PROVIDER: &str = "butler.butlerlabs.dev/provider";
    /// On a Cluster: how its hosted control plane is reached, as `spec.controlPlaneExposure` of `ButlerConfig` said it when the
    /// cluster was made, in JSON.
    pub const CONTROL_PLANE_EXPOSURE: &str = "butler.butlerlabs.dev/control-plane-exposure";
    /// On a `ProviderConfig`: the versions of Kubernetes that its machines can have, separated by commas. Absent: nobody knows.
    pub const KUBERNETES_VERSIONS: &str = "butler.butlerlabs.dev/kubernetes-versions";
    /// Names the network a `NetworkPool` belongs to. Pools of different networks may use the same addresses.
    pub const NETWORK: &str = "butler.butlerlabs.dev/network";

    /// Checksum of a Secret's values.
    pub const STEWARD_CHECKSUM: &str = "steward.butlerlabs.dev/checksum";
    /// On a Secret made for Cluster API: what it was copied from, and the checksum that had.
    pub const STEWARD_COPY_OF: &str = "steward.butlerlabs.dev/copy-of";
    /// Empty: rotate now. Afterwards: time of the last rotation, RFC 3339.
    pub const STEWARD_ROTATE: &str = "certs.steward.butlerlabs.dev/rotate";
    /// On the Secret of an authority that took another's place: since when it signs, RFC 3339.
    pub const STEWARD_SIGNING_SINCE: &str = "certs.steward.butlerlabs.dev/signing-since";
    /// On a generated kubeconfig: until when it can be used, RFC 3339.
    pub const STEWARD_EXPIRATION: &str = "steward.butlerlabs.dev/expiration";
    /// Present, whatever its value: Steward leaves the object alone.
    pub const STEWARD_PAUSED: &str = "steward.butlerlabs.dev/paused";
    /// Which key of the administrator's kubeconfig Secret to use.
    pub const STEWARD_KUBECONFIG_SECRET_KEY: &str = "steward.butlerlabs.dev/kubeconfig-secret-key";
    /// Boolean: clean the target store before a migration.
    pub const STEWARD_CLEANUP_PRIOR_MIGRATION: &str =
        "steward.butlerlabs.dev/cleanup-prior-migration";
    /// How long a migration may take, as a duration such as `5m`.
    pub const STEWARD_MIGRATION_TIMEOUT: &str = "steward.butlerlabs.dev/migration-timeout";
    /// On the Deployment: how many extra arguments the user gave to kube-apiserver.
    pub const STEWARD_API_SERVER_ARGUMENTS: &str = "kube-apiserver.steward.butlerlabs.dev/args";
    /// On the Secret with the datastore settings: fingerprint of what was set up in the store with them.
    pub const STEWARD_STORE_SETUP: &str = "storage.steward.butlerlabs.dev/setup";
    /// On the pods: checksum of the datastore settings.
    pub const STEWARD_STORAGE_CONFIG: &str = "storage.steward.butlerlabs.dev/config";

    /// Present: Cluster API and its providers leave the object alone.
    pub const CLUSTER_API_PAUSED: &str = "cluster.x-k8s.io/paused";
    /// Present: something else manages this infrastructure.
    pub const CLUSTER_API_MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// Which preflight checks a `MachineSet` skips.
    pub const CLUSTER_API_SKIP_PREFLIGHT_CHECKS: &str =
        "machineset.cluster.x-k8s.io/skip-preflight-checks";
}

/// Finalizers: while one is present the object's own teardown is not finished.
pub mod finalizers {
    /// On a Team: its namespace and bindings still exist.
    pub const TEAM: &str = "butler.butlerlabs.dev/team";
    /// On a User.
    pub const USER: &str = "butler.butlerlabs.dev/user";
    /// On a `TenantCluster`: its infrastructure still exists.
    pub const TENANT_CLUSTER: &str = "butler.butlerlabs.dev/tenantcluster";
    /// On a `TenantAddon`: its release still exists in the tenant.
    pub const TENANT_ADDON: &str = "butler.butlerlabs.dev/tenantaddon";
    /// On a `ManagementAddon`: its release still exists.
    pub const MANAGEMENT_ADDON: &str = "managementaddon.butler.butlerlabs.dev/finalizer";
    /// On a `NetworkPool`: addresses of it are in use.
    pub const NETWORK_POOL: &str = "butler.butlerlabs.dev/networkpool";
    /// On an `IPAllocation`: its addresses may still be announced.
    pub const IP_ALLOCATION: &str = "butler.butlerlabs.dev/ipallocation";
    /// On an `IPAllocation`, held by whoever uses its addresses: they are not given to anybody else before it is gone.
    pub const ADDRESSES_IN_USE: &str = "butler.butlerlabs.dev/addresses-in-use";
    /// On a `ProviderConfig`: clusters still use it.
    pub const PROVIDER_CONFIG: &str = "butler.butlerlabs.dev/providerconfig";
    /// On a Workspace: its objects in the tenant still exist.
    pub const WORKSPACE: &str = "butler.butlerlabs.dev/workspace";
    /// On an `ImageSync`: its image may still be on the provider.
    pub const IMAGE_SYNC: &str = "butler.butlerlabs.dev/imagesync";
    /// On a `LoadBalancerRequest`: the load balancer still exists.
    pub const LOAD_BALANCER_REQUEST: &str = "butler.butlerlabs.dev/loadbalancerrequest";
    /// On a `MachineRequest`: the machine still exists.
    pub const MACHINE_REQUEST: &str = "butler.butlerlabs.dev/machinerequest";
    /// On a `ClusterBootstrap`: what it made still exists.
    pub const CLUSTER_BOOTSTRAP: &str = "butler.butlerlabs.dev/clusterbootstrap";
    /// On a `ButlerCluster`.
    pub const BUTLER_CLUSTER: &str = "butlercluster.infrastructure.cluster.x-k8s.io";
    /// On a `ButlerMachine`: its `MachineRequest` still exists.
    pub const BUTLER_MACHINE: &str = "butlermachine.infrastructure.cluster.x-k8s.io";

    /// On a Service: a load balancer may still have its address. Kubernetes' own name, which other tools know.
    pub const SERVICE_LOAD_BALANCER: &str = "service.kubernetes.io/load-balancer-cleanup";

    /// On a `TenantControlPlane`: its data is still in the store.
    pub const TENANT_CONTROL_PLANE: &str = "finalizer.steward.butlerlabs.dev";
    /// On a `TenantControlPlane` made by older releases: controllers for its tenant side run.
    pub const TENANT_CONTROL_PLANE_SOOT: &str = "finalizer.steward.butlerlabs.dev/soot";
    /// On a Secret with datastore credentials: a control plane still needs it.
    pub const DATA_STORE_SECRET: &str = "finalizer.steward.butlerlabs.dev/datastore-secret";
    /// On a `DataStore`: control planes still keep their state in it.
    pub const DATA_STORE: &str = "finalizer.steward.butlerlabs.dev/datastore";
    /// On a `KubeconfigGenerator`: kubeconfigs that it made still exist.
    pub const KUBECONFIG_GENERATOR: &str = "finalizer.steward.butlerlabs.dev/kubeconfiggenerator";
    /// On a `StewardControlPlane`: its `TenantControlPlane` still exists, here or in another cluster.
    pub const STEWARD_CONTROL_PLANE: &str = "ecr.steward.butlerlabs.dev/finalizer";
}

/// Field managers: who wrote a field, as server-side apply records it.
pub mod field_managers {
    /// Butler's controllers, for all they have no closer name for.
    pub const CONTROLLER: &str = "butler-controller";
    /// Addresses found in use on the management cluster, in a `NetworkPool`'s status.
    pub const INFRA_ALLOCATION: &str = "butler-controller/infra-allocation";
    /// Team membership in a User's status.
    pub const USER_TEAMS: &str = "butler-controller/user-teams";
    /// Address pools of load balancers inside tenant clusters.
    pub const IPAM: &str = "butler-controller/ipam";
    /// The groups a User had at the last login.
    pub const USER_AUTHENTICATION: &str = "butler-server/user-auth";
    /// Steward.
    pub const STEWARD: &str = "steward";
    /// Bootstrap of management clusters.
    pub const BOOTSTRAP: &str = "butler-bootstrap";
    /// Prefix of the providers' field managers: `butler-provider-local` and so on.
    pub const PROVIDER_PREFIX: &str = "butler-provider-";
    /// REST server.
    pub const SERVER: &str = "butler-server";
}

/// Names of objects that exist once, or that everything agrees on.
pub mod names {
    /// Name of the one `ButlerConfig`.
    pub const BUTLER_CONFIG: &str = "butler";
    /// Namespace of Butler's own components, provider configurations and pools.
    pub const SYSTEM_NAMESPACE: &str = "butler-system";
    /// Namespace of Steward's own components.
    pub const STEWARD_NAMESPACE: &str = "steward-system";
    /// Namespace of tenant clusters that belong to no team, unless `ButlerConfig` says otherwise.
    pub const DEFAULT_TENANT_NAMESPACE: &str = "butler-tenants";
    /// Lease the controller's replicas compete for.
    pub const CONTROLLER_LEASE: &str = "butler-controller.butlerlabs.dev";
    /// Lease the replicas of Steward compete for.
    pub const STEWARD_LEASE: &str = "steward.butlerlabs.dev";
    /// Lease the replicas of the local provider compete for.
    pub const LOCAL_PROVIDER_LEASE: &str = "butler-provider-local.butlerlabs.dev";
    /// `ClusterRole` of those who may read the metrics of components.
    pub const METRICS_READER: &str = "butler-metrics-reader";
    /// `ProviderConfig` used when neither the cluster nor `ButlerConfig` names one.
    pub const DEFAULT_PROVIDER_CONFIG: &str = "default";
    /// `DataStore` used when a control plane names none.
    pub const DEFAULT_DATA_STORE: &str = "default";
    /// Bridge of the local provider, unless its configuration says otherwise.
    pub const DEFAULT_LOCAL_BRIDGE: &str = "br-butler";
    /// Suffix of the Secret with the administrator's kubeconfigs that Steward makes.
    pub const ADMIN_KUBECONFIG_SUFFIX: &str = "-admin-kubeconfig";
    /// Suffix of the Secret with the kubeconfig that Cluster API reads.
    pub const KUBECONFIG_SUFFIX: &str = "-kubeconfig";
    /// Suffix of the Secret with the cluster's certificate authority that Cluster API reads.
    pub const CERTIFICATE_AUTHORITY_SUFFIX: &str = "-ca";
    /// Suffix of the Secret with Talos bootstrap data.
    pub const TALOS_BOOTSTRAP_SUFFIX: &str = "-talos-bootstrap";
    /// Suffix of the Secret with the talosconfig.
    pub const TALOS_CONFIG_SUFFIX: &str = "-talosconfig";
    /// Suffix of the Secret with the Nutanix credentials of one tenant.
    pub const NUTANIX_CREDENTIALS_SUFFIX: &str = "-nutanix-creds";
    /// Suffix of the Secret with user data that is written for one machine.
    pub const USER_DATA_SUFFIX: &str = "-user-data";
    /// Suffix of the `MachineDeployment` with a tenant's workers.
    pub const WORKERS_SUFFIX: &str = "-workers";
}

/// Keys within the data of Secrets.
pub mod secret_keys {
    /// Kubeconfig or bootstrap data in a Secret of Cluster API's contract.
    pub const VALUE: &str = "value";
    /// Format of bootstrap data in such a Secret: `cloud-config` or `ignition`.
    pub const FORMAT: &str = "format";
    /// Administrator's kubeconfig through the control plane's public endpoint.
    pub const ADMIN_CONF: &str = "admin.conf";
    /// Administrator's kubeconfig through the control plane's Service.
    pub const ADMIN_SVC: &str = "admin.svc";
    /// Kubeconfig that no role binding of the tenant can take rights from.
    pub const SUPER_ADMIN_CONF: &str = "super-admin.conf";
    /// The same through the control plane's Service.
    pub const SUPER_ADMIN_SVC: &str = "super-admin.svc";
    /// Kubeconfig of a provider, for example Harvester's.
    pub const KUBECONFIG: &str = "kubeconfig";
    /// Certificate.
    pub const TLS_CERTIFICATE: &str = "tls.crt";
    /// Private key.
    pub const TLS_KEY: &str = "tls.key";
    /// User name.
    pub const USERNAME: &str = "username";
    /// Password.
    pub const PASSWORD: &str = "password";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_group_and_version() {
        for (group, version, both) in [
            (
                groups::BUTLER,
                groups::BUTLER_VERSION,
                groups::BUTLER_API_VERSION,
            ),
            (
                groups::STEWARD,
                groups::STEWARD_VERSION,
                groups::STEWARD_API_VERSION,
            ),
            (
                groups::CONTROL_PLANE,
                groups::CONTROL_PLANE_VERSION,
                groups::CONTROL_PLANE_API_VERSION,
            ),
            (
                groups::INFRASTRUCTURE,
                groups::INFRASTRUCTURE_VERSION,
                groups::INFRASTRUCTURE_API_VERSION,
            ),
        ] {
            assert_eq!(format!("{group}/{version}"), both);
        }
    }

    #[test]
    fn the_well_known_names_parse_as_names() {
        for name in [
            names::BUTLER_CONFIG,
            names::SYSTEM_NAMESPACE,
            names::STEWARD_NAMESPACE,
            names::DEFAULT_TENANT_NAMESPACE,
            names::CONTROLLER_LEASE,
        ] {
            assert!(name.parse::<crate::name::ObjectName>().is_ok(), "{name}");
        }
    }
}

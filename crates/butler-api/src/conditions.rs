//! Condition types and reasons: the words in which every controller reports.
//!
//! Owns: the constants. A condition has one type everywhere; a reason means the same under every type.
//!
//! Must not: build or merge conditions; that needs the time and is the engine's work.

/// Condition types. Unless said otherwise, `True` is the good state.
pub mod types {
    /// Owned by the engine: the last pass did all it set out to do (`True`/`Succeeded`), or why it did not.
    pub const RECONCILED: &str = "Reconciled";
    /// Owned by the engine: the object is left alone because somebody paused it. `True` means paused.
    pub const PAUSED: &str = "Paused";
    /// The object does what it is for. The summary of the others.
    pub const READY: &str = "Ready";
    /// Cluster API's word for an object that serves right now.
    pub const AVAILABLE: &str = "Available";

    /// `ButlerConfig`: the settings are valid and in force.
    pub const CONFIGURED: &str = "Configured";
    /// Whether every feature that the object sets up exists in this version.
    pub const FEATURES_AVAILABLE: &str = "FeaturesAvailable";
    /// A namespace we keep exists and is ours.
    pub const NAMESPACE_READY: &str = "NamespaceReady";
    /// Role bindings match who should have access.
    pub const RBAC_READY: &str = "RBACReady";
    /// Team: a limit is used up. `True` is the bad state.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";

    /// `TenantCluster`: networks and load balancers of the cluster exist.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// `TenantCluster`: the API server answers.
    pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";
    /// `TenantCluster`: as many nodes are ready as were asked for.
    pub const WORKERS_READY: &str = "WorkersReady";
    /// `TenantCluster`: the addons of the spec are installed and healthy.
    pub const ADDONS_READY: &str = "AddonsReady";
    /// `TenantCluster`: the addresses it needs are allocated.
    pub const NETWORK_READY: &str = "NetworkReady";
    /// `TenantCluster`: what [`READY`] says, for tools that were written to older documents.
    pub const RUNNING: &str = "Running";
    /// `TenantCluster`: its team may use its provider.
    pub const PROVIDER_ACCESS_GRANTED: &str = "ProviderAccessGranted";
    /// `TenantCluster`: it fits the limits of team, environment and provider.
    pub const QUOTA_SATISFIED: &str = "QuotaSatisfied";
    /// The machine image is on the provider.
    pub const IMAGE_READY: &str = "ImageReady";
    /// Nutanix: the provider's certificate can be verified.
    pub const NUTANIX_CREDENTIALS_TRUST_BUNDLE: &str = "NutanixCredentialsTrustBundle";

    /// `ProviderConfig`: the credentials exist and have the keys the provider needs.
    pub const CREDENTIALS_VALID: &str = "CredentialsValid";
    /// `ProviderConfig`: its pools have free addresses.
    pub const POOL_AVAILABLE: &str = "PoolAvailable";
    /// `NetworkPool`: 70 % or more in use. `True` is the bad state.
    pub const CAPACITY_WARNING: &str = "CapacityWarning";
    /// `NetworkPool`: 85 % or more in use. `True` is the bad state.
    pub const CAPACITY_CRITICAL: &str = "CapacityCritical";
    /// `NetworkPool`: 95 % or more in use. `True` is the bad state.
    pub const CAPACITY_EXHAUSTED: &str = "CapacityExhausted";
    /// `NetworkPool`: no other pool gives out the same addresses.
    pub const DISJOINT: &str = "Disjoint";
    /// `IPAllocation`: the object that the addresses are for exists.
    pub const OWNER_PRESENT: &str = "OwnerPresent";

    /// Service of type `LoadBalancer`: a machine serves its address.
    pub const LOAD_BALANCER_READY: &str = "LoadBalancerReady";

    /// Workspace: its volume exists.
    pub const PVC_READY: &str = "PVCReady";
    /// Workspace: its pod runs.
    pub const POD_READY: &str = "PodReady";
    /// Workspace: it can be reached by SSH.
    pub const SSH_READY: &str = "SSHReady";
    /// Workspace: the repositories are checked out.
    pub const REPOSITORY_CLONED: &str = "RepositoryCloned";
    /// Workspace: the owner's dotfiles are in place.
    pub const DOTFILES_INSTALLED: &str = "DotfilesInstalled";

    /// `StewardControlPlane`: the other cluster that shall hold the control plane can be reached.
    pub const FOUND_EXTERNAL_REFERENCE_CLIENT: &str = "FoundExternalReferenceClient";
    /// `StewardControlPlane`: its `TenantControlPlane` exists as specified.
    pub const TENANT_CONTROL_PLANE_CREATED: &str = "TenantControlPlaneCreated";
    /// `StewardControlPlane`: the control plane has an address.
    pub const TENANT_CONTROL_PLANE_ADDRESS_READY: &str = "TenantControlPlaneAddressReady";
    /// `StewardControlPlane`: its own endpoint is filled in.
    pub const CONTROL_PLANE_ENDPOINT_PATCHED: &str = "ControlPlaneEndpointPatched";
    /// `StewardControlPlane`: the infrastructure cluster knows the endpoint.
    pub const INFRASTRUCTURE_CLUSTER_PATCHED: &str = "InfrastructureClusterPatched";
    /// `StewardControlPlane`: the control plane was ready once.
    pub const STEWARD_CONTROL_PLANE_IS_INITIALIZED: &str = "StewardControlPlaneIsInitialized";
    /// `StewardControlPlane`: the control plane is ready.
    pub const STEWARD_CONTROL_PLANE_IS_READY: &str = "StewardControlPlaneIsReady";
    /// `StewardControlPlane`: the Secrets that Cluster API and kubeadm read exist.
    pub const KUBEADM_RESOURCES_CREATED: &str = "KubeadmResourcesCreated";

    /// `TenantControlPlane`: every certificate is valid and not near its end.
    pub const CERTIFICATES_READY: &str = "CertificatesReady";
    /// `TenantControlPlane`: its part of the datastore exists and can be used.
    pub const DATA_STORE_READY: &str = "DataStoreReady";
    /// `TenantControlPlane`: its state is in the data store that its spec names. Absent where nothing is to be moved.
    pub const DATA_STORE_MIGRATED: &str = "DataStoreMigrated";
    /// `TenantControlPlane`: it has an address clients can use.
    pub const ENDPOINT_READY: &str = "EndpointReady";
    /// `TenantControlPlane`: what kubeadm would put into the tenant is there.
    pub const TENANT_CONFIGURED: &str = "TenantConfigured";
    /// `DataStore`: it answers and its credentials work.
    pub const DATA_STORE_VALIDATED: &str = "DataStoreValidated";

    /// Cluster API: replicas of an old version are being replaced. `True` means work is going on.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// Cluster API: replicas are being added. `True` means work is going on.
    pub const SCALING_UP: &str = "ScalingUp";
    /// Cluster API: replicas are being removed. `True` means work is going on.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// Cluster API: the object is being deleted. `True` means work is going on.
    pub const DELETING: &str = "Deleting";
    /// `ButlerMachine` and `MachineRequest`: the machine exists and has an address.
    pub const MACHINE_PROVISIONED: &str = "MachineProvisioned";
    /// `MachineRequest` and `LoadBalancerRequest`: the provider is at work on it. `True` means work is going on.
    pub const PROGRESSING: &str = "Progressing";
    /// `MachineRequest` and `LoadBalancerRequest`: its address is allocated in a `NetworkPool`.
    pub const ADDRESS_ALLOCATED: &str = "AddressAllocated";
    /// `ButlerMachine`: the user data to boot with is there.
    pub const BOOTSTRAP_DATA_READY: &str = "BootstrapDataReady";
}

/// Reasons.
pub mod reasons {
    // The engine's own.
    /// The pass did all it set out to do.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Reading what exists failed; nothing was changed.
    pub const OBSERVE_FAILED: &str = "ObserveFailed";
    /// The API server refused an object we wrote.
    pub const APPLY_FAILED: &str = "ApplyFailed";
    /// Something outside Kubernetes did not work; it is tried again.
    pub const EFFECT_FAILED: &str = "EffectFailed";
    /// The work took longer than it may.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Trying again cannot help until somebody changes the object or what it refers to.
    pub const TERMINAL: &str = "Terminal";
    /// The object cannot be read as its kind.
    pub const MALFORMED: &str = "Malformed";
    /// The namespace is being deleted; nothing can be created in it.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The kind is accepted, but this release does not act on it yet.
    pub const NOT_YET_IMPLEMENTED: &str = "NotYetImplemented";
    /// The object carries a pause annotation, or its cluster is paused.
    pub const PAUSED: &str = "Paused";
    /// Nothing paused the object.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// Nobody has reported on this yet.
    pub const NOT_YET_REPORTED: &str = "NotYetReported";

    // General.
    /// All is as it should be.
    pub const READY: &str = "Ready";
    /// Work is going on.
    pub const RECONCILING: &str = "Reconciling";
    /// The spec contradicts itself or the rules; the message says where.
    pub const VALIDATION_FAILED: &str = "ValidationFailed";
    /// Something is being made.
    pub const CREATING: &str = "Creating";
    /// Making something failed.
    pub const CREATE_FAILED: &str = "CreateFailed";
    /// Something is being deleted.
    pub const DELETING: &str = "Deleting";
    /// Deletion waits for something that still uses the object; the message names it.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
    /// It failed; the message says how.
    pub const FAILED: &str = "Failed";
    /// It is waiting and will go on by itself.
    pub const PENDING: &str = "Pending";
    /// Another object must become ready first; the message names it.
    pub const WAITING_FOR_DEPENDENCIES: &str = "WaitingForDependencies";
    /// This is not needed here.
    pub const NOT_REQUIRED: &str = "NotRequired";
    /// The last pass succeeded.
    pub const RECONCILE_SUCCEEDED: &str = "ReconcileSucceeded";
    /// The object works, but parts of the last pass did not succeed.
    pub const RECONCILE_DEGRADED: &str = "ReconcileDegraded";

    // ButlerConfig.
    /// The settings are valid.
    pub const CONFIG_VALID: &str = "ConfigValid";
    /// The settings could not be read.
    pub const CONFIG_ERROR: &str = "ConfigError";
    /// The one `ButlerConfig` must be named `butler`.
    pub const INVALID_NAME: &str = "InvalidName";
    /// A namespace could not be kept.
    pub const NAMESPACE_ERROR: &str = "NamespaceError";

    // Team.
    /// The team's namespace could not be kept.
    pub const NAMESPACE_RECONCILE_FAILED: &str = "NamespaceReconcileFailed";
    /// The team's role bindings could not be kept.
    pub const RBAC_RECONCILE_FAILED: &str = "RBACReconcileFailed";
    /// A namespace of that name exists and is not the team's.
    pub const NAMESPACE_NOT_OWNED: &str = "NamespaceNotOwned";
    /// The name belongs to the platform.
    pub const NAME_RESERVED: &str = "NameReserved";
    /// All limits hold.
    pub const WITHIN_QUOTA: &str = "WithinQuota";
    /// A limit of the team or provider is used up.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// A limit of the environment is used up.
    pub const ENVIRONMENT_QUOTA_EXCEEDED: &str = "EnvQuotaExceeded";
    /// The member has as many clusters in the environment as one may have.
    pub const PER_MEMBER_CAP_EXCEEDED: &str = "PerMemberCapExceeded";

    // TenantCluster.
    /// The team may not use this provider.
    pub const PROVIDER_ACCESS_DENIED: &str = "ProviderAccessDenied";
    /// The provider configuration does not exist.
    pub const PROVIDER_CONFIG_NOT_FOUND: &str = "ProviderConfigNotFound";
    /// The team does not exist.
    pub const TEAM_NOT_FOUND: &str = "TeamNotFound";
    /// An object of Cluster API could not be kept.
    pub const CAPI_RESOURCE_ERROR: &str = "CAPIResourceError";
    /// Infrastructure is being made.
    pub const INFRASTRUCTURE_PROVISIONING: &str = "InfrastructureProvisioning";
    /// Infrastructure is there.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// The control plane is being made.
    pub const CONTROL_PLANE_PROVISIONING: &str = "ControlPlaneProvisioning";
    /// The control plane answers.
    pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";
    /// Workers are being made.
    pub const WORKERS_PROVISIONING: &str = "WorkersProvisioning";
    /// All workers are ready.
    pub const WORKERS_READY: &str = "WorkersReady";
    /// The pod network could not be installed.
    pub const CNI_INSTALL_FAILED: &str = "CNIInstallFailed";
    /// An addon could not be installed; the message names it.
    pub const ADDON_INSTALL_FAILED: &str = "AddonInstallFailed";
    /// All addons are installed.
    pub const ADDONS_INSTALLED: &str = "AddonsInstalled";
    /// Addresses are not allocated yet.
    pub const NETWORK_NOT_READY: &str = "NetworkNotReady";
    /// The credentials lack the provider's certificate authority.
    pub const MISSING_TRUST_BUNDLE: &str = "MissingTrustBundle";
    /// The version cannot be reached from the running one.
    pub const VERSION_SKEW: &str = "VersionSkew";
    /// The cluster is in a namespace, team or environment where it may not be; the message says which.
    pub const TENANCY_VIOLATION: &str = "TenancyViolation";
    /// Somebody protected the object from deletion; the message says how that is undone.
    pub const DELETION_PROTECTED: &str = "DeletionProtected";
    /// The cluster is on the way to another version; the message says how far it has come.
    pub const UPGRADING: &str = "Upgrading";
    /// The cluster is only looked at, as its management policy says.
    pub const OBSERVE_ONLY: &str = "ObserveOnly";

    // Images.
    /// The image is on the provider.
    pub const IMAGE_READY: &str = "ImageReady";
    /// The provider is fetching the image.
    pub const IMAGE_DOWNLOADING: &str = "ImageDownloading";
    /// The image is on its way.
    pub const IMAGE_SYNC_IN_PROGRESS: &str = "ImageSyncInProgress";
    /// The image was asked for.
    pub const IMAGE_SYNC_PENDING: &str = "ImageSyncPending";
    /// The image could not be put on the provider.
    pub const IMAGE_SYNC_FAILED: &str = "ImageSyncFailed";

    // Addresses.
    /// No pool has as many free addresses as are needed.
    pub const POOL_EXHAUSTED: &str = "PoolExhausted";
    /// Pools have free addresses.
    pub const POOL_AVAILABLE: &str = "PoolAvailable";
    /// The pool does not exist.
    pub const POOL_NOT_FOUND: &str = "PoolNotFound";
    /// Addresses are granted.
    pub const ALLOCATED: &str = "Allocated";
    /// Use is at or above the condition's threshold.
    pub const UTILIZATION_ABOVE_THRESHOLD: &str = "UtilizationAboveThreshold";
    /// Use is below the condition's threshold.
    pub const UTILIZATION_BELOW_THRESHOLD: &str = "UtilizationBelowThreshold";
    /// The object that the addresses are for exists.
    pub const OWNER_FOUND: &str = "OwnerFound";
    /// The object that the addresses are for does not exist, or is another one of the same name.
    pub const OWNER_GONE: &str = "OwnerGone";
    /// Somebody still uses the addresses; the message names who.
    pub const IN_USE: &str = "InUse";
    /// The addresses are given back.
    pub const RELEASED: &str = "Released";
    /// The allocation asks for exact addresses, and another one holds some of them.
    pub const PINNED_RANGE_TAKEN: &str = "PinnedRangeTaken";
    /// The allocation asks for exact addresses that the pool does not give out.
    pub const PINNED_RANGE_OUTSIDE: &str = "PinnedRangeOutside";
    /// The allocation asks for more addresses than one grant may have.
    pub const COUNT_TOO_LARGE: &str = "CountTooLarge";
    /// Another pool gives out some of the same addresses; the message names it.
    pub const OVERLAPS: &str = "Overlaps";
    /// No other pool gives out the same addresses.
    pub const NO_OVERLAP: &str = "NoOverlap";
    /// The addresses are asked for and not granted yet.
    pub const AWAITING_GRANT: &str = "AwaitingGrant";
    /// The pool contradicts itself, so that nothing is given out of it; the message says where.
    pub const POOL_INVALID: &str = "PoolInvalid";
    /// Granted addresses are no longer among those that the pool gives out.
    pub const OUTSIDE_POOL: &str = "OutsidePool";

    // Services on local machines.
    /// A machine serves the Service's address; the message names both.
    pub const ADDRESS_SERVED: &str = "AddressServed";
    /// No machine of the cluster can serve the Service's address; the message says what one would need.
    pub const NO_HEALTHY_MACHINE: &str = "NoHealthyMachine";
    /// The Service asks for an address that cannot be one; the message says which field.
    pub const INVALID_ADDRESS: &str = "InvalidAddress";
    /// The Service's address is taken off its machine and given back.
    pub const RELEASING: &str = "Releasing";
    /// Event: a machine serves the Service's address. Kubernetes' own word for it.
    pub const ENSURED_LOAD_BALANCER: &str = "EnsuredLoadBalancer";
    /// Event: the Service gets no address; the message says why. Kubernetes' own word for it.
    pub const SYNC_LOAD_BALANCER_FAILED: &str = "SyncLoadBalancerFailed";

    // Events about addresses.
    /// Event: addresses were granted.
    pub const IPS_ALLOCATED: &str = "IPsAllocated";
    /// Event: addresses could not be granted; the message says why.
    pub const ALLOCATION_FAILED: &str = "AllocationFailed";
    /// Event: an allocation was deleted because the object it was for is gone.
    pub const ORPHANED_ALLOCATION: &str = "OrphanedAllocationGC";
    /// Event: use of the pool has reached the threshold of [`super::types::CAPACITY_WARNING`].
    pub const POOL_CAPACITY_WARNING: &str = "PoolCapacityWarning";
    /// Event: use of the pool has reached the threshold of [`super::types::CAPACITY_CRITICAL`].
    pub const POOL_CAPACITY_CRITICAL: &str = "PoolCapacityCritical";
    /// Event: use of the pool has reached the threshold of [`super::types::CAPACITY_EXHAUSTED`].
    pub const POOL_CAPACITY_EXHAUSTED: &str = "PoolCapacityExhausted";
    /// Event: use of the pool has fallen below every threshold.
    pub const POOL_CAPACITY_RECOVERED: &str = "PoolCapacityRecovered";

    // Machines.
    /// An object or a machine of the name that is needed exists and is somebody else's; the message names it.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The bootstrap data of a machine says what its system cannot be told, or lacks what it must; the message says what.
    pub const BOOTSTRAP_DATA_UNUSABLE: &str = "BootstrapDataUnusable";
    /// The machine was there and is not any more.
    pub const MACHINE_GONE: &str = "MachineGone";

    // Providers.
    /// The Secret is missing, or lacks a key the provider needs; the message names it.
    pub const CREDENTIALS_INVALID: &str = "CredentialsInvalid";
    /// The credentials are complete.
    pub const CREDENTIALS_VALID: &str = "CredentialsValid";
    /// The provider needs no credentials.
    pub const CREDENTIALS_NOT_REQUIRED: &str = "CredentialsNotRequired";
    /// The provider did not do what it was asked; the message has its words.
    pub const PROVIDER_ERROR: &str = "ProviderError";
    /// The provider configuration cannot be used for this; the message says why.
    pub const INVALID_CONFIGURATION: &str = "InvalidConfiguration";

    // Machines and load balancers.
    /// The machine runs and has an address.
    pub const RUNNING: &str = "Running";
    /// The machine exists and has no address yet.
    pub const WAITING_FOR_IP: &str = "WaitingForIP";
    /// The machine is made when its user data is there.
    pub const WAITING_FOR_USER_DATA: &str = "WaitingForUserData";
    /// The machine was there, and somebody else deleted it.
    pub const VM_DELETED: &str = "VMDeleted";
    /// The machine is there, does not run, and is started again.
    pub const STOPPED: &str = "Stopped";
    /// The machine is there and cannot run; the message says why.
    pub const MACHINE_BROKEN: &str = "MachineBroken";
    /// The machine to be adopted is not at the provider.
    pub const MACHINE_NOT_FOUND: &str = "MachineNotFound";
    /// The provider has no load balancers.
    pub const UNSUPPORTED: &str = "Unsupported";
    /// The targets of a load balancer are being brought in step with the request.
    pub const SYNCING_TARGETS: &str = "SyncingTargets";

    // Hosted control planes.
    /// The `DataStore` does not exist, or none is named and there is no default one.
    pub const DATA_STORE_NOT_FOUND: &str = "DataStoreNotFound";
    /// The store does not answer, or refuses the credentials; the message has its words.
    pub const DATA_STORE_UNREACHABLE: &str = "DataStoreUnreachable";
    /// Another control plane keeps its state where this one wants to; the message names it.
    pub const SCHEMA_TAKEN: &str = "SchemaTaken";
    /// Certificates or keys are being made; the message says which and why.
    pub const ISSUING: &str = "Issuing";
    /// A certificate authority that somebody brought cannot be used; the message says why.
    pub const AUTHORITY_INVALID: &str = "AuthorityInvalid";
    /// A certificate authority that nobody replaces by itself ends before long; the message says when, and what to do.
    pub const AUTHORITY_ENDS: &str = "AuthorityEnds";
    /// The address is not known yet; the message says who gives it.
    pub const WAITING_FOR_ADDRESS: &str = "WaitingForAddress";
    /// No replica serves yet, or none any more.
    pub const PODS_NOT_READY: &str = "PodsNotReady";
    /// It was scaled to zero.
    pub const SLEEPING: &str = "Sleeping";
    /// New pods take the place of the old ones.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// The state moves to another data store; the message says how far it has come.
    pub const MIGRATING: &str = "Migrating";
    /// The state was to move to another data store and stayed where it was; the message says why and what to do.
    pub const MIGRATION_FAILED: &str = "MigrationFailed";

    // Events about machines and load balancers.
    /// Event: it was made.
    pub const CREATED: &str = "Created";
    /// Event: one that was there already is used.
    pub const ADOPTED: &str = "Adopted";
}

#[cfg(test)]
mod tests {
    use super::{reasons, types};

    #[test]
    fn reasons_satisfy_the_api_servers_pattern() {
        for reason in [
            reasons::SUCCEEDED,
            reasons::CAPI_RESOURCE_ERROR,
            reasons::RBAC_RECONCILE_FAILED,
            reasons::NOT_YET_IMPLEMENTED,
            reasons::IPS_ALLOCATED,
            reasons::ORPHANED_ALLOCATION,
            types::RECONCILED,
        ] {
            assert!(
                reason.starts_with(|first: char| first.is_ascii_alphabetic())
                    && reason.chars().all(|letter| letter.is_ascii_alphanumeric()),
                "{reason}"
            );
        }
    }
}

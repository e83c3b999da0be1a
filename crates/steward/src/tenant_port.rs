//! The way into tenants: what is kept inside of a hosted cluster, as the controller asks for it.

use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_runtime::{failure::Failure, reconciler::Context};
use futures::future::BoxFuture;

/// What is known of the inside of a tenant. Answered from memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantState {
    /// Fingerprint of what was last asked for and is in place.
    pub configured: Option<String>,
    /// What is in the way, in a sentence.
    pub problem: Option<String>,
}

/// A way into tenants.
pub trait TenantPort: Send + Sync + 'static {
    /// What is known of the inside of a tenant, by the UID of its control plane.
    fn state(&self, uid: &str) -> TenantState;

    /// Brings the inside of a tenant in step with its control plane and keeps it so. `fingerprint` stands for all that it
    /// depends on; once everything is in place, [`TenantPort::state`] gives it back.
    fn configure<'a>(
        &'a self,
        control_plane: &'a TenantControlPlane,
        fingerprint: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Lets go of a tenant that is gone or sleeps.
    fn release(&self, uid: &str);
}

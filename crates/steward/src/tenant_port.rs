//! The way into tenants: what is kept inside of a hosted cluster, as the controller asks for it.

use std::collections::BTreeMap;

use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_runtime::{failure::Failure, reconciler::Context};
use futures::future::BoxFuture;
use steward_tenant::TenantPart;

/// What is known of the inside of a tenant. Answered from memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantState {
    /// Fingerprint of what was last asked for and is in place, but for the parts that have an obstacle.
    pub configured: Option<String>,
    /// What is in the way of single parts, in a sentence each. The others do not wait for them.
    pub obstacles: BTreeMap<TenantPart, String>,
    /// What is in the way of everything, in a sentence.
    pub problem: Option<String>,
}

impl TenantState {
    /// All that is in the way.
    pub fn told(&self) -> Option<String> {
        let obstacles = self.obstacles.iter();
        let obstacles = obstacles.map(|(part, obstacle)| format!("{part}: {obstacle}"));
        let told: Vec<_> = self.problem.iter().cloned().chain(obstacles).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// A way into tenants.
pub trait TenantPort: Send + Sync + 'static {
    /// What is known of the inside of a tenant, by the UID of its control plane.
    fn state(&self, uid: &str) -> TenantState;

    /// Brings the inside of a tenant in step with its control plane and keeps it so. `fingerprint` stands for all that it
    /// depends on; once everything is in place that can be, [`TenantPort::state`] gives it back.
    fn configure<'a>(
        &'a self,
        control_plane: &'a TenantControlPlane,
        fingerprint: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Lets go of a tenant that is gone or sleeps.
    fn release(&self, uid: &str);
}

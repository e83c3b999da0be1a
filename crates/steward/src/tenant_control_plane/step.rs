//! Whether the inside of a tenant, and all that runs, is in step with what its control plane says. Pure.

use serde_json::json;
use steward_tenant::TenantPart;

use super::{look::Look, part::is_frozen, plan::serving_version};
use crate::{
    names::SecretRole,
    projections::DeploymentFacts,
    secrets::{bytes, checksum},
    tenants::chosen_kubeconfig,
};

impl Look<'_> {
    /// Whether the inside of the tenant is as it shall be, but for parts that have an obstacle; unknown where nobody serves, or
    /// there is no way there.
    pub(super) fn is_in_step(&self) -> Option<bool> {
        let state = self.world.tenant.as_ref()?;
        let wanted = self.tenant_fingerprint()?;
        Some(state.configured == Some(wanted))
    }

    /// The same of one part, whatever is in the way of others.
    pub(super) fn is_in_place(&self, part: TenantPart) -> Option<bool> {
        Some(self.is_in_step()? && !self.is_hindered(part))
    }

    /// Whether something is in the way of a part of the tenant.
    pub(super) fn is_hindered(&self, part: TenantPart) -> bool {
        let state = self.world.tenant.as_ref();
        state.is_some_and(|state| state.obstacles.contains_key(&part))
    }

    /// Whether all pods, and the inside of the tenant, trust the authorities that their Secret holds. Inside, that is what nodes
    /// find the cluster by; no other part speaks of authorities.
    pub(super) fn is_settled(&self) -> bool {
        let is_current = |role: &SecretRole, checksum: &String| {
            let seen = self.world.secrets.get(role);
            seen.is_some_and(|seen| seen.value.checksum == *checksum)
        };
        let pods = self.world.deployment.as_ref().is_some_and(|found| {
            let mut trust = found.trust.iter();
            found.is_rolled_out() && trust.all(|(role, checksum)| is_current(role, checksum))
        });
        let has_way_in = self.world.tenant.is_some();
        pods && (!has_way_in || self.is_in_place(TenantPart::Bootstrap) == Some(true))
    }

    /// What the inside of the tenant depends on; nothing while nobody serves.
    pub(super) fn tenant_fingerprint(&self) -> Option<String> {
        let serving = self
            .world
            .deployment
            .as_ref()
            .map_or(0, DeploymentFacts::ready);
        let endpoint = self
            .addresses
            .endpoint
            .as_ref()
            .filter(|_| serving > 0 && !self.is_asleep())?;
        let secret = |role| {
            let seen = self.world.secrets.get(&role)?;
            Some(bytes(&seen.value.checksum))
        };
        let parts = [
            ("spec", bytes(&json!(self.control_plane.spec).to_string())),
            (
                "tunnel",
                bytes(self.settings.tunnel_image.as_deref().unwrap_or_default()),
            ),
            ("version", bytes(&self.version.to_string())),
            (
                "serving",
                bytes(&serving_version(self.control_plane, self.version).to_string()),
            ),
            ("endpoint", bytes(&endpoint.to_string())),
            ("authority", secret(SecretRole::Authority)?),
            ("kubeconfig", secret(SecretRole::AdminKubeconfig)?),
            (
                "administrator",
                bytes(chosen_kubeconfig(self.control_plane).unwrap_or_default()),
            ),
            ("frozen", bytes(&is_frozen(self.control_plane).to_string())),
        ];
        Some(checksum(
            &parts.map(|(name, value)| (name.to_owned(), value)).into(),
        ))
    }
}

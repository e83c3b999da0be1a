//! What a control plane has when its manifest does not say. Names within the store are not among it: they follow from the
//! UID, which nobody knows before the object exists.

use butler_api::steward::tenant_control_plane::TenantControlPlane;
use butler_runtime::admission::Defaulting;

use crate::{addresses::dns_addresses, settings::Settings, tenant_control_plane::chosen_store};

/// Fills in the data store and the addresses of DNS.
pub(super) struct Defaults {
    settings: Settings,
}

impl Defaults {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
        }
    }
}

impl Defaulting<TenantControlPlane> for Defaults {
    fn default(&self, control_plane: &mut TenantControlPlane) {
        if control_plane.spec.data_store.is_none() {
            control_plane.spec.data_store = chosen_store(control_plane, &self.settings);
        }
        let profile = &mut control_plane.spec.network_profile;
        profile.dns_service_ips = dns_addresses(profile);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::control_plane;

    #[test]
    fn a_plain_manifest_is_filled_in_once() {
        let defaults = Defaults::new(&Settings::default());
        let mut filled = control_plane("LoadBalancer");
        defaults.default(&mut filled);
        assert_eq!(filled.spec.data_store.as_deref(), Some("default"));
        assert_eq!(filled.spec.network_profile.dns_service_ips, ["10.96.0.10"]);
        let once = filled.clone();
        defaults.default(&mut filled);
        assert_eq!(filled, once);
    }

    #[test]
    fn without_a_default_store_a_manifest_may_name_one_later() {
        let defaults = Defaults::new(&Settings {
            default_data_store: None,
            ..Settings::default()
        });
        let mut filled = control_plane("LoadBalancer");
        defaults.default(&mut filled);
        assert_eq!(filled.spec.data_store, None);
    }
}

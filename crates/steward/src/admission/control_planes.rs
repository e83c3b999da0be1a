//! Control planes make sense, follow the rules of versions, and do not lose or share their state.

use std::{collections::BTreeSet, sync::Arc};

use butler_api::{
    net::parse_address,
    steward::{data_store::DataStore, tenant_control_plane::TenantControlPlane},
};
use butler_runtime::{
    admission::{Denial, Review, Validate, Verdict, Warning},
    cache::{Caches, Whole},
    object::ObjectKey,
};
use kube::ResourceExt;
use serde_json::json;

use super::{pods, versions};
use crate::{
    addresses::{networks, problem_of_public_host, public_host},
    settings::Settings,
    tenant_control_plane::{overrides_of, touches, watched_stores},
};

/// Longest name of a control plane: that of a label.
const LONGEST_NAME: usize = 63;

/// Refuses control planes that could not work, or that would take what another one has.
pub(super) struct ControlPlaneRules {
    caches: Arc<Caches>,
    settings: Settings,
}

impl ControlPlaneRules {
    pub(super) fn new(caches: &Arc<Caches>, settings: &Settings) -> Self {
        Self {
            caches: Arc::clone(caches),
            settings: settings.clone(),
        }
    }

    /// Somebody else's part of a store cannot be asked for.
    fn rival(&self, control_plane: &TenantControlPlane) -> Option<Denial> {
        let others = self.caches.store::<Whole<TenantControlPlane>>().list();
        let key = ObjectKey::of(control_plane);
        let mut others = others.iter().filter(|other| other.facts.key != key);
        let rival = others.find(|other| touches(control_plane, &other.value.0, &self.settings))?;
        let rule = format!(
            "what it asks for in the DataStore is {}'s; choose another dataStore, dataStoreSchema or dataStoreUsername",
            rival.facts.key
        );
        Some(Denial::new("spec.dataStoreSchema", rule))
    }

    /// The state goes only where it can stay.
    fn immovable(
        &self,
        control_plane: &TenantControlPlane,
        old: Option<&TenantControlPlane>,
    ) -> Option<Denial> {
        let storage = old?.status.as_ref()?.storage.as_ref()?;
        let has = storage.data_store_name.as_ref()?;
        let spec = &control_plane.spec;
        let wants = spec.data_store.as_ref().filter(|wants| *wants != has)?;
        let denied = |rule| Some(Denial::new("spec.dataStore", rule));
        let mut overrides = spec.data_store_overrides.iter();
        if let Some(wish) = overrides.find(|wish| wish.data_store == *wants) {
            return denied(format!(
                "dataStoreOverrides keeps {} in {wants}, where the whole state would be in its way; name another DataStore",
                wish.resource
            ));
        }
        let stores = self.caches.store::<Whole<DataStore>>();
        let target = stores.get(&ObjectKey::cluster(wants.as_str()))?;
        let target = &target.value.0;
        if target.metadata.deletion_timestamp.is_some() {
            return denied(format!("{wants} is being deleted; name another DataStore"));
        }
        let driver = json!(target.spec.driver);
        let (is, was) = (driver.as_str()?, storage.driver.as_deref()?);
        if is != was {
            return denied(format!(
                "the state is in {has}, which is {was}, and {wants} is {is}: it can move only to a DataStore of the same driver"
            ));
        }
        None
    }

    fn missing_stores(&self, control_plane: &TenantControlPlane) -> Vec<Warning> {
        let stores = self.caches.store::<Whole<DataStore>>();
        let used = watched_stores(control_plane, &self.settings);
        if used.is_empty() {
            return vec![Warning::new(
                "no DataStore is named and there is no default one: the control plane waits for one",
            )];
        }
        let missing = used
            .iter()
            .filter(|name| stores.get(&ObjectKey::cluster(name.as_str())).is_none());
        missing
            .map(|name| {
                Warning::new(format!(
                    "the DataStore {name} does not exist: the control plane waits for it"
                ))
            })
            .collect()
    }
}

impl Validate<TenantControlPlane> for ControlPlaneRules {
    fn validate(&self, review: &Review<'_, TenantControlPlane>) -> Verdict {
        let control_plane = review.object;
        // Whoever only touches labels or finalizers must not be held up by what an older release let through.
        let same = review.old.is_some_and(|old| old.spec == control_plane.spec);
        if same || control_plane.metadata.deletion_timestamp.is_some() {
            return Ok(Vec::new());
        }
        let mut denials = Vec::new();
        if review.old.is_none() {
            denials.extend(name(control_plane));
        }
        denials.extend(version(control_plane, review.old));
        denials.extend(self.immovable(control_plane, review.old));
        denials.extend(overrides(control_plane, review.old));
        denials.extend(dns(control_plane));
        denials.extend(exposure(control_plane));
        denials.extend(pods::check(control_plane, &self.settings));
        denials.extend(self.rival(control_plane));
        if denials.is_empty() {
            Ok(self.missing_stores(control_plane))
        } else {
            Err(denials)
        }
    }
}

/// It becomes the name of a Service, which must begin with a letter.
fn name(control_plane: &TenantControlPlane) -> Option<Denial> {
    let name = control_plane.name_any();
    let generated = control_plane.metadata.name.is_none();
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let fits = name.len() <= LONGEST_NAME
        && plain
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-');
    (!generated && !fits).then(|| {
        let rule = "must begin with a letter and hold at most 63 lower-case letters, digits and dashes: it becomes the name of a Service";
        Denial::new("metadata.name", rule)
    })
}

fn installed(control_plane: &TenantControlPlane) -> Option<String> {
    let status = control_plane.status.as_ref()?;
    status
        .kubernetes_resources
        .as_ref()?
        .version
        .as_ref()?
        .version
        .clone()
}

fn version(control_plane: &TenantControlPlane, old: Option<&TenantControlPlane>) -> Option<Denial> {
    let wanted = &control_plane.spec.kubernetes.version;
    let asked = old.map(|old| old.spec.kubernetes.version.clone());
    let running = old.and_then(installed);
    let refused = versions::refusal(wanted, asked.as_deref(), running.as_deref());
    refused.map(|refusal| Denial::new("spec.kubernetes.version", refusal.to_string()))
}

fn overrides(control_plane: &TenantControlPlane, old: Option<&TenantControlPlane>) -> Vec<Denial> {
    let mut seen = BTreeSet::new();
    let mut denials = Vec::new();
    let placed = old.filter(|old| {
        let status = old.status.as_ref();
        status.is_some_and(|status| status.storage.is_some())
    });
    let wished = &control_plane.spec.data_store_overrides;
    // What slipped through may be left as it is while something else is changed, and may be set back.
    let allowed = |old: &TenantControlPlane| {
        *wished == old.spec.data_store_overrides || wished == overrides_of(old)
    };
    if placed.is_some_and(|old| !allowed(old)) {
        let rule = "cannot be changed any more: what is kept in a store would be left behind in it";
        denials.push(Denial::new("spec.dataStoreOverrides", rule));
    }
    for wish in wished {
        if !wish.resource.contains('/') {
            let rule = format!(
                "{:?} is no resource; write <group>/<resource>, such as /events",
                wish.resource
            );
            denials.push(Denial::new("spec.dataStoreOverrides", rule));
        }
        if !seen.insert(&wish.resource) {
            let rule = format!("{} is named twice; name one store for it", wish.resource);
            denials.push(Denial::new("spec.dataStoreOverrides", rule));
        }
    }
    denials
}

fn dns(control_plane: &TenantControlPlane) -> Vec<Denial> {
    let profile = &control_plane.spec.network_profile;
    let networks: Vec<_> = networks(&profile.service_cidr).collect();
    let mut denials = Vec::new();
    if networks.len() != profile.service_cidr.split(',').count() {
        let rule = "must be a CIDR without bits beyond its prefix, such as 10.96.0.0/16, or one of each family";
        denials.push(Denial::new("spec.networkProfile.serviceCidr", rule));
    }
    if control_plane.spec.addons.core_dns.is_some() {
        let outside = profile.dns_service_ips.iter().filter(|text| {
            let address = parse_address(text);
            !address.is_ok_and(|address| networks.iter().any(|network| network.contains(address)))
        });
        denials.extend(outside.map(|text| {
            let rule = format!("{text} is not in serviceCidr {}", profile.service_cidr);
            Denial::new("spec.networkProfile.dnsServiceIPs", rule)
        }));
    }
    denials
}

/// Whoever routes by name needs one.
fn exposure(control_plane: &TenantControlPlane) -> Vec<Denial> {
    let wished = &control_plane.spec.control_plane;
    let mut denials = Vec::new();
    let nameless = public_host(control_plane).is_none();
    let field = match (&wished.ingress, &wished.gateway) {
        (Some(_), _) => Some("spec.controlPlane.ingress.hostname"),
        (None, Some(_)) => Some("spec.controlPlane.gateway.hostname"),
        (None, None) => None,
    };
    if let Some(field) = field.filter(|_| nameless) {
        denials.push(Denial::new(
            field,
            "required: control planes are told apart by it",
        ));
    }
    let unfit = problem_of_public_host(control_plane);
    denials.extend(unfit.map(|(field, rule)| Denial::new(field, rule)));
    if wished
        .gateway
        .as_ref()
        .is_some_and(|gateway| gateway.parent_refs.is_empty())
    {
        let rule = "required: name at least one Gateway";
        denials.push(Denial::new("spec.controlPlane.gateway.parentRefs", rule));
    }
    denials
}

#[cfg(test)]
#[path = "control_planes_tests.rs"]
mod tests;

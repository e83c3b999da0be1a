//! Bottlerocket: a system of settings alone, which runs no command and has no kubeadm.
//!
//! All that is written here is read by `butler_machine::user_data`, which refuses what has no setting: nothing may be added to
//! the one without the other.

use std::net::IpAddr;

use butler_api::{butler::butler_config::ControlPlaneProvider, net::Cidr};

use super::{ACCOUNT, Order, Recipe, hosts_file, time, users};
use crate::tenant_cluster::blueprint::{Blueprint, ControlPlane};

/// The domain of Services. Nobody can ask for another.
const CLUSTER_DOMAIN: &str = "cluster.local";

pub(super) fn recipe(order: &Order<'_>) -> Recipe {
    let mut arguments = Vec::new();
    // Others read both from the cluster, by kubeadm.
    if let Some(address) = dns_address(order.blueprint) {
        arguments.push(("cluster-dns", address.to_string()));
    }
    arguments.push(("cluster-domain", CLUSTER_DOMAIN.to_owned()));
    Recipe {
        files: hosts_file(order.blueprint).into_iter().collect(),
        arguments,
        users: users(order, ACCOUNT, false),
        time: time(order),
        ..Recipe::default()
    }
}

/// Where whoever runs the control plane puts the DNS Service; nowhere, if the range is too small.
fn dns_address(blueprint: &Blueprint) -> Option<IpAddr> {
    let network: Cidr = blueprint.network.services.parse().ok()?;
    let address = match network.first() {
        IpAddr::V4(first) => IpAddr::V4(u32::from(first).checked_add(10)?.into()),
        IpAddr::V6(first) => {
            let place = if is_of_steward(blueprint) { 0x10 } else { 10 };
            IpAddr::V6(u128::from(first).checked_add(place)?.into())
        }
    };
    network.contains(address).then_some(address)
}

fn is_of_steward(blueprint: &Blueprint) -> bool {
    match &blueprint.control_plane {
        ControlPlane::Hosted(hosted) => hosted.provider == ControlPlaneProvider::Steward,
        ControlPlane::Standalone(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::tenant_cluster::blueprint::testing::{drawn, on_harvester, plain_shop, with_config};

    #[test]
    fn dns_is_where_the_control_plane_puts_it() {
        let asked = |services: &str, provider: &str| {
            let config = json!({ "controlPlaneProvider": provider });
            let surroundings = with_config(on_harvester(), &config);
            let mut blueprint = drawn(&plain_shop(&json!({})), &surroundings);
            blueprint.network.services = services.to_owned();
            dns_address(&blueprint).map(|address| address.to_string())
        };
        let found = [
            asked("10.96.0.0/16", "steward"),
            asked("fd00:96::/112", "steward"),
            asked("fd00:96::/112", "kamaji"),
            asked("10.96.0.0/29", "steward"),
        ];
        let wanted = [
            Some("10.96.0.10"),
            Some("fd00:96::10"),
            Some("fd00:96::a"),
            None,
        ];
        assert_eq!(found, wanted.map(|address| address.map(str::to_owned)));
    }
}

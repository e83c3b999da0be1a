//! Gives back what a tenant had that is gone: addresses that machines still have, and our marks on its ranges.
//!
//! The network of a cluster gives its ranges back itself while it runs. Of one that ended with its cluster, or whose end nobody
//! here has seen, something may be left.
//!
//! Must not: touch a range of a cluster that is there, or one that somebody else uses.

use std::{collections::BTreeMap, sync::Arc};

use butler_api::{butler::ip_allocation::AllocationClusterReference, name::MachineName};
use butler_runtime::{
    api_server::ApiServer,
    failure::{Class, Failure},
    kube_api_server::KubeApiServer,
};
use jiff::Timestamp;
use kube::Client;

use crate::{
    allocations::Allocations,
    books::{Desk, plan::Marking},
    facts::AllocationFacts,
    hands::{AddressChange, Hands, LocalMachine},
    ranges::{MarkChange, Range},
};

/// Sees to what tenants leave behind.
pub struct Departures<H> {
    hands: Arc<H>,
    allocations: Allocations,
    desk: Desk,
}

impl<H: Hands> Departures<H> {
    /// With the hands on the machines, and the name under which the networks of tenants put their marks.
    pub fn new(hands: Arc<H>, allocations: Allocations, management: Client, manager: &str) -> Self {
        let management: Arc<dyn ApiServer> = Arc::new(KubeApiServer::new(management));
        Self {
            hands,
            allocations,
            desk: Desk {
                // Nothing is written to a cluster that is gone.
                cluster: Arc::clone(&management),
                management,
                manager: manager.into(),
            },
        }
    }

    /// Gives back what is left of tenants that are not `there`. Says whether all went well; if not, it is to be tried again.
    pub async fn settle(
        &self,
        there: &(dyn Fn(&AllocationClusterReference) -> bool + Sync),
    ) -> bool {
        let allocations = self.allocations.list();
        let facts = allocations.iter().map(|allocation| &allocation.value);
        let left = left_behind(facts, there, &self.desk.manager);
        if left.is_empty() {
            return true;
        }
        let machines = match self.hands.machines().await {
            Ok(machines) => machines,
            Err(error) => {
                tracing::warn!(%error, "could not look at the machines; it is tried again");
                return false;
            }
        };
        for (machine, change) in still_there(&machines, &left) {
            if let Err(error) = self.hands.change_service_addresses(&machine, &change).await {
                tracing::warn!(%machine, %error, "could not take addresses of a tenant that is gone off a machine; it is tried again");
                return false;
            }
        }
        let mut well = true;
        for range in left {
            let marking = Marking::of(&range.allocation, MarkChange::TakeOff);
            let written = self.desk.mark(&marking, Timestamp::now()).await;
            if let Err(failure) = written.map_err(Failure::from) {
                // Somebody was faster: the cache will show what they did, and that brings the next look.
                let stale = failure.class == Class::Stale;
                well &= stale;
                tracing::warn!(allocation = %marking.key, %failure, "could not give addresses of a tenant that is gone back; it is tried again");
            }
        }
        well
    }
}

/// The ranges with our mark whose tenants are not there.
fn left_behind<'a>(
    allocations: impl Iterator<Item = &'a AllocationFacts>,
    there: &dyn Fn(&AllocationClusterReference) -> bool,
    user: &str,
) -> Vec<Range> {
    let range = |allocation: &AllocationFacts| {
        let tenant = allocation.tenant.as_ref().filter(|tenant| !there(tenant))?;
        Range::of(allocation, tenant, user).filter(|range| range.ours)
    };
    allocations.filter_map(range).collect()
}

/// What of these ranges is still on machines.
fn still_there(
    machines: &[LocalMachine],
    ranges: &[Range],
) -> BTreeMap<MachineName, AddressChange> {
    let mut changes = BTreeMap::new();
    for machine in machines {
        let has = machine.service_addresses.iter().copied();
        let change = AddressChange {
            take_off: has
                .filter(|address| ranges.iter().any(|range| range.contains(*address)))
                .collect(),
            ..AddressChange::default()
        };
        if !change.is_empty() {
            changes.insert(machine.name.clone(), change);
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::{OURSELVES, address, machine, machine_name, range, tenant};

    #[test]
    fn what_a_tenant_leaves_behind_is_taken_off_machines_and_given_back() {
        let theirs = AllocationFacts {
            used_by: Some("butler-controller".to_owned()),
            ..range(120, 129)
        };
        let unmarked = AllocationFacts {
            in_use: false,
            used_by: None,
            ..range(130, 139)
        };
        let all = [range(100, 109), theirs, unmarked];
        let alive = left_behind(all.iter(), &|_| true, OURSELVES);
        assert_eq!(alive, []);
        let left = left_behind(all.iter(), &|other| *other != tenant(), OURSELVES);
        assert_eq!(left.len(), 1);
        let holder = LocalMachine {
            service_addresses: [address(103), address(121)].into(),
            ..machine("m1", 1)
        };
        let change = AddressChange {
            take_off: [address(103)].into(),
            ..AddressChange::default()
        };
        assert_eq!(
            still_there(&[holder, machine("m2", 2)], &left),
            BTreeMap::from([(machine_name("m1"), change)])
        );
    }
}

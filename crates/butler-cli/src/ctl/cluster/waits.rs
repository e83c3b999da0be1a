//! What a cluster waits for, as far as its own conditions tell: enough to follow it, and for whoever may see no more.
//!
//! The conditions are in the words of the controller, which sees everything that belongs to the cluster.

use butler_api::{
    butler::tenant_cluster::TenantCluster,
    conditions::{reasons, types},
};
use butler_controller::tenant_cluster::why::Waiting;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// In the order in which a cluster comes to be. What stops everything else comes first.
const ORDER: [&str; 10] = [
    types::RECONCILED,
    types::PROVIDER_ACCESS_GRANTED,
    types::QUOTA_SATISFIED,
    types::NETWORK_READY,
    types::IMAGE_READY,
    types::INFRASTRUCTURE_READY,
    types::CONTROL_PLANE_READY,
    types::WORKERS_READY,
    types::ADDONS_READY,
    types::READY,
];

/// What a cluster waits for, the first obstacle first.
pub(super) fn waits(cluster: &TenantCluster) -> Vec<Waiting> {
    let status = cluster.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let said = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    let paused = said(types::PAUSED).filter(|condition| condition.status == TRUE);
    let deleting = said(types::DELETING).filter(|condition| condition.status == TRUE);
    let first = paused.into_iter().chain(deleting);
    if cluster.metadata.deletion_timestamp.is_some() {
        let failed = said(types::RECONCILED).filter(|condition| condition.status == FALSE);
        return first.chain(failed).map(wait).collect();
    }
    let open = ORDER.iter().filter_map(|type_| said(type_));
    let open = open.filter(|condition| condition.status != TRUE);
    let mut waits: Vec<_> = first.chain(open).map(wait).collect();
    // The summary says nothing that its parts have not said.
    if waits.len() > 1 {
        waits.retain(|wait| wait.what != types::READY);
    }
    waits.extend(refused(cluster).map(wait).map(Waiting::needs_somebody));
    let rolling = said(types::ROLLING_OUT).filter(|condition| condition.status == TRUE);
    waits.extend(rolling.map(wait));
    waits
}

/// What is said of a wish that cannot be, by a cluster that works on as it was. The parts of the cluster do not say it.
pub(super) fn refused(cluster: &TenantCluster) -> impl Iterator<Item = &Condition> {
    let status = cluster.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let refusals = [
        (types::ROLLING_OUT, reasons::VERSION_SKEW),
        (types::READY, reasons::RECONCILE_DEGRADED),
    ];
    refusals.into_iter().filter_map(|(type_, reason)| {
        let mut conditions = conditions.iter();
        conditions.find(|condition| condition.type_ == type_ && condition.reason == reason)
    })
}

const TRUE: &str = "True";
const FALSE: &str = "False";

fn wait(condition: &Condition) -> Waiting {
    let Condition {
        type_,
        reason,
        message,
        last_transition_time,
        ..
    } = condition;
    Waiting::new(type_, reason, message.as_str()).since(Some(last_transition_time.0))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ctl::cluster::testing::{cluster, deleting, refused, waiting_for_workers};

    fn words(cluster: &TenantCluster) -> Vec<String> {
        let waits = waits(cluster).into_iter();
        waits.map(|wait| wait.what).collect()
    }

    #[test]
    fn the_first_obstacle_comes_first_and_the_summary_not_at_all() {
        assert_eq!(
            words(&waiting_for_workers()),
            ["WorkersReady", "AddonsReady"]
        );
        assert_eq!(words(&cluster("True")), Vec::<String>::new());
        assert_eq!(words(&deleting()), ["Deleting"]);
    }

    #[test]
    fn what_goes_on_and_what_was_refused_is_told_of_a_cluster_that_works() {
        let rolling = refused("RollingOut", "True", "Upgrading", "the workers go on");
        assert_eq!(words(&rolling), ["RollingOut"]);
        let held = refused("RollingOut", "False", "VersionSkew", "not in one step");
        assert_eq!(words(&held), ["RollingOut"]);
        let degraded = refused("Ready", "True", "ReconcileDegraded", "too many workers");
        assert_eq!(words(&degraded), ["Ready"]);
    }
}

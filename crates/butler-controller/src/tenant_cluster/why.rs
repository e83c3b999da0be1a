//! What a tenant cluster is waiting for, and why: one function for the conditions of its status and for the command line.
//!
//! Pure: it sees the object and what exists for it ([`Related`]), and neither asks nor changes anything. It lives beside the
//! controller, since it judges by the facts that the controller's caches keep; the command line depends on this crate for it.
//! What only the controller can judge (limits, access, addresses, the image), its conditions say, and [`why`] repeats them.

use butler_api::{
    butler::{
        load_balancer_request::{LoadBalancerPhase, LoadBalancerRequestStatus},
        tenant_cluster::TenantCluster,
    },
    conditions::{reasons, types},
    normalize::tenant_cluster::pools,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::{end, related::Related};
use crate::{cluster_api::MachineFacts, projections::Said};

/// Who has to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// It goes on by itself.
    Butler,
    /// Nothing happens until a person changes something.
    Person,
}

/// Something that a tenant cluster is waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The condition that does not hold meanwhile.
    pub what: String,
    /// One word why, for machines.
    pub reason: String,
    /// Since when, if that is known.
    pub since: Option<Timestamp>,
    /// Why, in a sentence without its end.
    pub why: String,
    /// What to do about it, if there is anything but to wait.
    pub what_to_do: Option<String>,
    /// Who has to do something.
    pub turn: Turn,
}

impl Waiting {
    /// Something that goes on by itself.
    pub fn new(what: &str, reason: &str, why: impl Into<String>) -> Self {
        Self {
            what: what.to_owned(),
            reason: reason.to_owned(),
            since: None,
            why: why.into(),
            what_to_do: None,
            turn: Turn::Butler,
        }
    }

    /// The same, since then.
    #[must_use]
    pub fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    /// The same, with advice.
    #[must_use]
    pub fn advise(mut self, what_to_do: impl Into<String>) -> Self {
        self.what_to_do = Some(what_to_do.into());
        self
    }

    /// The same, but that a person must act.
    #[must_use]
    pub fn needs_somebody(mut self) -> Self {
        self.turn = Turn::Person;
        self
    }

    /// All of it in one sentence, as conditions have it.
    pub fn message(&self) -> String {
        match &self.what_to_do {
            Some(what_to_do) => format!("{}; {what_to_do}", self.why),
            None => self.why.clone(),
        }
    }
}

/// Conditions that only the controller can judge: of limits, access and what the platform gives.
const JUDGED: [&str; 4] = [
    types::PROVIDER_ACCESS_GRANTED,
    types::QUOTA_SATISFIED,
    types::NETWORK_READY,
    types::IMAGE_READY,
];

/// Reasons for which the summary says that a wish cannot be.
const REFUSED: [&str; 3] = [
    reasons::VALIDATION_FAILED,
    reasons::NOT_YET_IMPLEMENTED,
    reasons::RECONCILE_DEGRADED,
];

/// What a tenant cluster is waiting for, the first obstacle first. Nothing, if it is as it shall be.
pub fn why(cluster: &TenantCluster, related: &Related) -> Vec<Waiting> {
    let status = cluster.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let paused = said(conditions, types::PAUSED).filter(|said| said.status == "True");
    let mut waiting: Vec<_> = paused.map(repeated).into_iter().collect();
    let failed = said(conditions, types::RECONCILED).filter(|said| said.status == "False");
    waiting.extend(failed.map(repeated));
    if cluster.metadata.deletion_timestamp.is_some() {
        waiting.extend(end::waits(cluster, related).first().cloned());
        return waiting;
    }
    let judged = JUDGED.iter().filter_map(|type_| said(conditions, type_));
    let judged = judged.filter(|said| said.status != "True");
    waiting.extend(judged.map(repeated));
    // A wish that cannot be is told by the summary alone, since no part of the cluster lacks anything by it.
    let refused =
        said(conditions, types::READY).filter(|said| REFUSED.contains(&said.reason.as_str()));
    let refused = refused.filter(|said| {
        let mut waiting = waiting.iter();
        waiting.all(|waiting| waiting.message() != said.message)
    });
    let rolling = said(conditions, types::ROLLING_OUT);
    let held = rolling.filter(|said| said.reason == reasons::VERSION_SKEW);
    let refused: Vec<_> = refused.into_iter().chain(held).map(repeated).collect();
    waiting.extend(refused.into_iter().map(Waiting::needs_somebody));
    let found = tenant(cluster, related).into_iter();
    waiting.extend(found.map(|found| {
        let before = said(conditions, &found.what).filter(|said| said.status != "True");
        let since = before.map(|said| said.last_transition_time.0);
        let since = found.since.or(since);
        found.since(since)
    }));
    let addons = said(conditions, types::ADDONS_READY).filter(|said| said.status == "False");
    waiting.extend(addons.map(repeated));
    let rolling = rolling.filter(|said| said.status == "True");
    waiting.extend(rolling.map(repeated));
    waiting
}

fn said<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    let mut conditions = conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}

/// What a condition says already. Its sentence ends with what to do.
fn repeated(condition: &Condition) -> Waiting {
    let since = Some(condition.last_transition_time.0);
    let message = condition.message.as_str();
    let waiting = |why: &str| Waiting::new(&condition.type_, &condition.reason, why).since(since);
    match message.rsplit_once("; ") {
        Some((why, what_to_do)) => waiting(why).advise(what_to_do),
        None => waiting(message),
    }
}

/// What is not there yet of the cluster itself, in the order in which it comes to be.
pub(super) fn tenant(cluster: &TenantCluster, related: &Related) -> Vec<Waiting> {
    let found = [
        namespace(cluster, related),
        infrastructure(related),
        control_plane(related),
        workers(cluster, related),
    ];
    found.into_iter().flatten().collect()
}

fn namespace(cluster: &TenantCluster, related: &Related) -> Option<Waiting> {
    let found = related.namespace.as_ref()?;
    let name = super::tenant_namespace(cluster);
    let what = types::INFRASTRUCTURE_READY;
    if found.owner != cluster.uid() {
        let why = format!("the namespace {name} exists and was not made for this cluster");
        let waiting = Waiting::new(what, reasons::NAMESPACE_NOT_OWNED, why).needs_somebody();
        return Some(waiting.advise("delete that namespace if nobody needs it"));
    }
    let since = found.deleted_at?;
    let why = format!("the namespace {name} is being deleted, and everything in it");
    let waiting = Waiting::new(what, reasons::NAMESPACE_TERMINATING, why);
    Some(waiting.since(Some(since)))
}

fn infrastructure(related: &Related) -> Option<Waiting> {
    let what = types::INFRASTRUCTURE_READY;
    let waiting = |why: String| {
        Some(Waiting::new(
            what,
            reasons::INFRASTRUCTURE_PROVISIONING,
            why,
        ))
    };
    let Some(cluster) = &related.cluster else {
        return waiting("the objects of Cluster API are being made".to_owned());
    };
    if cluster.facts.infrastructure_provisioned {
        return None;
    }
    if let Some(balancer) = related.balancer.as_ref().and_then(balancer) {
        return Some(balancer);
    }
    let Some(infrastructure) = &related.infrastructure else {
        return waiting("the infrastructure is being made".to_owned());
    };
    let kind = &infrastructure.kind;
    match ill(&infrastructure.facts.conditions) {
        Some(said) => waiting(format!("{kind}: {}", said.words())),
        None => waiting(format!("Cluster API has not taken up the {kind} yet")),
    }
}

/// What the load balancer before a control plane on machines of its own is waiting for. The infrastructure needs its endpoint, and
/// knows no more than that there is none.
fn balancer(found: &LoadBalancerRequestStatus) -> Option<Waiting> {
    let is_failed = found.phase == Some(LoadBalancerPhase::Failed);
    if found.endpoint.is_some() && !is_failed {
        return None;
    }
    let failure = found.failure_message.as_deref();
    let ready = said(&found.conditions, types::READY).filter(|said| said.status != "True");
    let words = failure.or_else(|| ready.map(|said| said.message.as_str()));
    let words = words.filter(|words| !words.is_empty());
    let words = words.unwrap_or("it has no endpoint yet");
    let why = format!("LoadBalancerRequest: {words}");
    let what = types::INFRASTRUCTURE_READY;
    let waiting = Waiting::new(what, reasons::INFRASTRUCTURE_PROVISIONING, why);
    let waiting = waiting.since(ready.map(|said| said.last_transition_time.0));
    Some(if is_failed {
        waiting.needs_somebody()
    } else {
        waiting
    })
}

/// The first condition that does not hold and says why.
fn ill(conditions: &[Said]) -> Option<&Said> {
    let mut conditions = conditions.iter();
    conditions.find(|said| !said.holds() && !said.words().is_empty())
}

fn control_plane(related: &Related) -> Option<Waiting> {
    let what = types::CONTROL_PLANE_READY;
    let waiting = |why: String| Waiting::new(what, reasons::CONTROL_PLANE_PROVISIONING, why);
    let Some(found) = &related.control_plane else {
        return Some(waiting("the control plane is being made".to_owned()));
    };
    let facts = &found.facts;
    let kind = &found.kind;
    if !facts.initialized || !facts.available {
        // What hosts it knows more than what stands for it in Cluster API.
        let hosted = related.hosted.as_ref();
        let hosted = hosted.and_then(|hosted| ill(&hosted.conditions));
        let available = facts.conditions.iter();
        let mut available = available
            .filter(|said| [types::AVAILABLE, types::READY].contains(&said.type_.as_str()));
        let own = available.find(|said| !said.holds() && !said.words().is_empty());
        let said = hosted.or(own);
        let words = said.map_or("it does not answer yet", Said::words);
        let since = said.and_then(|said| said.since);
        return Some(waiting(format!("{kind}: {words}")).since(since));
    }
    if related.kubeconfig.is_none() {
        return Some(waiting("the kubeconfig is being made".to_owned()));
    }
    None
}

fn workers(cluster: &TenantCluster, related: &Related) -> Option<Waiting> {
    let what = types::WORKERS_READY;
    let name = cluster.name_any();
    let (mut wanted, mut ready) = (0_i32, 0_i32);
    for pool in pools(&cluster.spec) {
        let deployment = related
            .deployments
            .get(&super::deployment_name(&name, &pool.name));
        let found = deployment.map_or(0, |deployment| deployment.facts.ready);
        wanted = wanted.saturating_add(pool.replicas);
        ready = ready.saturating_add(found.min(pool.replicas));
    }
    if ready >= wanted {
        return None;
    }
    let count = format!("{ready} of {wanted} workers are ready");
    let waiting = |why: String| Waiting::new(what, reasons::WORKERS_PROVISIONING, why);
    let mut machines = related.workers().filter(|(_, machine)| !machine.is_ready());
    let Some((machine, facts)) = machines.next() else {
        return Some(waiting(count));
    };
    Some(match trouble(machine, facts, related) {
        Some(said) => {
            let why = format!("{count}, and {machine} is not: {}", said.words());
            waiting(why).since(said.since)
        }
        None => waiting(format!("{count}, and {machine} is being made")),
    })
}

/// What keeps a machine from being a node, or from going.
pub(super) fn trouble<'a>(
    name: &str,
    machine: &'a MachineFacts,
    related: &'a Related,
) -> Option<&'a Said> {
    let words = related.machine_words.get(name);
    let words = words.filter(|said| !said.holds() && !said.words().is_empty());
    if machine.deleting {
        // Of a deletion that is under way, Cluster API says how far it is, and the infrastructure what holds it up.
        let mut conditions = machine.conditions.iter();
        let deleting = conditions.find(|said| said.type_ == types::DELETING && said.holds());
        return words.or(deleting);
    }
    let ill = ill(&machine.conditions);
    ill.filter(|said| said.type_ != types::INFRASTRUCTURE_READY)
        .or(words)
        .or(ill)
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;

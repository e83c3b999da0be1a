//! Which machines have a kube-proxy that works: without one, what comes to the address of a Service ends at the machine.
//!
//! Owns: when a kube-proxy is asked, and what is made of its answers. It cannot be watched, so it is asked again: soon while it does
//! not answer, seldom while it does, and not at all while no Service of the cluster wants an address.
//!
//! Must not: write to an API server, or decide where an address is ([`crate::placement`]).

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use butler_api::name::MachineName;
use butler_runtime::{backoff::Backoff, failure::Class};
use futures::{FutureExt as _, future::join_all};
use jiff::{SignedDuration, Timestamp};

use crate::{
    facts::NodeFacts,
    hands::{Hands, LocalMachine, ProxyAnswer},
    members::members,
    run::{Bell, Memories},
    source::Source,
};

/// A node that is ready for so long and whose kube-proxy does not answer perhaps has none, or somebody else's. One that says for so long
/// that it works, while nftables know nothing of it, tells the kernel by other means.
const GRACE: SignedDuration = SignedDuration::from_secs(30);
/// One that answered is perhaps being replaced: what it told the kernel stays meanwhile.
const FORGIVEN: SignedDuration = SignedDuration::from_secs(15);
/// How often one is asked that works.
const SELDOM: Duration = Duration::from_secs(10);
/// How often one is asked that does not.
const BACKOFF: Backoff = Backoff {
    shortest: Duration::from_millis(250),
    longest: Duration::from_secs(5),
};

/// What is known of the kube-proxy of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// Nobody has asked yet.
    #[default]
    Unknown,
    /// It does not work, and may be about to.
    Awaited,
    /// Its rules are in step.
    Works,
    /// It does not work, and that has lasted.
    Silent,
}

/// What is known of all of them, by the machine and its life. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedProxies(Arc<Mutex<BTreeMap<MachineName, (u32, Proxy)>>>);

impl SharedProxies {
    /// Of the machine in this life.
    pub(crate) fn of(&self, machine: &MachineName, life: Option<u32>) -> Proxy {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(machine);
        let known = known.filter(|(of, _)| Some(*of) == life);
        known.map(|(_, proxy)| *proxy).unwrap_or_default()
    }

    /// Says whether that is news.
    fn set(&self, found: BTreeMap<MachineName, (u32, Proxy)>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news = *known != found;
        *known = found;
        news
    }
}

/// What one kube-proxy has answered in the present life of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    life: u32,
    asked: Timestamp,
    last: ProxyAnswer,
    /// Since when it says the same.
    since: Timestamp,
    /// How often in a row it did not work.
    failures: u32,
    /// When it worked last.
    worked: Option<Timestamp>,
}

impl Record {
    /// What is on record after an answer.
    fn after(before: Option<&Self>, life: u32, answer: ProxyAnswer, now: Timestamp) -> Self {
        let works = answer == ProxyAnswer::InStep;
        let failures = before.map_or(0, |before| before.failures);
        Self {
            life,
            asked: now,
            last: answer,
            since: before
                .filter(|before| before.last == answer)
                .map_or(now, |before| before.since),
            failures: if works { 0 } else { failures.saturating_add(1) },
            worked: works
                .then_some(now)
                .or_else(|| before.and_then(|before| before.worked)),
        }
    }

    fn verdict(&self, ready_since: Option<Timestamp>, now: Timestamp) -> Proxy {
        let lasted = |since: Timestamp| now.duration_since(since);
        let is_missed = || {
            self.last == ProxyAnswer::Nothing
                && self.worked.is_some_and(|worked| lasted(worked) < FORGIVEN)
        };
        if self.last == ProxyAnswer::InStep || is_missed() {
            Proxy::Works
        } else if self.last == ProxyAnswer::Unproven {
            if lasted(self.since) < GRACE {
                Proxy::Awaited
            } else {
                Proxy::Works
            }
        } else if ready_since.is_some_and(|since| lasted(since) < GRACE) {
            Proxy::Awaited
        } else {
            Proxy::Silent
        }
    }

    /// When it is to be asked again.
    fn due(&self) -> Timestamp {
        let wait = if self.failures == 0 {
            SELDOM
        } else {
            BACKOFF.after(self.failures, Class::Retry, 1.0)
        };
        let wait = SignedDuration::try_from(wait).unwrap_or(FORGIVEN);
        // Beyond the end of time nobody is asked.
        self.asked.checked_add(wait).unwrap_or(Timestamp::MAX)
    }
}

/// A machine whose kube-proxy matters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    name: MachineName,
    life: u32,
    address: Ipv4Addr,
    ready_since: Option<Timestamp>,
}

/// Asks the kube-proxies of one cluster.
pub(crate) struct Prober<H> {
    pub(crate) hands: Arc<H>,
    pub(crate) source: Source,
    pub(crate) memories: Memories,
    pub(crate) proxies: SharedProxies,
    /// Rung when something else is known than before.
    pub(crate) news: Bell,
}

impl<H: Hands> Prober<H> {
    /// Asks whoever is due, for as long as it is wanted.
    pub(crate) async fn keep(self, bell: &Bell) {
        let mut records = BTreeMap::new();
        loop {
            match self.pass(&mut records).await {
                Some(wait) => {
                    // Whoever rings has news; else it is time.
                    let _ = tokio::time::timeout(wait, bell.rung()).await;
                }
                None => bell.rung().await,
            }
        }
    }

    /// Asks whoever is due, and says when the next one is.
    async fn pass(&self, records: &mut BTreeMap<MachineName, Record>) -> Option<Duration> {
        if !self.memories.are_synced() {
            return None;
        }
        let services = self.memories.services.list();
        if !services.iter().any(|service| service.value.is_wanting()) {
            records.clear();
            self.proxies.set(BTreeMap::new());
            return None;
        }
        let Some(candidates) = self.candidates().await else {
            return Some(BACKOFF.after(1, Class::Retry, 1.0));
        };
        records.retain(|name, record| {
            let mut candidates = candidates.iter();
            candidates.any(|found| found.name == *name && found.life == record.life)
        });
        let now = Timestamp::now();
        let is_due = |candidate: &&Candidate| {
            let record = records.get(&candidate.name);
            record.is_none_or(|record| record.due() <= now)
        };
        let asking = candidates
            .iter()
            .filter(is_due)
            .map(|candidate| ask(Arc::clone(&self.hands), candidate.clone()).boxed());
        let answers = join_all(asking).await;
        let now = Timestamp::now();
        for (candidate, answer) in answers {
            let record = Record::after(records.get(&candidate.name), candidate.life, answer, now);
            records.insert(candidate.name, record);
        }
        if self.proxies.set(verdicts(&candidates, records, now)) {
            self.news.ring();
        }
        let next = records.values().map(Record::due).min()?;
        let wait = Duration::try_from(next.duration_since(now));
        Some(wait.unwrap_or_default())
    }

    /// The machines that could serve an address, by what their nodes say.
    async fn candidates(&self) -> Option<Vec<Candidate>> {
        let mut machines = match self.hands.machines().await {
            Ok(machines) => machines,
            Err(error) => {
                tracing::warn!(%error, "could not look at the machines; it is tried again");
                return None;
            }
        };
        machines.retain(|machine| self.source.may_have(machine));
        let nodes = self.memories.nodes.list();
        let nodes: Vec<NodeFacts> = nodes.iter().map(|node| node.value.clone()).collect();
        let members = members(&machines, &nodes);
        let candidate = |machine: &LocalMachine| {
            let node = members.get(&machine.name)?;
            let could_serve = node.ready && !node.deleting && !node.excluded;
            Some(Candidate {
                name: machine.name.clone(),
                life: machine.life.filter(|_| could_serve)?,
                address: machine.address,
                ready_since: node.ready_since,
            })
        };
        Some(machines.iter().filter_map(candidate).collect())
    }
}

async fn ask<H: Hands>(hands: Arc<H>, candidate: Candidate) -> (Candidate, ProxyAnswer) {
    let answer = hands
        .ask_kube_proxy(&candidate.name, candidate.address)
        .await;
    (candidate, answer)
}

fn verdicts(
    candidates: &[Candidate],
    records: &BTreeMap<MachineName, Record>,
    now: Timestamp,
) -> BTreeMap<MachineName, (u32, Proxy)> {
    let verdict = |candidate: &Candidate| {
        let record = records.get(&candidate.name)?;
        let verdict = record.verdict(candidate.ready_since, now);
        Some((candidate.name.clone(), (candidate.life, verdict)))
    };
    candidates.iter().filter_map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::machine_name;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Answers at seconds, one after the other.
    fn record(answers: &[(i64, ProxyAnswer)]) -> Record {
        let mut record = None;
        for (second, answer) in answers {
            record = Some(Record::after(record.as_ref(), 1, *answer, at(*second)));
        }
        record.unwrap()
    }

    #[test]
    fn one_that_never_answers_is_waited_for_until_its_node_is_ready_for_a_while() {
        let record = record(&[(100, ProxyAnswer::Nothing)]);
        let ready = Some(at(90));
        assert_eq!(record.verdict(ready, at(119)), Proxy::Awaited);
        assert_eq!(record.verdict(ready, at(120)), Proxy::Silent);
        assert_eq!(record.verdict(None, at(100)), Proxy::Silent);
    }

    #[test]
    fn one_that_worked_is_missed_for_a_while_but_believed_when_it_says_no() {
        let restarting = record(&[(100, ProxyAnswer::InStep), (110, ProxyAnswer::Nothing)]);
        assert_eq!(restarting.verdict(Some(at(0)), at(114)), Proxy::Works);
        assert_eq!(restarting.verdict(Some(at(0)), at(115)), Proxy::Silent);
        let behind = record(&[(100, ProxyAnswer::InStep), (101, ProxyAnswer::Behind)]);
        assert_eq!(behind.verdict(Some(at(0)), at(101)), Proxy::Silent);
    }

    #[test]
    fn one_that_has_told_the_kernel_nothing_is_waited_for_until_it_is_clear_that_it_uses_other_means()
     {
        let begun = record(&[(100, ProxyAnswer::Nothing), (101, ProxyAnswer::Unproven)]);
        assert_eq!(begun.verdict(Some(at(0)), at(130)), Proxy::Awaited);
        assert_eq!(begun.verdict(Some(at(0)), at(131)), Proxy::Works);
        let longer = record(&[(101, ProxyAnswer::Unproven), (120, ProxyAnswer::Unproven)]);
        assert_eq!(longer.verdict(Some(at(0)), at(131)), Proxy::Works);
        let told = record(&[(101, ProxyAnswer::Unproven), (102, ProxyAnswer::InStep)]);
        assert_eq!(told.verdict(Some(at(0)), at(102)), Proxy::Works);
    }

    #[test]
    fn one_that_works_is_asked_seldom_and_one_that_does_not_ever_more_seldom() {
        assert_eq!(record(&[(100, ProxyAnswer::InStep)]).due(), at(110));
        let nothing = |count: usize| record(&vec![(100, ProxyAnswer::Nothing); count]);
        assert!(nothing(1).due() < at(101));
        assert!(nothing(1).due() < nothing(3).due());
        assert_eq!(nothing(50).due(), at(105));
        let back = record(&[(100, ProxyAnswer::Nothing), (101, ProxyAnswer::InStep)]);
        assert_eq!(back.due(), at(111));
    }

    #[test]
    fn what_was_known_of_an_earlier_life_of_a_machine_counts_for_nothing() {
        let proxies = SharedProxies::default();
        let name = machine_name("a");
        let found = BTreeMap::from([(name.clone(), (7, Proxy::Works))]);
        assert!(proxies.set(found.clone()));
        assert!(!proxies.set(found), "that is no news");
        assert_eq!(proxies.of(&name, Some(7)), Proxy::Works);
        assert_eq!(proxies.of(&name, Some(8)), Proxy::Unknown);
        assert_eq!(proxies.of(&name, None), Proxy::Unknown);
    }
}

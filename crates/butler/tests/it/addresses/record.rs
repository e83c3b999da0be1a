//! Everything that the API server tells of pools, pages and allocations, from the beginning.
//!
//! Owns: what is remembered of each revision. Does not own how revisions are heard of: see [`crate::history`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use butler_api::butler::{
    ip_allocation::{AllocationPhase, IPAllocation},
    network_pool::NetworkPool,
    network_pool_ledger::NetworkPoolLedger,
};
use kube::{Api, Client, Resource, ResourceExt, core::NamespaceResourceScope};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use super::replay::{Change, Fact, Numbers, replay};
use crate::{
    fleet::PATIENCE,
    history::{Followed, beginning, listen},
};

/// What was heard so far.
#[derive(Default)]
pub(crate) struct Record {
    /// All of it.
    pub(crate) changes: Vec<Change>,
    /// The names of allocations that are granted or refused now.
    pub(crate) settled: BTreeSet<String>,
    /// The names of the other allocations there are now.
    pub(crate) waiting: BTreeSet<String>,
    /// The names of allocations that were ever refused: what they ask for may be free later.
    pub(crate) refused: BTreeSet<String>,
    /// The UIDs of allocations that were ever granted something.
    pub(crate) served: BTreeSet<String>,
    /// The newest revision of every object there is, by kind and name.
    pub(crate) present: Present,
    /// How many changes of each kind were heard of.
    pub(crate) heard: BTreeMap<String, usize>,
    /// Why nothing more will be heard.
    failure: Option<String>,
}

/// Which objects there are, in which version.
pub(crate) type Present = BTreeMap<(String, String), String>;

/// A kind that is recorded.
pub(crate) trait Recorded: Followed + Resource<Scope = NamespaceResourceScope> {
    /// What an object says; nothing, once it is gone.
    fn fact(&self, gone: bool) -> Fact;

    /// Whether it is granted or refused, if it is an allocation.
    fn settled(&self) -> Option<bool> {
        None
    }

    /// Whether it is refused, if it is an allocation.
    fn is_refused(&self) -> bool {
        false
    }
}

impl Recorded for NetworkPool {
    fn fact(&self, gone: bool) -> Fact {
        Fact::of_pool(self, gone)
    }
}

impl Recorded for NetworkPoolLedger {
    fn fact(&self, gone: bool) -> Fact {
        Fact::of_page(self, gone)
    }
}

impl Recorded for IPAllocation {
    fn fact(&self, gone: bool) -> Fact {
        Fact::of_allocation(self, gone)
    }

    fn settled(&self) -> Option<bool> {
        let phase = self.status.as_ref().and_then(|status| status.phase);
        let answered = [AllocationPhase::Allocated, AllocationPhase::Failed];
        Some(phase.is_some_and(|phase| answered.contains(&phase)))
    }

    fn is_refused(&self) -> bool {
        let phase = self.status.as_ref().and_then(|status| status.phase);
        phase == Some(AllocationPhase::Failed)
    }
}

/// What an object is found by in [`Present`], and its version.
pub(crate) fn presence<K: Recorded>(object: &K) -> ((String, String), String) {
    let version = object.resource_version().unwrap();
    ((K::kind(&()).into_owned(), object.name_any()), version)
}

impl Record {
    fn hear<K: Recorded>(&mut self, object: &K, gone: bool) {
        let fact = object.fact(gone);
        if let Fact::Allocation {
            uid,
            shows: Some(_),
            ..
        } = &fact
        {
            self.served.insert(uid.clone());
        }
        if let Some(settled) = object.settled() {
            let name = object.name_any();
            self.settled.remove(&name);
            self.waiting.remove(&name);
            match settled {
                _ if gone => false,
                true => self.settled.insert(name),
                false => self.waiting.insert(name),
            };
        }
        if object.is_refused() {
            self.refused.insert(object.name_any());
        }
        let (key, version) = presence(object);
        *self.heard.entry(key.0.clone()).or_default() += 1;
        self.changes.push(Change {
            revision: version.parse().expect("a version of etcd is a number"),
            fact,
        });
        if gone {
            self.present.remove(&key);
        } else {
            self.present.insert(key, version);
        }
    }
}

/// Keeps the record while it lives.
pub(crate) struct Recorder {
    record: Arc<watch::Sender<Record>>,
    _watches: JoinSet<()>,
}

impl Recorder {
    /// Begins, while there is nothing yet.
    pub(crate) async fn start(client: &Client) -> Self {
        let record = Arc::new(watch::Sender::new(Record::default()));
        let mut watches = JoinSet::new();
        follow::<NetworkPool>(client, &record, &mut watches).await;
        follow::<NetworkPoolLedger>(client, &record, &mut watches).await;
        follow::<IPAllocation>(client, &record, &mut watches).await;
        Self {
            record,
            _watches: watches,
        }
    }

    /// Waits until the record shows something.
    pub(crate) async fn until(&self, what: &str, shows: impl Fn(&Record) -> bool) {
        let mut seen = self.record.subscribe();
        let waiting = seen.wait_for(|record| record.failure.is_some() || shows(record));
        let outcome = timeout(PATIENCE, waiting).await;
        let record = outcome.unwrap_or_else(|_| panic!("waited in vain until {what}"));
        assert_eq!(record.unwrap().failure, None);
    }

    /// Checks every revision that was heard of.
    pub(crate) fn replay(&self, numbers: Numbers) {
        let changes = self.read(|record| record.changes.clone());
        if let Err(broken) = replay(changes, numbers) {
            panic!("{broken}");
        }
    }

    /// Reads the record.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Record) -> T) -> T {
        read(&self.record.borrow())
    }
}

/// Follows all objects of a kind from now on.
async fn follow<K: Recorded>(
    client: &Client,
    record: &Arc<watch::Sender<Record>>,
    watches: &mut JoinSet<()>,
) {
    let api = Api::<K>::default_namespaced(client.clone());
    let from = beginning(&api).await;
    let record = Arc::clone(record);
    watches.spawn(async move {
        let failure = listen(&api, from, |object: &K, gone| {
            record.send_modify(|record| record.hear(object, gone));
        })
        .await;
        record.send_modify(|record| record.failure = Some(failure.to_string()));
    });
}

//! Keeps the books: asks for addresses, shows them on Services, gives them back.
//!
//! Owns: all that is written to the API servers. Reads the caches and the [`crate::board`]; at rest it writes nothing.
//!
//! Must not: decide where an address is served.

mod perform;
pub(crate) mod plan;
mod plan_in_ranges;

use std::{collections::BTreeMap, time::Duration};

use butler_runtime::{
    cache::AnyStore as _,
    failure::{Class, Failure},
};
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;

use crate::{
    board::SharedBoard,
    cluster::Counter,
    facts::{AllocationFacts, ServiceFacts},
    ranges::{self, Choice},
    run::{Memories, Pass},
    source::{Estate, Source},
};
pub(crate) use perform::Desk;
use perform::Written;
use plan::{Marking, Step};

/// How many Services are written about at the same time.
const AT_ONCE: usize = 8;
/// How long all writes about one Service may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// The keeper of the books of one cluster.
pub(crate) struct Books {
    pub(crate) source: Source,
    pub(crate) memories: Memories,
    pub(crate) board: SharedBoard,
    pub(crate) desk: Desk,
    /// What was written about the owner with a UID, and is not seen yet.
    pub(crate) unseen: BTreeMap<String, Vec<Written>>,
}

/// Work about one Service, about one that is gone, or about a range.
struct Work {
    owner: String,
    service: Option<ServiceFacts>,
    steps: Vec<Step>,
}

impl Pass for Books {
    /// Looks at everything once and writes what is due.
    async fn pass(&mut self) -> bool {
        if !self.memories.are_synced() {
            return true;
        }
        let now = Timestamp::now();
        let works = self.works(now);
        let done: Vec<_> = stream::iter(works)
            .map(|work| carry_out(self.desk.clone(), work, now).boxed())
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut well = true;
        for (owner, written, succeeded) in done {
            well &= succeeded;
            if !written.is_empty() {
                self.unseen.insert(owner, written);
            }
        }
        well
    }
}

impl Books {
    /// What is due. Whoever was written about is left alone until the caches show it.
    fn works(&mut self, now: Timestamp) -> Vec<Work> {
        let memories = &self.memories;
        self.unseen.retain(|_, written| {
            written.retain(|written| match *written {
                Written::Service(revision) => memories.services.newest() < revision,
                Written::Allocation(revision) => memories.allocations.newest() < revision,
            });
            !written.is_empty()
        });
        let mut works = match &self.source {
            Source::Pool(counter) => self.works_with_pool(counter, now),
            Source::Ranges(estate) => self.works_in_ranges(estate, now),
        };
        works.retain(|work| !work.steps.is_empty() && !self.unseen.contains_key(&work.owner));
        works
    }

    fn works_with_pool(&self, counter: &Counter, now: Timestamp) -> Vec<Work> {
        let memories = &self.memories;
        let mut allocations = memories.allocations_of_services();
        let services = memories.services.list();
        // After the caches: see there.
        let board = self.board.lock().clone();
        let mut works = Vec::new();
        for service in services {
            let service = service.value.clone();
            let own = allocations.remove(&service.uid).unwrap_or_default();
            let steps = plan::plan(&service, &own, counter, &board, now);
            works.push(Work {
                owner: service.uid.clone(),
                service: Some(service),
                steps,
            });
        }
        let orphans = |(owner, own): (String, Vec<AllocationFacts>)| Work {
            steps: plan::plan_orphans(&own, &board),
            owner,
            service: None,
        };
        works.extend(allocations.into_iter().map(orphans));
        works
    }

    fn works_in_ranges(&self, estate: &Estate, now: Timestamp) -> Vec<Work> {
        let ranges = estate.ranges(&self.memories);
        let cached = self.memories.services.list();
        // After the caches: see there.
        let board = self.board.lock().clone();
        let services: Vec<_> = cached.iter().map(|service| &service.value).collect();
        let mut unseen = self.unseen.values().flatten();
        let all_seen = !unseen.any(|written| matches!(written, Written::Service(_)));
        let choice = match (all_seen, estate.grows) {
            (false, _) => Choice::None,
            (true, false) => Choice::Fixed,
            (true, true) => Choice::Growing,
        };
        let standings = ranges::standings(&services, &ranges, choice);
        if all_seen {
            let waiting = Some(ranges::waiting(&standings));
            estate.waiting.send_if_modified(|told| {
                let differs = *told != waiting;
                *told = waiting;
                differs
            });
        }
        let none = ranges::Standing::default();
        let of_services = services.iter().map(|service| {
            let standing = standings.get(&service.uid).unwrap_or(&none);
            Work {
                owner: service.uid.clone(),
                service: Some((*service).clone()),
                steps: plan_in_ranges::plan(service, standing, &ranges, &board, now),
            }
        });
        let of_ranges = ranges.iter().filter_map(|range| {
            let change = ranges::mark_change(range, &services, &standings, &board, all_seen)?;
            Some(Work {
                owner: range.allocation.uid.clone(),
                service: None,
                steps: vec![Step::Mark(Marking::of(&range.allocation, change))],
            })
        });
        of_services.chain(of_ranges).collect()
    }
}

/// Performs the steps until one fails.
async fn carry_out(desk: Desk, work: Work, now: Timestamp) -> (String, Vec<Written>, bool) {
    let Work {
        owner,
        service,
        steps,
    } = work;
    let mut written = Vec::new();
    let performing = async {
        for step in &steps {
            let done = desk.perform(step, service.as_ref(), now).await;
            written.extend(done.map_err(Failure::from)?);
        }
        Ok::<(), Failure>(())
    };
    let outcome = tokio::time::timeout(PATIENCE, performing).await;
    let service = service.map(|service| service.key.to_string());
    let well = match outcome {
        Ok(Ok(())) => true,
        // Somebody was faster: the cache will show what they did, and that brings the next pass.
        Ok(Err(failure)) if failure.class == Class::Stale => true,
        Ok(Err(failure)) => {
            tracing::warn!(service, %failure, "could not keep the books of a Service; it is tried again");
            false
        }
        Err(_) => {
            tracing::warn!(
                service,
                "writing about a Service took too long; it is tried again"
            );
            false
        }
    };
    (owner, written, well)
}

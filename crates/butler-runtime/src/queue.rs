//! Which objects deserve a pass, and when.
//!
//! Each key is in the queue at most once and is worked on by at most one worker; a key added while it is worked on gets
//! another pass afterwards. [`Schedule`] is the rule, pure; [`Queue`] lets workers wait on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::object::ObjectKey;

/// How many keys a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// That wait, also for a time to come.
    pub waiting: usize,
    /// That are worked on.
    pub running: usize,
}

/// The rule of the queue, over any kind of time.
#[derive(Debug)]
pub struct Schedule<T> {
    due: BTreeMap<ObjectKey, T>,
    order: BTreeSet<(T, ObjectKey)>,
    working: BTreeSet<ObjectKey>,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            order: BTreeSet::new(),
            working: BTreeSet::new(),
        }
    }
}

impl<T: Copy + Ord> Schedule<T> {
    /// Asks for a pass at a time. An earlier wish stands.
    pub fn add(&mut self, key: ObjectKey, at: T) {
        if let Some(known) = self.due.get(&key).copied() {
            if known <= at {
                return;
            }
            self.order.remove(&(known, key.clone()));
        }
        self.order.insert((at, key.clone()));
        self.due.insert(key, at);
    }

    /// The next key whose time has come and that nobody works on.
    pub fn take(&mut self, now: T) -> Option<ObjectKey> {
        let ready = self.order.iter().take_while(|(at, _)| *at <= now);
        let (at, key) = ready
            .into_iter()
            .find(|(_, key)| !self.working.contains(key))
            .cloned()?;
        self.order.remove(&(at, key.clone()));
        self.due.remove(&key);
        self.working.insert(key.clone());
        Some(key)
    }

    /// The pass over a key ended.
    pub fn done(&mut self, key: &ObjectKey) {
        self.working.remove(key);
    }

    /// When the next key that nobody works on is due.
    pub fn next_due(&self) -> Option<T> {
        self.order
            .iter()
            .find(|(_, key)| !self.working.contains(key))
            .map(|(at, _)| *at)
    }

    /// How many keys there are.
    pub fn load(&self) -> Load {
        Load {
            waiting: self.due.len(),
            running: self.working.len(),
        }
    }
}

/// A queue that workers wait on.
#[derive(Debug, Default)]
pub struct Queue {
    schedule: Mutex<Schedule<Instant>>,
    changed: Notify,
}

impl Queue {
    fn schedule(&self) -> MutexGuard<'_, Schedule<Instant>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a pass now.
    pub fn add(&self, key: ObjectKey) {
        self.add_at(key, Instant::now());
    }

    /// Asks for a pass at a time.
    pub fn add_at(&self, key: ObjectKey, at: Instant) {
        self.schedule().add(key, at);
        self.changed.notify_one();
    }

    /// Waits for the next key.
    pub async fn take(&self) -> ObjectKey {
        loop {
            let changed = self.changed.notified();
            let (key, next) = {
                let mut schedule = self.schedule();
                (schedule.take(Instant::now()), schedule.next_due())
            };
            match (key, next) {
                (Some(key), next) => {
                    // A wake-up can stand for several keys: pass it on to the next worker.
                    if next.is_some() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                (None, Some(due)) => {
                    tokio::select! { () = changed => {}, () = sleep_until(due) => {} }
                }
                (None, None) => changed.await,
            }
        }
    }

    /// The pass over a key ended.
    pub fn done(&self, key: &ObjectKey) {
        self.schedule().done(key);
        self.changed.notify_one();
    }

    /// How many keys there are, all at one moment.
    pub fn load(&self) -> Load {
        self.schedule().load()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster(name)
    }

    #[test]
    fn an_object_that_changes_during_its_pass_gets_another() {
        let mut schedule = Schedule::default();
        schedule.add(key("a"), 1);
        assert_eq!(schedule.take(1), Some(key("a")));
        schedule.add(key("a"), 1);
        assert_eq!(schedule.take(1), None);
        schedule.done(&key("a"));
        assert_eq!(schedule.take(1), Some(key("a")));
    }

    #[test]
    fn an_early_wish_is_not_lost_to_a_late_one() {
        let mut schedule = Schedule::default();
        schedule.add(key("a"), 5);
        schedule.add(key("a"), 9);
        assert_eq!(schedule.next_due(), Some(5));
        schedule.add(key("a"), 2);
        assert_eq!(schedule.next_due(), Some(2));
        assert_eq!(schedule.load().waiting, 1);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8, u8),
        Take(u8),
        Done,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u8..6, 0_u8..9).prop_map(|(name, at)| Step::Add(name, at)),
            (0_u8..9).prop_map(Step::Take),
            Just(Step::Done),
        ]
    }

    proptest! {
        #[test]
        fn no_key_is_worked_on_twice_at_once_and_none_is_lost(steps in prop::collection::vec(step(), 0..200)) {
            let mut schedule = Schedule::default();
            let mut working: Vec<ObjectKey> = Vec::new();
            let mut wished: BTreeSet<ObjectKey> = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Add(name, at) => {
                        let key = key(&name.to_string());
                        wished.insert(key.clone());
                        schedule.add(key, at);
                    }
                    Step::Take(now) => {
                        if let Some(key) = schedule.take(now) {
                            prop_assert!(!working.contains(&key));
                            prop_assert!(wished.remove(&key));
                            working.push(key);
                        }
                    }
                    Step::Done => {
                        if let Some(key) = working.pop() {
                            schedule.done(&key);
                        }
                    }
                }
                prop_assert_eq!(schedule.load().waiting, wished.len());
            }
            for key in working {
                schedule.done(&key);
            }
            while let Some(key) = schedule.take(u8::MAX) {
                prop_assert!(wished.remove(&key));
            }
            prop_assert!(wished.is_empty());
        }
    }
}

//! Waiting for objects by watching them.
//!
//! Nothing here looks twice at the same state: each change of an object wakes the waiting test, and no time passes between
//! the change and the test's going on. A wait that ends in vain says what was waited for and what was seen last.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::show;

/// An object that can be waited for and shown.
pub trait Waitable:
    Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static
{
}

impl<K> Waitable for K where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static
{
}

/// A wait that ended in vain; its `Display` is the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    subject: String,
    what: String,
    waited: Duration,
    last_seen: Option<String>,
    last_error: Option<String>,
}

impl fmt::Display for Unmet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "waited {:?} in vain until {}: {}",
            self.waited, self.subject, self.what
        )?;
        match &self.last_seen {
            Some(last_seen) => write!(formatter, "\nlast seen: {last_seen}")?,
            None => write!(formatter, "\nthe API server has shown nothing yet")?,
        }
        if let Some(error) = &self.last_error {
            write!(formatter, "\nlast error of the watch: {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Unmet {}

/// Waits until the object of this name satisfies `predicate`, and returns it. The predicate also sees that the object is
/// absent, but only an object ends the wait: absence is waited for by [`eventually_gone`].
///
/// # Panics
/// If `timeout` passes first; the message shows `what` was waited for and the object as last seen.
pub async fn eventually<K: Waitable>(
    api: &Api<K>,
    name: &str,
    what: &str,
    timeout: Duration,
    predicate: impl FnMut(Option<&K>) -> bool,
) -> K {
    met(try_eventually(api, name, what, timeout, predicate).await)
}

/// Waits until there is no object of this name.
///
/// # Panics
/// If `timeout` passes first; the message shows the object as last seen.
pub async fn eventually_gone<K: Waitable>(api: &Api<K>, name: &str, timeout: Duration) {
    met(try_eventually_gone(api, name, timeout).await);
}

/// Waits until the objects that match the label selector (all, if it is empty) satisfy `predicate`, and returns them in
/// the order of their namespaces and names.
///
/// # Panics
/// If `timeout` passes first; the message shows `what` was waited for and the objects as last seen.
pub async fn eventually_all<K: Waitable>(
    api: &Api<K>,
    labels: &str,
    what: &str,
    timeout: Duration,
    predicate: impl FnMut(&[K]) -> bool,
) -> Vec<K> {
    met(try_eventually_all(api, labels, what, timeout, predicate).await)
}

/// As [`eventually`], with the report as an error.
pub async fn try_eventually<K: Waitable>(
    api: &Api<K>,
    name: &str,
    what: &str,
    timeout: Duration,
    mut predicate: impl FnMut(Option<&K>) -> bool,
) -> Result<K, Unmet> {
    let unmet = unmet(api, name, what, timeout);
    wait_for_object(api, name, unmet, |found| {
        let accepted = predicate(found.as_ref());
        found.filter(|_| accepted)
    })
    .await
}

/// As [`eventually_gone`], with the report as an error.
pub async fn try_eventually_gone<K: Waitable>(
    api: &Api<K>,
    name: &str,
    timeout: Duration,
) -> Result<(), Unmet> {
    let unmet = unmet(api, name, "is gone", timeout);
    wait_for_object(api, name, unmet, |found| found.is_none().then_some(())).await
}

/// As [`eventually_all`], with the report as an error.
pub async fn try_eventually_all<K: Waitable>(
    api: &Api<K>,
    labels: &str,
    what: &str,
    timeout: Duration,
    mut predicate: impl FnMut(&[K]) -> bool,
) -> Result<Vec<K>, Unmet> {
    let mut unmet = unmet(api, labels, what, timeout);
    let watching = async {
        let events =
            watch(api.clone(), watcher::Config::default().labels(labels)).default_backoff();
        pin_mut!(events);
        let mut objects = BTreeMap::new();
        let mut complete = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    objects.clear();
                    complete = false;
                }
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    objects.insert(key(&object), object);
                }
                Ok(Event::Delete(object)) => {
                    objects.remove(&key(&object));
                }
                Ok(Event::InitDone) => complete = true,
                Err(error) => unmet.last_error = Some(error.to_string()),
            }
            if complete {
                let seen: Vec<K> = objects.values().cloned().collect();
                if predicate(&seen) {
                    return Some(seen);
                }
                unmet.last_seen = Some(show_all(&seen));
            }
        }
        None
    };
    let outcome = tokio::time::timeout(timeout, watching).await;
    outcome.ok().flatten().ok_or(unmet)
}

async fn wait_for_object<K: Waitable, T>(
    api: &Api<K>,
    name: &str,
    mut unmet: Unmet,
    mut accept: impl FnMut(Option<K>) -> Option<T>,
) -> Result<T, Unmet> {
    let waited = unmet.waited;
    let watching = async {
        let states = watcher::watch_object(api.clone(), name).default_backoff();
        pin_mut!(states);
        while let Some(state) = states.next().await {
            match state {
                Ok(found) => {
                    unmet.last_seen = Some(
                        found
                            .as_ref()
                            .map_or_else(|| "(absent)".to_owned(), show::object),
                    );
                    if let Some(accepted) = accept(found) {
                        return Some(accepted);
                    }
                }
                Err(error) => unmet.last_error = Some(error.to_string()),
            }
        }
        None
    };
    let outcome = tokio::time::timeout(waited, watching).await;
    outcome.ok().flatten().ok_or(unmet)
}

fn unmet<K: Waitable>(api: &Api<K>, which: &str, what: &str, timeout: Duration) -> Unmet {
    Unmet {
        subject: format!("{} {which}", api.resource_url())
            .trim_end()
            .to_owned(),
        what: what.to_owned(),
        waited: timeout,
        last_seen: None,
        last_error: None,
    }
}

fn key<K: Resource>(object: &K) -> (Option<String>, String) {
    (object.namespace(), object.name_any())
}

fn show_all<K: Serialize>(objects: &[K]) -> String {
    let shown: Vec<String> = objects.iter().map(show::object).collect();
    format!("{} object(s)\n{}", objects.len(), shown.join("\n"))
}

#[expect(
    clippy::panic,
    reason = "a wait in vain fails the test, with the report as its message"
)]
fn met<T>(outcome: Result<T, Unmet>) -> T {
    match outcome {
        Ok(value) => value,
        Err(unmet) => panic!("{unmet}"),
    }
}

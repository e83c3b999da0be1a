//! The watch over what must not be missing in a tenant for long: policies that refuse writes, and what runs in it.
//!
//! Owns: one watch of metadata for each place, by our label, and what stands there: which object it is, and the generation of
//! its spec. A status that changes is no news. It decides nothing: whoever is told looks at the tenant again.

use std::{collections::BTreeMap, future};

use butler_api::keys::{labels, values};
use futures::{
    StreamExt,
    stream::{self, BoxStream, SelectAll},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event, watcher},
    },
};
use steward_tenant::Place;

type Told = Result<Event<PartialObjectMeta<DynamicObject>>, watcher::Error>;

/// The watches over one tenant. They go on only while somebody waits for them.
pub(super) struct Vigil {
    events: SelectAll<BoxStream<'static, (usize, Told)>>,
    seen: Vec<Seen>,
}

impl Vigil {
    /// Watches these places.
    pub(super) fn over(client: &Client, places: &[Place]) -> Self {
        let config = Config::default().labels(&format!(
            "{}={}",
            labels::STEWARD_PROJECT,
            values::STEWARD_PROJECT
        ));
        let watches = places.iter().enumerate().map(|(number, place)| {
            let resource = place.kind.api_resource();
            let api: Api<PartialObjectMeta<DynamicObject>> = match place.namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let events = watcher(api, config.clone()).default_backoff();
            events.map(move |event| (number, event)).boxed()
        });
        Self {
            events: stream::select_all(watches),
            seen: places.iter().map(|_| Seen::default()).collect(),
        }
    }

    /// Waits until all is seen that is there now. What changes afterwards is told by [`Self::change`].
    pub(super) async fn begin(&mut self) {
        while self.seen.iter().any(|seen| !seen.is_complete) {
            self.next().await;
        }
    }

    /// Waits until something of ours is changed, made or taken away.
    pub(super) async fn change(&mut self) {
        while !self.next().await {}
    }

    /// Waits for an event; says whether it is news.
    async fn next(&mut self) -> bool {
        match self.events.next().await {
            Some((number, Ok(event))) => {
                let seen = self.seen.get_mut(number);
                seen.is_some_and(|seen| seen.take(event))
            }
            Some((_, Err(error))) => {
                tracing::debug!(%error, "a watch over a tenant failed and is started again");
                false
            }
            // Nothing is watched.
            None => future::pending().await,
        }
    }
}

/// Which object it is, and how often its spec was changed.
type Stand = (Option<String>, Option<i64>);

/// What stands in one place, by name.
#[derive(Default)]
struct Seen {
    objects: BTreeMap<String, Stand>,
    listed: BTreeMap<String, Stand>,
    is_complete: bool,
}

impl Seen {
    /// Takes an event in; says whether what stands here has changed.
    fn take(&mut self, event: Event<PartialObjectMeta<DynamicObject>>) -> bool {
        let entry = |object: &PartialObjectMeta<DynamicObject>| {
            let stand = (object.uid(), object.metadata.generation);
            (object.name_any(), stand)
        };
        match event {
            Event::Init => {
                self.listed.clear();
                false
            }
            Event::InitApply(object) => {
                self.listed.extend([entry(&object)]);
                false
            }
            Event::InitDone => {
                let before = std::mem::replace(&mut self.objects, std::mem::take(&mut self.listed));
                self.is_complete = true;
                before != self.objects
            }
            Event::Apply(object) => {
                let (name, stand) = entry(&object);
                self.objects.insert(name, stand.clone()) != Some(stand)
            }
            Event::Delete(object) => self.objects.remove(&object.name_any()).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn object(name: &str, uid: &str, generation: i64) -> PartialObjectMeta<DynamicObject> {
        let metadata = json!({ "name": name, "uid": uid, "generation": generation });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    /// Which of the events are news.
    fn news(seen: &mut Seen, events: Vec<Event<PartialObjectMeta<DynamicObject>>>) -> Vec<bool> {
        events.into_iter().map(|event| seen.take(event)).collect()
    }

    fn list(objects: &[(&str, &str, i64)]) -> Vec<Event<PartialObjectMeta<DynamicObject>>> {
        let found = objects
            .iter()
            .map(|(name, uid, generation)| Event::InitApply(object(name, uid, *generation)));
        let mut events = vec![Event::Init];
        events.extend(found);
        events.push(Event::InitDone);
        events
    }

    #[test]
    fn what_is_changed_made_or_taken_away_is_news_and_a_status_is_not() {
        let mut seen = Seen::default();
        news(&mut seen, list(&[("dns", "a", 1)]));
        assert!(seen.is_complete);
        let told = news(
            &mut seen,
            vec![
                Event::Apply(object("dns", "a", 1)),
                Event::Apply(object("dns", "a", 2)),
                Event::Apply(object("proxy", "b", 1)),
                Event::Delete(object("dns", "a", 2)),
                Event::Apply(object("dns", "c", 2)),
            ],
        );
        assert_eq!(told, [false, true, true, true, true]);
    }

    #[test]
    fn what_happened_while_a_watch_was_away_is_news_when_it_is_back() {
        let mut seen = Seen::default();
        news(&mut seen, list(&[("dns", "a", 1)]));
        let again = news(&mut seen, list(&[("dns", "a", 1)]));
        assert_eq!(again, [false; 3], "nothing has happened");
        let gone = news(&mut seen, list(&[]));
        assert_eq!(gone, [false, true]);
        let another = news(&mut seen, list(&[("dns", "b", 1)]));
        assert_eq!(another.last(), Some(&true));
    }
}

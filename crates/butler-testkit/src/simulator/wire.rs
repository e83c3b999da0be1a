//! The way between actors and what they call: a request is *sent*, *handled* at some later step, and its answer *taken* at
//! a still later one. Between any two of these the caller can die.
//!
//! [`Wire::call`] is how a simulated port is made: the API server's is one, that of a cloud or a hypervisor can be another.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use rand::{RngExt, rngs::SmallRng};

use super::{chances::Chances, store::ObjectStore};

/// What the handler of a request may touch.
pub struct Handling<'a> {
    /// The API server's objects.
    pub store: &'a mut ObjectStore,
    pub(super) random: &'a mut SmallRng,
    pub(super) chances: &'a Chances,
}

/// How a request goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It never arrives.
    BeforeEffect,
    /// It takes effect, but its answer is lost.
    AfterEffect,
}

impl Handling<'_> {
    /// Draws whether this request goes wrong.
    pub fn fault(&mut self) -> Option<Fault> {
        if !self.random.random_bool(self.chances.unavailable) {
            return None;
        }
        let lost = self.random.random_bool(0.5);
        Some(if lost {
            Fault::AfterEffect
        } else {
            Fault::BeforeEffect
        })
    }
}

type Effect = Box<dyn FnOnce(&mut Handling<'_>) -> String + Send>;

enum State {
    Sent(Effect),
    Answered,
}

struct Call {
    client: String,
    state: State,
    abandoned: bool,
}

#[derive(Default)]
struct Calls {
    next: u64,
    open: BTreeMap<u64, Call>,
    just_sent: Vec<u64>,
}

/// Requests under way.
#[derive(Clone, Default)]
pub struct Wire(Arc<Mutex<Calls>>);

impl Wire {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request. When it is handled, `effect` runs; it gives the answer and the words for the log.
    pub fn call<T: Send + 'static>(
        &self,
        client: &str,
        effect: impl FnOnce(&mut Handling<'_>) -> (T, String) + Send + 'static,
    ) -> Reply<T> {
        let slot: Slot<T> = Arc::default();
        let answered = Arc::clone(&slot);
        let effect: Effect = Box::new(move |handling| {
            let (answer, words) = effect(handling);
            *answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            words
        });
        Reply {
            wire: self.clone(),
            client: client.to_owned(),
            effect: Some(effect),
            id: None,
            slot,
        }
    }

    /// Requests that wait to be handled.
    pub(super) fn sent(&self) -> Vec<u64> {
        let calls = self.calls();
        let sent = calls
            .open
            .iter()
            .filter(|(_, call)| matches!(call.state, State::Sent(_)));
        sent.map(|(id, _)| *id).collect()
    }

    /// Whether any of these requests has an answer to be taken.
    pub(super) fn has_answer(&self, ids: &[u64]) -> bool {
        let calls = self.calls();
        ids.iter().any(|id| {
            calls
                .open
                .get(id)
                .is_some_and(|call| matches!(call.state, State::Answered))
        })
    }

    /// Which of these requests are not answered and taken yet.
    pub(super) fn still_open(&self, ids: &mut Vec<u64>) {
        let calls = self.calls();
        ids.retain(|id| calls.open.contains_key(id));
    }

    /// Requests sent since the last call of this.
    pub(super) fn just_sent(&self) -> Vec<u64> {
        std::mem::take(&mut self.calls().just_sent)
    }

    /// Handles a request: gives its client and the words for the log.
    pub(super) fn handle(&self, id: u64, handling: &mut Handling<'_>) -> Option<(String, String)> {
        let mut call = self.calls().open.remove(&id)?;
        let State::Sent(effect) = call.state else {
            return None;
        };
        let mut words = effect(handling);
        let client = call.client.clone();
        if call.abandoned {
            words.push_str(", nobody hears the answer");
        } else {
            call.state = State::Answered;
            self.calls().open.insert(id, call);
        }
        Some((client, words))
    }

    /// Decides the fate of requests whose callers are gone: never sent, or on their way all the same.
    pub(super) fn settle_abandoned(&self, random: &mut SmallRng) {
        self.calls()
            .open
            .retain(|_, call| !call.abandoned || random.random_bool(0.5));
    }
}

type Slot<T> = Arc<Mutex<Option<T>>>;

/// The answer to come.
pub struct Reply<T> {
    wire: Wire,
    client: String,
    effect: Option<Effect>,
    id: Option<u64>,
    slot: Slot<T>,
}

impl<T> Future for Reply<T> {
    type Output = T;

    // Nobody is woken: the scheduler polls by hand, and knows from the wire whom.
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        if let Some(effect) = self.effect.take() {
            let call = Call {
                client: self.client.clone(),
                state: State::Sent(effect),
                abandoned: false,
            };
            let mut calls = self.wire.calls();
            let id = calls.next;
            calls.next += 1;
            calls.open.insert(id, call);
            calls.just_sent.push(id);
            drop(calls);
            self.id = Some(id);
            return Poll::Pending;
        }
        let answer = self
            .slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(answer) = answer else {
            return Poll::Pending;
        };
        if let Some(id) = self.id.take() {
            self.wire.calls().open.remove(&id);
        }
        Poll::Ready(answer)
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let Some(id) = self.id else {
            return;
        };
        let mut calls = self.wire.calls();
        match calls.open.get_mut(&id) {
            Some(call) if matches!(call.state, State::Sent(_)) => call.abandoned = true,
            Some(_) => drop(calls.open.remove(&id)),
            None => {}
        }
    }
}

//! A database in memory, at the other end of a wire: requests get lost, and so do answers.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use butler_testkit::simulator::{Fault, Handling, Wire};
use steward::store::{StoreAccess, StoreAnswer, StoreError, StoreErrorKind, StoreGrant, StorePort};

/// What is in all stores: for each store and UID, the schema and the user.
pub(crate) type Contents = Arc<Mutex<BTreeMap<(String, String), (String, String)>>>;

/// A database in memory.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) contents: Contents,
    pub(crate) wire: Wire,
    /// Whether it answers nothing but that it cannot.
    pub(crate) is_down: Arc<Mutex<bool>>,
}

impl Database {
    pub(crate) fn new(wire: Wire) -> Self {
        Self {
            contents: Contents::default(),
            wire,
            is_down: Arc::default(),
        }
    }

    fn ask(
        &self,
        words: String,
        act: impl FnOnce(&mut BTreeMap<(String, String), (String, String)>) -> Result<(), StoreError>
        + Send
        + 'static,
    ) -> StoreAnswer<'static> {
        let (contents, is_down) = (Arc::clone(&self.contents), Arc::clone(&self.is_down));
        let reply = self
            .wire
            .call("database", move |handling: &mut Handling<'_>| {
                let unreachable = || {
                    Err(StoreError {
                        kind: StoreErrorKind::Unreachable,
                        message: "no answer; check the endpoint".to_owned(),
                    })
                };
                let fault = handling.fault();
                if *is_down.lock().unwrap() || fault == Some(Fault::BeforeEffect) {
                    return (unreachable(), format!("{words}, in vain"));
                }
                let done = act(&mut contents.lock().unwrap());
                if fault == Some(Fault::AfterEffect) {
                    return (unreachable(), format!("{words}, unheard"));
                }
                (done, words)
            });
        Box::pin(reply)
    }
}

impl StorePort for Database {
    fn check<'a>(&'a self, store: &'a StoreAccess) -> StoreAnswer<'a> {
        self.ask(format!("checks {}", store.name), |_| Ok(()))
    }

    fn ensure<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        let place = (store.name.clone(), grant.uid.clone());
        let part = (grant.schema.clone(), grant.user.clone());
        self.ask(
            format!("gives {} a part of {}", grant.uid, store.name),
            move |contents| {
                let others = contents
                    .iter()
                    .filter(|(other, _)| other.0 == place.0 && other.1 != place.1);
                let mut others = others.map(|(_, part)| &part.0);
                if others.any(|schema| *schema == part.0) {
                    return Err(StoreError {
                        kind: StoreErrorKind::Taken,
                        message: "the schema is another tenant's".to_owned(),
                    });
                }
                contents.insert(place, part);
                Ok(())
            },
        )
    }

    fn discard<'a>(&'a self, store: &'a StoreAccess, grant: &'a StoreGrant) -> StoreAnswer<'a> {
        let place = (store.name.clone(), grant.uid.clone());
        self.ask(
            format!("takes {}'s part of {} away", grant.uid, store.name),
            move |contents| {
                contents.remove(&place);
                Ok(())
            },
        )
    }
}

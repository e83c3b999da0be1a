//! The port to an API server, spoken by the simulated one.

use std::sync::{Arc, Mutex, PoisonError};

use butler_runtime::{
    api_server::{Answer, ApiError, ApiServer, Cause, Part, Preconditions},
    object::{Kind, ObjectKey},
};
use serde_json::Value;

use super::{
    operation::{Operation, Response},
    store::ObjectStore,
    wire::{Fault, Handling, Wire},
};

/// An API server whose objects are in memory, as one client sees it.
#[derive(Clone)]
pub struct SimulatedApiServer {
    client: String,
    line: Line,
}

#[derive(Clone)]
enum Line {
    /// Every request is a step of a simulation.
    Wire(Wire),
    /// Every request is answered at once.
    Direct(Arc<Mutex<ObjectStore>>),
}

impl SimulatedApiServer {
    /// Requests go over a simulation's wire: each is handled, and its answer taken, at steps of their own.
    pub fn on_wire(client: impl Into<String>, wire: Wire) -> Self {
        Self {
            client: client.into(),
            line: Line::Wire(wire),
        }
    }

    /// Requests are answered at once, for tests of the store itself.
    pub fn direct(client: impl Into<String>, store: Arc<Mutex<ObjectStore>>) -> Self {
        Self {
            client: client.into(),
            line: Line::Direct(store),
        }
    }

    async fn ask(&self, operation: Operation) -> Result<Response, ApiError> {
        match &self.line {
            Line::Direct(store) => {
                let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
                store.perform(&self.client, operation)
            }
            Line::Wire(wire) => {
                let client = self.client.clone();
                let handle =
                    move |handling: &mut Handling<'_>| handled(handling, &client, operation);
                wire.call(&self.client, handle).await
            }
        }
    }

    async fn ask_for_object(&self, operation: Operation) -> Result<Value, ApiError> {
        Ok(self.ask(operation).await?.into_object().unwrap_or_default())
    }
}

/// Handles a request, or has it go wrong.
fn handled(
    handling: &mut Handling<'_>,
    client: &str,
    operation: Operation,
) -> (Result<Response, ApiError>, String) {
    let fault = handling.fault();
    let unavailable = ApiError {
        verb: operation.verb(),
        kind: operation.kind().to_string(),
        key: operation.key(),
        cause: Cause::Unavailable,
        message: "the server did not answer".to_owned(),
    };
    let words = operation.to_string();
    if fault == Some(Fault::BeforeEffect) {
        return (Err(unavailable), format!("{words} is lost"));
    }
    let (answer, words) = performed(handling.store, client, operation);
    if fault == Some(Fault::AfterEffect) {
        return (Err(unavailable), format!("{words}, its answer is lost"));
    }
    (answer, words)
}

/// Performs an operation and says what came of it.
pub(super) fn performed(
    store: &mut ObjectStore,
    client: &str,
    operation: Operation,
) -> (Result<Response, ApiError>, String) {
    let revision = store.revision();
    let words = operation.to_string();
    let write = operation.is_write();
    let answer = store.perform(client, operation);
    let words = match &answer {
        Err(error) => format!("{words}: {:?}", error.cause),
        Ok(_) if store.revision() != revision => format!("{words} (rv {})", store.revision()),
        Ok(_) if write => format!("{words} (unchanged)"),
        Ok(Response::Objects(objects)) => format!("{words} ({} found)", objects.len()),
        Ok(Response::Object(None)) => format!("{words} (absent)"),
        Ok(_) => words,
    };
    (answer, words)
}

impl ApiServer for SimulatedApiServer {
    fn get<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey) -> Answer<'a, Option<Value>> {
        Box::pin(async move {
            let answer = self.ask(Operation::Get(kind.clone(), key.clone())).await;
            answer.map(Response::into_object)
        })
    }

    fn list<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: Option<&'a str>,
        labels: Option<&'a str>,
    ) -> Answer<'a, Vec<Value>> {
        Box::pin(async move {
            let (namespace, labels) = (namespace.map(str::to_owned), labels.map(str::to_owned));
            let answer = self
                .ask(Operation::List(kind.clone(), namespace, labels))
                .await;
            answer.map(Response::into_objects)
        })
    }

    fn create<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        Box::pin(self.ask_for_object(Operation::Create(kind.clone(), key.clone(), body)))
    }

    fn replace<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, body: Value) -> Answer<'a, Value> {
        Box::pin(self.ask_for_object(Operation::Replace(kind.clone(), key.clone(), body)))
    }

    fn apply<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        part: Part,
        manager: &'a str,
        body: Value,
    ) -> Answer<'a, Value> {
        let operation = Operation::Apply(kind.clone(), key.clone(), part, manager.to_owned(), body);
        Box::pin(self.ask_for_object(operation))
    }

    fn merge<'a>(&'a self, kind: &'a Kind, key: &'a ObjectKey, patch: Value) -> Answer<'a, Value> {
        Box::pin(self.ask_for_object(Operation::Merge(kind.clone(), key.clone(), patch)))
    }

    fn delete<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let operation = Operation::Delete(kind.clone(), key.clone(), preconditions);
            self.ask(operation).await.map(drop)
        })
    }

    fn delete_after_dependents<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
        preconditions: Preconditions,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let operation = Operation::DeleteLast(kind.clone(), key.clone(), preconditions);
            self.ask(operation).await.map(drop)
        })
    }
}

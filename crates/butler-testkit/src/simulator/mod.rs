//! A seeded simulator: the real engine and real controllers, in a world where every order of events is possible.
//!
//! An in-memory [`ObjectStore`] stands for the API server. Controllers run on the very engine they have in production, with
//! caches that lag behind, passes that other actors come between, requests that get lost and processes that die at any
//! point. Every step is drawn from a seed and printed in a log, so a failure can be looked at again and again. That the store
//! and a real API server agree is a test of its own.
//!
//! ```no_run
//! # use butler_testkit::simulator::{Deed, Failed, Moment, Simulation, for_seeds};
//! # use butler_runtime::{object::Kind, reconciler::Reconciler};
//! # use serde_json::json;
//! # fn story<R: Reconciler>(build: fn() -> R, kind: &Kind) -> Result<(), Box<dyn std::error::Error>> {
//! for_seeds(0..300, |seed| {
//!     let mut simulation = Simulation::new(seed);
//!     simulation.controller("butler", build);
//!     simulation.user("alice", vec![
//!         (Moment::Anytime, Deed::create(kind.clone(), json!({ "metadata": { "name": "hello" } }))),
//!     ]);
//!     simulation.run(10_000)?;
//!     simulation.look_again();
//!     let outcome = simulation.run(10_000)?;
//!     assert!(outcome.writes.is_empty(), "a world at rest stays at rest");
//!     Ok::<(), Failed>(())
//! })?;
//! # Ok(())
//! # }
//! ```

mod actor;
mod chances;
mod controller;
mod housekeeping;
mod log;
mod operation;
mod outcome;
pub mod players;
mod script;
mod seeds;
mod server;
mod simulation;
mod store;
mod watch;
mod wire;

pub use chances::Chances;
pub use log::Log;
pub use operation::{Operation, Response, WriteRequest};
pub use outcome::{Failed, Outcome, Problem};
pub use script::{Deed, Moment, Turn};
pub use seeds::{FailedSeed, for_seeds, seeds_asked_for};
pub use server::SimulatedApiServer;
pub use simulation::Simulation;
pub use store::{EPOCH, ObjectStore};
pub use wire::{Fault, Handling, Reply, Wire};

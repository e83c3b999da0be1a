//! Real servers for tests.
//!
//! Owns: a real etcd and kube-apiserver for a test process ([`ApiServer`]), a namespace for each test ([`TestNamespace`]),
//! any other program for the time of a test ([`Supervisor`]), waiting without sleeping ([`eventually`]), counting who asked
//! the server for what ([`audit`]), and saying which tests a machine cannot run ([`skip`]).
//!
//! Must not: be used outside tests. What a test cannot go on without ends the test with a panic that says why.
//!
//! ```no_run
//! use std::time::Duration;
//! use butler_testkit::{ApiServer, eventually};
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! # async fn story() {
//! let server = ApiServer::shared().await;
//! let namespace = server.namespace("story").await;
//! let api = namespace.api::<ConfigMap>(server.client_as("butler-controller"));
//! let settings = eventually(&api, "settings", "has data", Duration::from_secs(10), |found| {
//!     found.is_some_and(|settings| settings.data.is_some())
//! })
//! .await;
//! # }
//! ```

pub mod audit;
mod binaries;
mod command_lines;
mod crds;
mod crypto;
mod error;
mod eventually;
mod identity;
mod namespace;
mod options;
pub mod process;
mod server;
mod show;
pub mod simulator;
pub mod skip;
mod supervisor;

pub use error::Error;
pub use eventually::{
    Unmet, Waitable, eventually, eventually_all, eventually_gone, try_eventually,
    try_eventually_all, try_eventually_gone,
};
pub use identity::Identity;
pub use namespace::TestNamespace;
pub use options::{Controllers, Options};
pub use server::ApiServer;
pub use supervisor::{Process, Supervisor};

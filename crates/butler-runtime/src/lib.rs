//! The engine every Butler controller runs on.
//!
//! A controller is a [`reconciler::Reconciler`]: it observes the world, plans purely and performs effects. This crate does the
//! rest, the same way for all: see [`engine`] for one pass, [`cache`] for what is remembered of a cluster, [`manager`] for a
//! process, and `ARCHITECTURE.md` for the picture.
//!
//! It must not know any domain: no kind of Butler's is named here but through labels, annotations and condition types.

pub mod admission;
pub mod api_server;
pub mod backoff;
pub mod bind_address;
pub mod cache;
pub mod client;
pub mod conditions;
mod connection;
pub mod controller;
pub mod engine;
pub mod events;
pub mod failure;
pub mod fields;
pub mod kube_api_server;
pub mod leader;
pub mod manager;
pub mod metrics;
pub mod metrics_access;
pub mod object;
pub mod plan;
pub mod queue;
pub mod reconciler;
mod recorder;
pub mod remote;
pub mod serve;
pub mod shutdown;
pub mod task;
pub mod telemetry;
pub mod watch;

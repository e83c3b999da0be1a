//! The engine every Butler controller runs on.
//!
//! A controller is a [`reconciler::Reconciler`]: it observes the world, plans purely and performs effects. This crate does the
//! rest, the same way for all: see [`engine`] for one pass, [`cache`] for what is remembered of a cluster, and
//! `ARCHITECTURE.md` for the picture.
//!
//! It must not know any domain: no kind of Butler's is named here but through labels, annotations and condition types.

pub mod api_server;
pub mod backoff;
pub mod cache;
pub mod conditions;
pub mod engine;
mod events;
pub mod kube_api_server;
pub mod failure;
pub mod fields;
pub mod object;
pub mod plan;
pub mod reconciler;
mod recorder;
pub mod queue;
pub mod watch;

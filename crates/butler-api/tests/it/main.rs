//! Butler's kinds as the world meets them: against the tables of fields that must be accepted, and on a real API server.

mod compatibility;
mod examples;
mod manifests;
mod refusals;

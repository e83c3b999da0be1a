//! Butler's kinds as the world meets them: against the tables of fields that must be accepted, and on a real API server.

#![expect(
    clippy::panic,
    reason = "a test that cannot go on ends with a panic that says why"
)]

mod compatibility;
mod examples;
mod manifests;
mod refusals;

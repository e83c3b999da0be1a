//! Butler's vocabulary.
//!
//! Owns: every custom resource and its CRD, the names that parse, labels, annotations, finalizers, condition types and
//! reasons, and the pure functions that turn the accepted spellings of a manifest into the one the code reads.
//!
//! Must not: hold a client, read a clock, or decide anything about a cluster. Everything here is data.

#![expect(
    unreachable_pub,
    reason = "the KubeSchema derive repeats a kind's `pub struct` inside a function"
)]
#![expect(
    clippy::duplicated_attributes,
    reason = "print columns are attributes of one name, and several have the same type"
)]

pub mod butler;
pub mod cluster_api;
pub mod conditions;
pub mod crds;
pub mod keys;
pub mod name;
pub mod net;
pub mod normalize;
pub mod provider_id;
pub mod quantity;
pub mod reference;
pub mod schema;
pub mod steward;
#[cfg(test)]
mod testing;
pub mod version;

pub use quantity::Quantity;

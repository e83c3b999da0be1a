//! Certificates, keys and kubeconfigs of control planes.
//!
//! Owns what each Secret must hold ([`wanted`]), what one that exists holds ([`KeptSecret`]), whether that is good ([`review`]),
//! which are needed no more ([`leftovers`]), and how one is made ([`issue`]). Key material is in none of the first four: it is made, or read, where it is written.

mod content;
mod facts;
mod issue;
mod leftovers;
mod order;
mod renewal;
mod review;
mod rotation;
mod short_lived;
mod wanted;
mod write;

pub(crate) use content::{Data, pair, text};
pub use content::{KubeconfigFacts, Pair};
pub use facts::{Content, KeptSecret, Seen, checksum};
pub use issue::{Keys, KeysOnThreads, issue};
pub(crate) use issue::{LEAF_LIFE, bytes};
pub use leftovers::leftovers;
pub use order::{Guard, KubeconfigWish, LeafWish, Order, Recipe};
pub use renewal::Moment;
pub(crate) use renewal::authority_renewal;
pub use review::{Review, review};
pub use rotation::{RETIRE, Request, RotationFacts, Step};
pub use short_lived::{Borrower, short_lived_kubeconfig};
pub(crate) use short_lived::{Loan, check_loan};
pub use wanted::{Wanted, wanted};
pub(crate) use write::{overtaken, replace, secret_kind, write_secret};

#[cfg(test)]
mod tests;

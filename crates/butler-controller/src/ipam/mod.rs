//! What the controllers of pools and of allocations share: the ledger, and the book that is opened from it.
//!
//! Who decides what:
//!
//! | | |
//! |---|---|
//! | which addresses are free | the ledger pages of the pool, [`ledger::Ledger`] |
//! | which addresses an allocation gets | the `NetworkPool` controller, by `butler-ipam`, written to the ledger |
//! | that no address is granted twice | the API server: a page is written only over the very version that was read |
//! | which grant an allocation uses | its status, written once by the `IPAllocation` controller |
//!
//! `docs/architecture/ipam-internals.md` tells why this holds in spite of stale caches, crashes and several controllers.

pub(crate) mod book;
pub(crate) mod claimant;
pub(crate) mod infrastructure;
pub(crate) mod ledger;
pub(crate) mod observe;
pub(crate) mod owners;
pub(crate) mod pages;

/// As many names or ranges as fit into a sentence.
const SHOWN: usize = 3;

/// Up to a few of them, and how many more there are.
pub(crate) fn some<T: AsRef<str>>(texts: &[T]) -> String {
    let shown: Vec<_> = texts.iter().take(SHOWN).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

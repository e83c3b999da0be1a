//! Address pools: which addresses there are, who has them, and which to give next.
//!
//! Owns: what the spec of a pool means ([`Layout`]), the book of who holds what and the choice of the next range
//! ([`Pool`]), the words in which a request is refused ([`Refusal`]), the choice between pools ([`choose`]), the map
//! people look at ([`map()`]), and the face for controllers that need addresses ([`Claim`], [`standing`]).
//!
//! Must not: read a clock, a file or a cluster, or be random. The same calls give the same answers; where grants are
//! kept, and how two processes are kept from granting at once, is the business of the `NetworkPool` controller.
//!
//! ```
//! use butler_api::butler::ip_allocation::AllocationType;
//! use butler_api::butler::network_pool::NetworkPoolSpec;
//! use butler_ipam::{Holder, Layout, Owner, Pool, Request, Wish};
//!
//! let spec = NetworkPoolSpec { cidr: "10.40.0.0/24".to_owned(), ..NetworkPoolSpec::default() };
//! let mut pool = Pool::new(Layout::of(&spec).expect("a valid pool"));
//! let owner = Owner {
//!     kind: "TenantCluster".to_owned(),
//!     namespace: Some("payments".to_owned()),
//!     name: "production".to_owned(),
//! };
//! let request = Request {
//!     kind: AllocationType::Loadbalancer,
//!     wish: Wish::Count(8),
//!     owner: owner.clone(),
//!     quota: None,
//! };
//! let range = pool.allocate(&request, Holder { allocation: "uid-1".to_owned(), owner })?;
//! assert_eq!(range.to_string(), "10.40.0.1-10.40.0.8");
//! assert_eq!(pool.numbers().available, 246);
//! # Ok::<(), butler_ipam::Refusal>(())
//! ```

mod bitmap;
mod choice;
mod claim;
mod layout;
mod map;
mod number;
mod picture;
mod pool;
mod refusal;
mod request;
mod runs;
mod spans;
mod standing;
#[cfg(test)]
mod testing;

pub use choice::{Candidate, choose};
pub use claim::{Claim, ClaimOwner, ClaimWish, Role, let_go, next_growth_index, of_owner};
pub use layout::{Layout, Violation, overlap};
pub use map::map;
pub use number::{Family, SLICE_ADDRESSES, intersection, range_text, slice_of, slices};
pub use picture::picture;
pub use pool::{NotHeld, Numbers, Pool, Taken};
pub use refusal::{Outside, Refusal, TakenBy, reasons};
pub use request::{Holder, LARGEST_ALLOCATION, Owner, Quota, Request, Wish};
pub use standing::{Standing, standing};

//! Certificate authorities, the leaves they issue, kubeconfigs made of them, and when to renew them.
//!
//! Owns: how keys and certificates of Butler look (algorithms, usages, extensions), how a certificate is read back, and
//! the arithmetic of expiry.
//!
//! Must not: read a clock, a file or a cluster. The time is an argument, PEM goes in and comes out; the only effect is the
//! generation of keys. Private keys never appear in errors or in `Debug`.
//!
//! ```
//! use butler_pki::{Authority, LeafRequest, Usage, Validity, inspect};
//! use jiff::{SignedDuration, Timestamp};
//!
//! let now: Timestamp = "2026-01-01T00:00:00Z".parse()?;
//! let year = Validity::starting(now, SignedDuration::from_hours(365 * 24));
//! let authority = Authority::new("kubernetes", year)?;
//! let leaf = authority.issue(&LeafRequest {
//!     common_name: "kubernetes-admin".to_owned(),
//!     organizations: vec!["system:masters".to_owned()],
//!     ..LeafRequest::new(Usage::Client, year)
//! })?;
//! assert_eq!(inspect(&leaf.certificate_pem)?.common_name, "kubernetes-admin");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod authority;
mod error;
mod facts;
mod kubeconfig;
mod leaf;
mod pair;
mod request;
mod secret;
mod service_account;
mod subject;
mod validity;

pub use authority::Authority;
pub use error::Error;
pub use facts::{CertificateFacts, inspect, is_issued_by, public_key_digest};
pub use kubeconfig::Kubeconfig;
pub use leaf::{Leaf, LeafRequest, Usage};
pub use pair::{is_key_of, public_key_of};
pub use request::CertificateRequest;
pub use secret::SecretText;
pub use service_account::ServiceAccountKey;
pub use validity::{LifeFraction, Validity, renewal_due, renewal_time};

//! Foreign protocols whose code is generated.
//!
//! Owns: the messages and clients of the part of [etcd's protocol](etcd) that Butler speaks. `proto/etcd.proto` says which
//! part; `cargo xtask proto` makes the code of it, which is committed, so that building Butler needs no compiler for
//! protocols.
//!
//! Must not: decide anything or hide the protocol. What to say to etcd is `steward-datastore`'s.

#[rustfmt::skip]
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    clippy::clone_on_ref_ptr,
    clippy::or_fun_call,
    clippy::use_self,
    clippy::as_conversions,
    clippy::unwrap_used,
    reason = "generated: proto/etcd.proto is what people read"
)]
pub mod etcd;

//! The reverse tunnel: how a hosted API server reaches nodes and pods of its tenant.
//!
//! The API server of a tenant runs in the management cluster and has no route to the tenant's networks, which may even overlap
//! its own. A [`server`] beside it takes its connections (HTTP CONNECT, by the egress selector) and sends them through
//! connections that [`agent`]s in the tenant have dialled. The other way, pods of the tenant reach an API server that they have
//! no way to through a [`tcp_proxy`]. [`manifests`] holds what all of them need in a cluster.
//!
//! Owns: the processes, what they say to each other, and the objects they run by.
//!
//! Must not: decide whether a tenant has a tunnel, or apply anything. See `docs/architecture/reverse-tunnel.md`.

pub mod agent;
pub mod authentication;
pub mod command;
pub mod destination;
mod failure;
mod keep_alive;
pub mod manifests;
mod metrics;
mod process;
mod protocol;
mod pump;
mod relay;
pub mod server;
pub mod tcp_proxy;
pub mod tls;

pub use command::{Command, run};
pub use failure::{Failure, TunnelError};
pub use keep_alive::KeepAlive;
pub use metrics::{Direction, TunnelMetrics};
pub use protocol::{CHUNK, SEND_BUFFER, STREAM_WINDOW};

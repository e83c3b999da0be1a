//! Machines on this Linux host: the hands of the local provider.
//!
//! Owns: what a machine is here (an OCI container run by `runc`, with a directory as its disk), how machines are joined
//! by a bridge, what the first process of a machine does, and the user data that it carries out.
//!
//! Must not: speak to Kubernetes. Whoever uses this crate decides which machines there should be.

pub mod cloud_config;
mod command;
pub mod dns;
pub mod firewall;
pub mod host;
pub mod images;
pub mod init;
pub mod machine;
pub mod network;
pub mod node;
mod runc;
pub mod sysctl;

pub use command::Failure;
pub use runc::ExecOutput;

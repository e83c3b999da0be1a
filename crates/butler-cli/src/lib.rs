//! What Butler's command lines do.
//!
//! Owns: commands, flags, what is printed and how a command ends. Must not: decide what a cluster should be; that is done by the
//! controllers, which the commands ask by objects.

pub mod adm;
pub mod ctl;
mod flags;
pub mod output;

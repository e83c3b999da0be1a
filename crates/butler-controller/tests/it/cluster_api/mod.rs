//! The infrastructure provider of Cluster API: with a played Cluster API in worlds of any order, and with the real one.

mod cast;
pub(crate) mod manager;
mod orders;
mod real;
mod scene;
mod told;

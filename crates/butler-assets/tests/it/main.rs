//! What a user of the resolver sees: with a mirror on this machine, a real Go toolchain, and real files.

mod build;
mod download;
mod fixture;
mod image;
mod mirror;
mod sources;

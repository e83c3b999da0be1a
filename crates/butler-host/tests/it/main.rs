//! Integration tests of the crate, one binary.

mod cloud_config;
mod host;
#[cfg(test)]
mod images;
mod init;
mod interruption;
#[cfg(test)]
mod mirror;
mod network;
#[cfg(test)]
mod node;
mod scene;
mod watch;
mod world;

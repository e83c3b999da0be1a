//! Integration tests of the crate, one binary.

mod cloud_config;
mod host;
mod init;
mod interruption;
mod scene;

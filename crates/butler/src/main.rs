//! The `butler` binary.
fn main() {}

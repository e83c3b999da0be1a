//! Real API servers and a seeded simulator for tests.

pub mod simulator;

//! Pools driven by random operations next to a naive model.

mod model;
mod setup;

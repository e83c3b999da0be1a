//! Controllers and a provider in a world where every order of events is possible.

mod orders;
mod stories;
mod world;

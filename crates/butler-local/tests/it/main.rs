//! The network of a cluster against a real API server, with hands of the test's own; and the hands of a real host.

#[cfg(test)]
mod host;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod network;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod tenants;

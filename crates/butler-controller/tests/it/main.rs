//! The controllers of the management cluster: in worlds where every order of events is possible, and against a real API
//! server.

#[cfg(test)]
mod addresses;
#[cfg(test)]
mod cluster_api;
#[cfg(test)]
mod configuration;
#[cfg(test)]
mod kamaji;
#[cfg(test)]
mod numbers;
#[cfg(test)]
mod observed;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod orders;
#[cfg(test)]
mod paused;
#[cfg(test)]
mod platform;
#[cfg(test)]
mod providers;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod strict;

//! The `butler` binary as an operator meets it: real processes against a real API server.

#[cfg(test)]
mod addresses;
#[cfg(test)]
mod admission;
#[cfg(test)]
mod admission_pools;
#[cfg(test)]
mod command_line;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod history;
#[cfg(test)]
mod permissions;
#[cfg(test)]
mod replica;
#[cfg(test)]
mod rest;
#[cfg(test)]
mod takeover;
#[cfg(test)]
mod tunnel;

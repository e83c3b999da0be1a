//! `butleradm` as an operator meets it: real machines on this host.

#[cfg(test)]
mod bad_days;
#[cfg(test)]
mod command_line;
#[cfg(test)]
mod egress;
#[cfg(test)]
mod guests;
#[cfg(test)]
mod hosted;
#[cfg(test)]
mod kit;
#[cfg(test)]
mod network;
#[cfg(test)]
mod story;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod wounds;

//! `butleradm` as an operator meets it: real machines on this host.

#[cfg(test)]
mod command_line;
#[cfg(test)]
mod kit;
#[cfg(test)]
mod story;

//! What a user meets before any platform is asked: help, refusals, exit codes.

#[cfg(test)]
mod command_line;

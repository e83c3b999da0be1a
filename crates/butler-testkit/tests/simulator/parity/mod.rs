//! The simulator and a real API server give the same outcome for the same operations.
//!
//! The script is data, the runner knows only the port, and what was observed is one committed file that both must match.

mod real;
mod runner;
mod script;
mod simulated;

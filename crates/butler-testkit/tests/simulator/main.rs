//! The simulator: its store, its scheduler, and its likeness to a real API server.

mod convergence;
mod faults_found;
mod guarded_status;
mod parity;
mod players;
mod store;
mod toy;

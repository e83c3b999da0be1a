//! The edges of the runtime against a real API server and real sockets.

mod admission;
mod certificates;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod engine_by_hand;
#[cfg(test)]
mod engine_guarded;
#[cfg(test)]
mod engine_setbacks;
#[cfg(test)]
mod engine_workshop;
mod http;
mod leader;
#[cfg(test)]
mod metrics_access;
#[cfg(test)]
mod optional_kinds;
mod remote;
mod running;
mod serve;

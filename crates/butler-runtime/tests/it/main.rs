//! The edges of the runtime against a real API server and real sockets.

mod admission;
mod certificates;
mod http;
mod leader;
mod remote;
mod running;
mod serve;

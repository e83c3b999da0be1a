//! The engine every Butler component runs on, and the edges by which it meets the world: clients,
//! leader election, admission, health, metrics, logs, shutdown.

pub mod admission;
pub mod client;
pub mod leader;
pub mod metrics;
pub mod remote;
pub mod serve;
pub mod shutdown;
pub mod task;
pub mod telemetry;

//! A provider's controllers in worlds where every order of events is possible, against a real API server, and with real
//! machines.

#[cfg(test)]
mod api_server;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod fake_subject;
#[cfg(test)]
mod local;
#[cfg(test)]
mod quota;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod wired;

//! Hosted control planes: in worlds where every order of events is possible, and against a real API server.

#[cfg(test)]
mod cast;
#[cfg(test)]
mod cluster_api;
#[cfg(test)]
mod database;
#[cfg(test)]
mod deaths;
#[cfg(test)]
mod deletions;
#[cfg(test)]
mod drivers;
#[cfg(test)]
mod etcd;
#[cfg(test)]
mod exposure;
#[cfg(test)]
mod generators;
#[cfg(test)]
mod hosting;
#[cfg(test)]
mod kubelet;
#[cfg(test)]
mod migration;
#[cfg(test)]
mod moving;
#[cfg(test)]
mod node;
#[cfg(test)]
mod orders;
#[cfg(test)]
mod own_etcd;
#[cfg(test)]
mod real;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod scene;
// One place knows how these are started; not all that it can do is needed here.
#[cfg(test)]
#[expect(
    dead_code,
    reason = "the tests of the drivers themselves ask for more of these servers"
)]
#[path = "../../../steward-datastore/tests/it/servers/mod.rs"]
mod servers;
#[cfg(test)]
mod silence;
#[cfg(test)]
mod time;
#[cfg(test)]
mod vault;

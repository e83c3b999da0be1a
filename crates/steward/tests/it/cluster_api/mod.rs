//! Control planes of Cluster API: in every order of events, with the real Cluster API, and in another cluster.

mod cast;
#[path = "../../../../butler-controller/tests/it/cluster_api/manager.rs"]
mod manager;
mod orders;
mod real;
mod scene;
mod there;

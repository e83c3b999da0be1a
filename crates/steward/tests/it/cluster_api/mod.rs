//! Control planes of Cluster API: in every order of events, with the real Cluster API, of a class, and in another cluster.

mod cast;
mod class;
mod class_scene;
#[path = "../../../../butler-controller/tests/it/cluster_api/manager.rs"]
mod manager;
mod orders;
mod real;
mod scene;
mod there;

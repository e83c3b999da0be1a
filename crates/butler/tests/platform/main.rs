//! The whole platform in worlds where every order of events is possible: every controller of Butler and Steward, a provider, and
//! models of Cluster API and of Kubernetes' own controllers.

#[cfg(test)]
mod cluster_api;
#[cfg(test)]
mod creation;
// One place knows what databases are in stories, and what steward's objects look like.
#[cfg(test)]
#[path = "../../../steward/tests/it/database.rs"]
mod database;
#[cfg(test)]
mod deletions;
#[cfg(test)]
mod elastic;
// One place knows what the process on the host does for Services.
#[cfg(test)]
#[path = "../../../butler-controller/tests/it/addresses/host.rs"]
mod host;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod neighbours;
#[cfg(test)]
mod pauses;
#[cfg(test)]
mod replacement;
#[cfg(test)]
mod scaling;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod silence;
#[cfg(test)]
mod standalone;
#[cfg(test)]
#[expect(dead_code, reason = "the stories of Steward need more of it")]
#[path = "../../../steward/tests/it/scene.rs"]
mod steward_scene;
#[cfg(test)]
#[expect(dead_code, reason = "the stories of addresses ask for more of it")]
#[path = "../../../butler-controller/tests/it/addresses/truth.rs"]
mod truth;
#[cfg(test)]
mod upgrades;
// One place knows how an infrastructure in memory is put at the end of a wire.
#[cfg(test)]
#[path = "../../../butler-provider/tests/it/wired.rs"]
mod wired;
#[cfg(test)]
mod world;

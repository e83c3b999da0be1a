//! Our kinds that take part in Cluster API: the control plane and the infrastructure provider.
//!
//! They follow contract v1beta2 and keep the status fields of v1beta1 beside it, so that Cluster API and clusterctl work
//! with them unmodified. [`contract`] holds what the contract spells the same way for several kinds, [`cluster`] and
//! [`machine`] are kinds of Cluster API itself that we only read.

pub mod butler_cluster;
pub mod butler_machine;
pub mod cluster;
pub mod contract;
pub mod machine;
pub mod steward_control_plane;

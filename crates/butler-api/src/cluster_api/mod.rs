//! Our kinds that take part in Cluster API: the control plane and the infrastructure provider.

pub mod butler_cluster;
pub mod butler_machine;
pub mod steward_control_plane;

//! Our kinds that take part in Cluster API: the control plane and the infrastructure provider.
//!
//! They follow contract v1beta2 and keep the status fields of v1beta1 beside it, so that Cluster API and clusterctl work
//! with them unmodified. [`contract`] holds what the contract spells the same way for several kinds. [`cluster`], [`machine`],
//! [`machine_group`] and [`kubeadm_control_plane`] are kinds of Cluster API itself, and as types are only read.

pub mod butler_cluster;
pub mod butler_machine;
pub mod cluster;
pub mod contract;
pub mod kubeadm_control_plane;
pub mod machine;
pub mod machine_group;
pub mod steward_control_plane;

//! Our kinds that take part in Cluster API: the control plane and the infrastructure provider.
//!
//! They follow contract v1beta2 and keep the status fields of v1beta1 beside it, so that Cluster API and clusterctl work
//! with them unmodified. [`contract`] holds what the contract spells the same way for several kinds.
#![expect(
    unreachable_pub,
    reason = "the KubeSchema derive copies a struct into a function body, where its pub reaches nobody"
)]
#![expect(
    clippy::duplicated_attributes,
    reason = "the print columns of a kind share their types"
)]

pub mod butler_cluster;
pub mod butler_machine;
pub mod contract;
pub mod steward_control_plane;

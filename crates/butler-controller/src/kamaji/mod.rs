//! For people who run Kamaji itself: what it knows of a control plane, in the form that Cluster API reads.
//!
//! | controller | what it does |
//! |---|---|
//! | [`kubeconfig`] | the administrator's kubeconfig of a Kamaji `TenantControlPlane` becomes the Secret `<cluster>-kubeconfig` |
//! | [`status`] | its status is shown by the control plane object of Cluster API that owns it |
//!
//! Kamaji's objects are only looked at: nothing is written to them. A cluster without Kamaji has none of them, and both
//! controllers wait for its definitions.

pub mod kubeconfig;
pub mod status;
pub mod tenant_control_plane;

pub use kubeconfig::KamajiKubeconfigReconciler;
pub use status::KamajiStatusReconciler;

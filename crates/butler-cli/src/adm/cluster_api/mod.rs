//! Cluster API on the management cluster: its manifests, the certificates of its webhooks, and whether its managers run.
//!
//! Owns: installing Cluster API's core, the kubeadm bootstrap and the kubeadm control plane provider. The managers themselves are
//! Cluster API's own, unmodified.

mod install;
mod manifests;
mod render;

pub(crate) use install::{DEPLOYMENTS, documents, install, is_installed};
pub(crate) use manifests::manifests;

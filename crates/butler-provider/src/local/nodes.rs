//! Which Kubernetes a machine of this host can be a node of: the installation's own, and what was put on record beside it.
//!
//! All machines run the system of the host, so what other infrastructure calls an image is a version of Kubernetes here.

use butler_api::{conditions::reasons, version::KubernetesVersion};
use butler_host::{
    machine::MachineSpec,
    node::{NodeProfile, NodeVersions},
};

use super::LocalConfiguration;
use crate::{
    error::{ErrorClass, ProviderError},
    order::MachineOrder,
};

/// What machines are equipped with.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    own: NodeProfile,
    own_version: KubernetesVersion,
    further: NodeVersions,
}

impl Nodes {
    pub(super) fn of(configuration: &LocalConfiguration) -> Self {
        Self {
            own: configuration.node.clone(),
            own_version: configuration.node_version.clone(),
            further: configuration.further_nodes.clone(),
        }
    }

    /// Adds what a node of the wished version needs; the installation's own if none is wished.
    pub(super) fn equip(
        &self,
        order: &MachineOrder,
        mut spec: MachineSpec,
    ) -> Result<MachineSpec, ProviderError> {
        self.profile(order)?.apply(&mut spec);
        Ok(spec)
    }

    fn profile(&self, order: &MachineOrder) -> Result<NodeProfile, ProviderError> {
        let Some(image) = &order.image else {
            return Ok(self.own.clone());
        };
        let machine = &order.identity.machine_name;
        let wished: KubernetesVersion = image.parse().map_err(|_| {
            let message = format!(
                "machine {machine}: spec.image is {image:?}, but machines on this host run the host's own system; name a version of Kubernetes, such as v{}, or leave spec.image out",
                self.own_version.bare()
            );
            ProviderError::new(ErrorClass::Terminal, reasons::VALIDATION_FAILED, message)
        })?;
        if wished == self.own_version {
            return Ok(self.own.clone());
        }
        let found = self
            .further
            .find(&wished)
            .map_err(|error| ProviderError::retry(error.to_string()))?;
        // It may be put on record at any time, so that asking again is worth it.
        found.map_or_else(
            || {
                let bare = wished.bare();
                let message = format!(
                    "machine {machine}: this host has no nodes of Kubernetes v{bare}; have them by \"butleradm image kubernetes {bare}\""
                );
                Err(ProviderError::new(ErrorClass::Retry, reasons::IMAGE_SYNC_PENDING, message))
            },
            |version| Ok(self.own.of_version(&version)),
        )
    }
}

//! The pod network of machines: set by whoever knows the cluster, kept for the next start.

use butler_api::name::MachineName;

use super::{Error, Host, error::FileContext as _, machine_file};
use crate::{
    machine::ROOT,
    network::{CNI_CONFIG, CNI_DIRECTORY, PodNetwork, cni_config, machine_namespace},
};

impl Host {
    /// Gives a machine its pod network: the configuration of its own pods, a route for each peer's, and masquerade for what
    /// its pods send out of the cluster. Only what differs is changed. It is kept, and set again when the machine is
    /// started anew.
    pub async fn set_pod_network(
        &self,
        name: &MachineName,
        pods: &PodNetwork,
    ) -> Result<(), Error> {
        let _lock = self.lock(name).await?;
        self.existing(name).await?;
        pods.validate(self.network.spec().range())
            .map_err(|source| Error::PodNetwork {
                name: name.clone(),
                source,
            })?;
        let (written, of) = (pods.clone(), name.clone());
        self.on_disk(move |store| store.write_pod_network(&of, &written))
            .await?;
        self.perform_pod_network(name, pods).await
    }

    /// The pod network that a machine was given; an empty one if none was.
    pub async fn pod_network(&self, name: &MachineName) -> Result<PodNetwork, Error> {
        self.existing(name).await?;
        let of = name.clone();
        let pods = self.on_disk(move |store| store.pod_network(&of)).await?;
        Ok(pods.unwrap_or_default())
    }

    /// What a machine that starts was given before.
    pub(super) async fn restore_pod_network(&self, name: &MachineName) -> Result<(), Error> {
        let of = name.clone();
        match self.on_disk(move |store| store.pod_network(&of)).await? {
            Some(pods) => self.perform_pod_network(name, &pods).await,
            None => Ok(()),
        }
    }

    /// Routes come before the configuration: a pod that starts finds its way.
    async fn perform_pod_network(
        &self,
        name: &MachineName,
        pods: &PodNetwork,
    ) -> Result<(), Error> {
        let namespace = machine_namespace(&self.cluster, name);
        self.network
            .ensure_pods(&namespace, pods)
            .await
            .map_err(|source| Error::Network {
                doing: format!("set the pod network of machine {name}"),
                source,
            })?;
        let root = self.store.machine(name).disk().join(ROOT);
        let text = pods.own.map(cni_config);
        self.on_disk(move |_| {
            if !root.exists() {
                // A machine that was half made; its start completes it.
                return Ok(());
            }
            machine_file::write(&root, &CNI_DIRECTORY, CNI_CONFIG, text.as_deref())
                .file("write the pod network on", root)
        })
        .await
    }
}

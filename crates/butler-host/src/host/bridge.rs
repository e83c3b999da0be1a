//! What machines share: filters, the bridge, guarded ranges, settings of the kernel.

use super::{
    Error, Host,
    store::{NetworkRecord, Store},
};
use crate::{
    network::{NetworkError, NetworkSpec, Warning},
    sysctl,
};

impl Host {
    /// The record of the network, if it was made; another one than ours is refused. What passes may differ: `up` changes it.
    pub(super) fn recorded_network(&self) -> Result<Option<NetworkRecord>, Error> {
        let record = self.store.network()?;
        match record {
            Some(NetworkRecord { cluster, network })
                if cluster != self.cluster || !network.is_same_place(self.network.spec()) =>
            {
                Err(Error::OtherNetwork { cluster, network })
            }
            other => Ok(other),
        }
    }

    /// Makes the filters, the bridge and the kernel's settings, or what is missing of them. Refuses a range or a name that
    /// others use. Egress and guarded ranges may be others than before: from now on they are these.
    pub async fn up(&self) -> Result<(), Error> {
        let _lock = self.on_disk(Store::lock_network).await?;
        self.make_network().await
    }

    async fn make_network(&self) -> Result<(), Error> {
        let record = self.recorded_network()?;
        self.network
            .check(record.is_some())
            .await
            .map_err(|source| self.bridge_failed(source))?;
        let wished = NetworkRecord {
            cluster: self.cluster.clone(),
            network: self.network.spec().clone(),
        };
        if record.as_ref() != Some(&wished) {
            self.on_disk(move |store| store.write_network(&wished))
                .await?;
        }
        self.perform_network(self.network.spec()).await
    }

    /// Makes what is missing, as it was last brought up.
    pub(super) async fn ensure_bridge(&self) -> Result<(), Error> {
        match self.recorded_network()? {
            Some(record) => self.perform_network(&record.network).await,
            None => self.make_network().await,
        }
    }

    /// The filters come first, and packets are passed on last.
    async fn perform_network(&self, spec: &NetworkSpec) -> Result<(), Error> {
        self.network
            .ensure_bridge(spec)
            .await
            .map_err(|source| self.bridge_failed(source))?;
        let egress = spec.egress;
        self.on_disk(move |store| Ok(sysctl::hold(store.root(), egress)?))
            .await
    }

    fn bridge_failed(&self, source: NetworkError) -> Error {
        Error::Network {
            doing: format!("make the bridge {}", self.network.spec().bridge),
            source,
        }
    }

    /// What others have set up on this host that machines will feel. Nothing of it is changed.
    pub async fn warnings(&self) -> Result<Vec<Warning>, Error> {
        self.network
            .warnings(self.network.spec())
            .await
            .map_err(|source| Error::Network {
                doing: "look at the network of this host".to_owned(),
                source,
            })
    }
}

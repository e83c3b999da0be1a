//! Performs what machines' own plans say, in their namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use tokio::task::JoinSet;

use super::{MACHINE_INTERFACE, Network, NetworkError, PodNetwork, machine_plan, observe};
use crate::{
    command::Program,
    firewall::{self, ServedPorts},
};

impl Network {
    /// Gives a machine the routes and the masquerade of its pods. A machine without a namespace gets them when it starts.
    pub(crate) async fn ensure_pods(
        &self,
        namespace: &str,
        pods: &PodNetwork,
    ) -> Result<(), NetworkError> {
        if !self.has_namespace(namespace).await? {
            return Ok(());
        }
        let view = observe::namespace(&self.ip, namespace).await?;
        self.perform(machine_plan::pod_routes(namespace, &pods.peers, &view))
            .await?;
        let place = Some(namespace);
        if let Some(own) = pods.own {
            let table = firewall::pod_table(own, pods.peers.keys().copied());
            self.firewall.replace(place, &table).await?;
        } else {
            let table = firewall::pod_table_name();
            self.firewall.remove(place, &table).await?;
        }
        Ok(())
    }

    /// Whether somebody in a machine has a map of this name in a table of its nftables.
    pub(crate) async fn has_map(&self, namespace: &str, table: &str, map: &str) -> bool {
        self.firewall.has_map(namespace, table, map).await
    }

    /// Gives a machine the addresses of services, and gives those that are new. The filter knows an address before it is
    /// there, and forgets it after it is gone.
    pub(crate) async fn ensure_services(
        &self,
        namespace: &str,
        addresses: &BTreeMap<Ipv4Addr, ServedPorts>,
    ) -> Result<BTreeSet<Ipv4Addr>, NetworkError> {
        if !self.has_namespace(namespace).await? {
            return Ok(BTreeSet::new());
        }
        let view = observe::namespace(&self.ip, namespace).await?;
        let wished = addresses.keys().copied().collect();
        let steps = machine_plan::service_addresses(namespace, &wished, &view);
        self.perform(steps.remove).await?;
        let place = Some(namespace);
        if addresses.is_empty() {
            let table = firewall::service_table_name();
            self.firewall.remove(place, &table).await?;
        } else {
            let table = firewall::service_table(addresses);
            self.firewall.replace(place, &table).await?;
        }
        self.perform(steps.place).await?;
        Ok(steps.placed)
    }

    /// Tells all on the bridge where addresses are now: as a question and as an answer, for some heed only one of them.
    pub(crate) async fn announce(
        &self,
        namespace: &str,
        addresses: &BTreeSet<Ipv4Addr>,
    ) -> Result<(), NetworkError> {
        if addresses.is_empty() {
            return Ok(());
        }
        let arping = Program::find("arping", "iputils-arping")?;
        let mut calls = JoinSet::new();
        for address in addresses {
            for kind in ["-U", "-A"] {
                let ip = self.ip.clone();
                let arping = arping.path().to_string_lossy().into_owned();
                let arguments = [
                    "netns",
                    "exec",
                    namespace,
                    &arping,
                    "-q",
                    kind,
                    "-c",
                    "1",
                    "-I",
                    MACHINE_INTERFACE,
                    &address.to_string(),
                ]
                .map(str::to_owned);
                calls.spawn(async move { ip.run(arguments).await });
            }
        }
        for called in calls.join_all().await {
            called?;
        }
        Ok(())
    }

    async fn has_namespace(&self, namespace: &str) -> Result<bool, NetworkError> {
        Ok(observe::host(&self.ip)
            .await?
            .namespaces
            .contains(namespace))
    }
}

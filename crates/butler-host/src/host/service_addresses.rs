//! Addresses of services on machines: each on one machine at a time, and set again when that machine is started anew.

use std::{collections::BTreeMap, collections::BTreeSet, net::Ipv4Addr};

use butler_api::name::MachineName;

use super::{
    Error, Host,
    store::{Lock, Store},
};
use crate::{
    firewall::ServedPorts,
    network::{NetworkError, machine_namespace},
};

/// The table of kube-proxy, and its map of the addresses that Services have.
const KUBE_PROXY_TABLE: &str = "kube-proxy";
const KUBE_PROXY_SERVICES: &str = "service-ips";

/// Addresses of services of one machine, and what the machine itself serves there.
pub type ServiceAddresses = BTreeMap<Ipv4Addr, ServedPorts>;

impl Host {
    /// Gives a machine these addresses of services, and takes away those it had before. An address that another machine
    /// has moves: it is taken from there first. All on the bridge are told where it is now.
    ///
    /// On each address only ports are open that a Service has there, and those that the machine itself is said to serve.
    pub async fn set_service_addresses(
        &self,
        name: &MachineName,
        addresses: &ServiceAddresses,
    ) -> Result<(), Error> {
        let lock = self.lock(name).await?;
        self.existing(name).await?;
        self.give_services(name, addresses, lock).await
    }

    /// Takes addresses of services off a machine and puts others on it, as [`Self::set_service_addresses`] does; those that are
    /// not named stay, so that several can give a machine addresses without knowing of each other.
    pub async fn change_service_addresses(
        &self,
        name: &MachineName,
        take_off: &BTreeSet<Ipv4Addr>,
        put_on: &ServiceAddresses,
    ) -> Result<(), Error> {
        let lock = self.lock(name).await?;
        let mut addresses = self.service_addresses(name).await?;
        addresses.retain(|address, _| !take_off.contains(address));
        addresses.extend(put_on.clone());
        self.give_services(name, &addresses, lock).await
    }

    /// Done under the lock of the machine; all are told after it.
    async fn give_services(
        &self,
        name: &MachineName,
        addresses: &ServiceAddresses,
        lock: Lock,
    ) -> Result<(), Error> {
        let placed = {
            let _addresses = self.lock_addresses().await?;
            self.validate_services(name, addresses).await?;
            self.take_from_others(name, addresses).await?;
            self.place(name, addresses.clone()).await?
        };
        drop(lock);
        // It takes a second, and nobody has to wait for it.
        self.announce(name, &placed).await
    }

    /// Whether kube-proxy has told the kernel of a machine by nftables what it knows of Services. It does so in one transaction, so
    /// either all that it knew in the beginning is there, or nothing.
    pub async fn has_service_rules(&self, name: &MachineName) -> bool {
        let namespace = machine_namespace(&self.cluster, name);
        self.network
            .has_map(&namespace, KUBE_PROXY_TABLE, KUBE_PROXY_SERVICES)
            .await
    }

    /// The addresses of services that a machine was given.
    pub async fn service_addresses(&self, name: &MachineName) -> Result<ServiceAddresses, Error> {
        self.existing(name).await?;
        let of = name.clone();
        self.on_disk(move |store| store.service_addresses(&of))
            .await
    }

    /// What a machine that starts was given before; all are told, also where the address never went away.
    pub(super) async fn restore_service_addresses(&self, name: &MachineName) -> Result<(), Error> {
        let addresses = {
            let _addresses = self.lock_addresses().await?;
            let of = name.clone();
            let addresses = self
                .on_disk(move |store| store.service_addresses(&of))
                .await?;
            if addresses.is_empty() {
                return Ok(());
            }
            self.perform_services(name, &addresses).await?;
            addresses
        };
        self.announce(name, &addresses.into_keys().collect()).await
    }

    async fn lock_addresses(&self) -> Result<Lock, Error> {
        self.on_disk(Store::lock_addresses).await
    }

    /// Only addresses of the bridge that are nobody's.
    async fn validate_services(
        &self,
        name: &MachineName,
        addresses: &ServiceAddresses,
    ) -> Result<(), Error> {
        let spec = self.network.spec();
        let range = spec.range();
        let reserved = [range.network(), range.broadcast(), spec.host()];
        let wrong = addresses
            .keys()
            .find(|address| !range.contains(*address) || reserved.contains(address));
        if let Some(address) = wrong {
            return Err(Error::ServiceAddress {
                name: name.clone(),
                address: *address,
                range,
            });
        }
        let asked: BTreeSet<Ipv4Addr> = addresses.keys().copied().collect();
        let name = name.clone();
        self.on_disk(move |store| {
            for holder in store.names()? {
                // A record that cannot be read holds no address that could be known.
                if let Ok(Some(record)) = store.record(&holder)
                    && asked.contains(&record.spec.address.addr())
                {
                    return Err(Error::AddressTaken {
                        name,
                        address: record.spec.address.addr(),
                        holder,
                    });
                }
            }
            Ok(())
        })
        .await
    }

    async fn take_from_others(
        &self,
        name: &MachineName,
        addresses: &ServiceAddresses,
    ) -> Result<(), Error> {
        for other in self.on_disk(Store::names).await? {
            if other == *name {
                continue;
            }
            let of = other.clone();
            let had = self
                .on_disk(move |store| store.service_addresses(&of))
                .await?;
            let keeps: ServiceAddresses = had
                .iter()
                .filter(|(address, _)| !addresses.contains_key(*address))
                .map(|(address, ports)| (*address, ports.clone()))
                .collect();
            if keeps.len() != had.len() {
                self.place(&other, keeps).await?;
            }
        }
        Ok(())
    }

    /// Written down, then done.
    async fn place(
        &self,
        name: &MachineName,
        addresses: ServiceAddresses,
    ) -> Result<BTreeSet<Ipv4Addr>, Error> {
        let (written, of) = (addresses.clone(), name.clone());
        self.on_disk(move |store| store.write_service_addresses(&of, &written))
            .await?;
        self.perform_services(name, &addresses).await
    }

    async fn perform_services(
        &self,
        name: &MachineName,
        addresses: &ServiceAddresses,
    ) -> Result<BTreeSet<Ipv4Addr>, Error> {
        self.network
            .ensure_services(&machine_namespace(&self.cluster, name), addresses)
            .await
            .map_err(|source| services_failed(name, source))
    }

    async fn announce(
        &self,
        name: &MachineName,
        addresses: &BTreeSet<Ipv4Addr>,
    ) -> Result<(), Error> {
        self.network
            .announce(&machine_namespace(&self.cluster, name), addresses)
            .await
            .map_err(|source| services_failed(name, source))
    }
}

fn services_failed(name: &MachineName, source: NetworkError) -> Error {
    Error::Network {
        doing: format!("set the addresses of services on machine {name}"),
        source,
    }
}

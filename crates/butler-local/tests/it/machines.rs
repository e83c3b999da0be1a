//! Machines that exist only here, and remember what they were told.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
    time::Duration,
};

use butler_api::name::MachineName;
use butler_local::{AddressChange, Hands, LocalMachine, PodNetwork, ProxyAnswer};
use futures::{StreamExt as _, stream, stream::BoxStream};
use tokio::sync::watch;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// One machine, and the pods it was told about in its present life.
#[derive(Clone, Debug)]
pub(crate) struct Toy {
    pub(crate) machine: LocalMachine,
    pub(crate) pods: Option<PodNetwork>,
    /// What its kube-proxy answers.
    pub(crate) proxy: ProxyAnswer,
}

/// A machine that does not do what it is asked.
#[derive(Debug)]
pub(crate) struct Stubborn;

impl fmt::Display for Stubborn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the machine is stubborn")
    }
}

impl std::error::Error for Stubborn {}

/// All of them, and what must never be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Toys {
    pub(crate) machines: BTreeMap<MachineName, Toy>,
    pub(crate) mistakes: Vec<String>,
    /// The machine that does not do what it is asked, and how often it was asked.
    pub(crate) stubborn: Option<(MachineName, u32)>,
}

impl Toys {
    /// The machines that have an address, whether they run or not.
    pub(crate) fn holders(&self, address: Ipv4Addr) -> Vec<String> {
        let toys = self.machines.values();
        let holders = toys.filter(|toy| toy.machine.service_addresses.contains(&address));
        holders.map(|toy| toy.machine.name.to_string()).collect()
    }

    pub(crate) fn pods(&self, name: &str) -> Option<&PodNetwork> {
        self.machines[&named(name)].pods.as_ref()
    }
}

/// The hands of a test.
#[derive(Debug)]
pub(crate) struct ToyHands {
    toys: watch::Sender<Toys>,
    /// Lives that came and went.
    lives: watch::Sender<u32>,
}

pub(crate) fn named(name: &str) -> MachineName {
    name.parse().unwrap()
}

impl ToyHands {
    pub(crate) fn new() -> Self {
        Self {
            toys: watch::Sender::new(Toys::default()),
            lives: watch::Sender::new(1000),
        }
    }

    /// A machine comes, and runs.
    pub(crate) fn add(&self, name: &str, address: Ipv4Addr) {
        let machine = LocalMachine {
            name: named(name),
            id: format!("id-of-{name}"),
            address,
            life: None,
            service_addresses: BTreeSet::new(),
        };
        self.toys.send_modify(|toys| {
            let toy = Toy {
                machine,
                pods: None,
                proxy: ProxyAnswer::InStep,
            };
            toys.machines.insert(named(name), toy);
        });
        self.start(name);
    }

    /// A machine begins another life. The addresses that it was given stay with it, as they do on disk.
    pub(crate) fn start(&self, name: &str) {
        let life = *self.lives.borrow() + 1;
        self.change(name, |toy| {
            toy.machine.life = Some(life);
            toy.pods = None;
        });
        self.lives.send_replace(life);
    }

    /// A machine ends, with all that it has.
    pub(crate) fn kill(&self, name: &str) {
        self.change(name, |toy| toy.machine.life = None);
        self.lives.send_modify(|life| *life += 1);
    }

    /// A machine does from now on not do what it is asked, or does it again.
    pub(crate) fn set_stubborn(&self, name: Option<&str>) {
        let stubborn = name.map(|name| (named(name), 0));
        self.toys.send_modify(|toys| toys.stubborn = stubborn);
    }

    /// What the kube-proxy of a machine answers from now on.
    pub(crate) fn set_proxy(&self, name: &str, answer: ProxyAnswer) {
        self.change(name, |toy| toy.proxy = answer);
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Toy)) {
        self.toys.send_modify(|toys| {
            change(toys.machines.get_mut(&named(name)).unwrap());
        });
    }

    /// Waits until machines are as they should be.
    pub(crate) async fn until(&self, what: &str, met: impl FnMut(&Toys) -> bool) -> Toys {
        let mut toys = self.toys.subscribe();
        let waited = tokio::time::timeout(PATIENCE, toys.wait_for(met)).await;
        match waited {
            Ok(Ok(toys)) => toys.clone(),
            _ => panic!("waited in vain until {what}: {:#?}", self.toys.borrow()),
        }
    }

    /// As they are now.
    pub(crate) fn now(&self) -> Toys {
        self.toys.borrow().clone()
    }
}

impl Hands for ToyHands {
    type Error = Stubborn;

    async fn machines(&self) -> Result<Vec<LocalMachine>, Stubborn> {
        let toys = self.now();
        Ok(toys.machines.into_values().map(|toy| toy.machine).collect())
    }

    async fn set_pod_network(
        &self,
        machine: &MachineName,
        network: &PodNetwork,
    ) -> Result<(), Stubborn> {
        self.toys.send_modify(|toys| {
            if let Some(toy) = toys.machines.get_mut(machine) {
                toy.pods = Some(network.clone());
            }
        });
        Ok(())
    }

    async fn change_service_addresses(
        &self,
        machine: &MachineName,
        change: &AddressChange,
    ) -> Result<(), Stubborn> {
        let mut refused = false;
        self.toys.send_modify(|toys| {
            if let Some((stubborn, asked)) = &mut toys.stubborn
                && stubborn == machine
            {
                *asked += 1;
                refused = true;
                return;
            }
            for address in &change.put_on {
                let others = toys.holders(*address);
                if others.iter().any(|other| *other != machine.to_string()) {
                    let mistake = format!("{address} is put on {machine} and still on {others:?}");
                    toys.mistakes.push(mistake);
                }
            }
            if let Some(toy) = toys.machines.get_mut(machine) {
                let has = &mut toy.machine.service_addresses;
                has.retain(|address| !change.take_off.contains(address));
                has.extend(&change.put_on);
            }
        });
        if refused { Err(Stubborn) } else { Ok(()) }
    }

    async fn ask_kube_proxy(&self, machine: &MachineName, _address: Ipv4Addr) -> ProxyAnswer {
        let toys = self.now();
        let toy = toys.machines.get(machine);
        toy.map_or(ProxyAnswer::Nothing, |toy| toy.proxy)
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let lives = self.lives.subscribe();
        stream::unfold(lives, |mut lives| async {
            lives.changed().await.ok()?;
            Some(((), lives))
        })
        .boxed()
    }
}

//! What a case stands on: fresh identities, waiting, and the clearing up.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use butler_api::{
    butler::{load_balancer_request::LoadBalancerTarget, machine_request::MachineRole},
    normalize::machine_size::MachineSize,
};

use jiff::Timestamp;

use super::{Inventory, Subject};
use crate::{
    error::ProviderError,
    order::{
        Access, LoadBalancerIdentity, LoadBalancerObservation, LoadBalancerOrder, MachineIdentity,
        MachineObservation, MachineOrder, MachineState,
    },
    provider::{AddressSource, Capabilities, Deletion, Provider},
};

/// How long an infrastructure may take for one step.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often it is asked meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// Why a case did not pass.
#[derive(Debug)]
pub(super) enum Trouble {
    Failed(String),
    Skipped(String),
}

impl From<ProviderError> for Trouble {
    fn from(error: ProviderError) -> Self {
        Self::Failed(format!("the provider answered: {error}"))
    }
}

/// Fails the case with words unless something holds.
pub(super) fn must(holds: bool, words: impl FnOnce() -> String) -> Result<(), Trouble> {
    if holds {
        Ok(())
    } else {
        Err(Trouble::Failed(words()))
    }
}

/// The stand of one case.
pub(super) struct Bench<S: Subject> {
    pub(super) subject: Arc<S>,
    pub(super) provider: Arc<S::Provider>,
    pub(super) access: Access,
    before: Inventory,
    machines: Mutex<Vec<MachineIdentity>>,
    load_balancers: Mutex<Vec<LoadBalancerIdentity>>,
}

/// Numbers of identities and addresses, over all cases of a process.
static NUMBERS: AtomicU32 = AtomicU32::new(0);
/// Addresses of subjects have numbers below this.
const ADDRESSES: u32 = 250;

impl<S: Subject> Bench<S> {
    pub(super) async fn new(subject: Arc<S>) -> Self {
        Self {
            provider: subject.start().await,
            access: subject.access(),
            before: subject.inventory().await,
            subject,
            machines: Mutex::default(),
            load_balancers: Mutex::default(),
        }
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.provider.capabilities()
    }

    fn number() -> u32 {
        NUMBERS.fetch_add(1, Ordering::Relaxed)
    }

    /// A UID that was never used: UIDs of machines that were deleted must not come again.
    fn uid(number: u32) -> String {
        let now = Timestamp::now().as_nanosecond();
        let digits = format!("{:016x}", now & i128::from(u64::MAX));
        format!(
            "{}-{}-4{}-8000-{:04x}{number:08x}",
            &digits[..8],
            &digits[8..12],
            &digits[13..16],
            std::process::id() & 0xffff
        )
    }

    pub(super) fn address(&self, number: u32) -> Option<IpAddr> {
        if self.capabilities().addresses == AddressSource::Infrastructure {
            return None;
        }
        let number = u8::try_from(number % ADDRESSES).unwrap_or_default();
        self.subject.address(number)
    }

    pub(super) fn identity(&self) -> (MachineIdentity, u32) {
        let number = Self::number();
        let identity = MachineIdentity {
            uid: Self::uid(number),
            machine_name: format!("conformance-{number}"),
            adopts: None,
        };
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines.push(identity.clone());
        (identity, number)
    }

    /// An order for a small machine.
    pub(super) fn order(&self) -> MachineOrder {
        let [size, _] = self.subject.sizes();
        self.order_of(size)
    }

    pub(super) fn order_of(&self, size: MachineSize) -> MachineOrder {
        let (identity, number) = self.identity();
        MachineOrder {
            identity,
            role: MachineRole::Worker,
            size,
            extra_disks: Vec::new(),
            image: None,
            labels: BTreeMap::new(),
            address: self.address(number),
            user_data: None,
            network_data: None,
        }
    }

    /// Makes the machine and waits until it runs.
    pub(super) async fn make(&self, order: &MachineOrder) -> Result<MachineObservation, Trouble> {
        self.provider.create_machine(&self.access, order).await?;
        self.running(&self.provider, &order.identity).await
    }

    /// The machine, when it runs and has an address.
    pub(super) async fn running(
        &self,
        provider: &Arc<S::Provider>,
        identity: &MachineIdentity,
    ) -> Result<MachineObservation, Trouble> {
        let begin = Instant::now();
        loop {
            let seen = provider.observe_machine(&self.access, identity).await?;
            match seen {
                Some(machine)
                    if machine.state == MachineState::Running && !machine.addresses.is_empty() =>
                {
                    return Ok(machine);
                }
                other if begin.elapsed() > PATIENCE => {
                    let words = format!("the machine does not run after {PATIENCE:?}: {other:?}");
                    return Err(Trouble::Failed(words));
                }
                None if !self.has_come(identity).await => {
                    return Err(Trouble::Failed(
                        "the machine was made and cannot be found by its UID".to_owned(),
                    ));
                }
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// A machine that is not seen yet may still come; one that the infrastructure has, and the provider does not find, will not.
    async fn has_come(&self, identity: &MachineIdentity) -> bool {
        let machines = self.subject.inventory().await.machines;
        machines
            .iter()
            .all(|machine| machine.name != identity.machine_name)
    }

    /// Deletes the machine and waits until the provider says that it is gone.
    pub(super) async fn delete(&self, identity: &MachineIdentity) -> Result<(), Trouble> {
        let begin = Instant::now();
        loop {
            let deletion = self.provider.delete_machine(&self.access, identity).await?;
            if deletion == Deletion::Gone {
                return Ok(());
            }
            must(begin.elapsed() < PATIENCE, || {
                format!("the machine is not gone after {PATIENCE:?}")
            })?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What is there and was not when the case began.
    pub(super) async fn news(&self) -> Inventory {
        let mut now = self.subject.inventory().await;
        for machine in &self.before.machines {
            if let Some(place) = now.machines.iter().position(|found| found == machine) {
                now.machines.remove(place);
            }
        }
        for name in &self.before.load_balancers {
            if let Some(place) = now.load_balancers.iter().position(|found| found == name) {
                now.load_balancers.remove(place);
            }
        }
        now
    }

    pub(super) async fn machines_made(&self, expected: usize) -> Result<(), Trouble> {
        let found = self.news().await.machines;
        must(found.len() == expected, || {
            let names: Vec<_> = found.iter().map(|machine| &machine.name).collect();
            format!(
                "there should be {expected} new machines and there are {}: {names:?}",
                found.len()
            )
        })
    }

    pub(super) fn load_balancer_order(
        &self,
        targets: Vec<LoadBalancerTarget>,
    ) -> LoadBalancerOrder {
        let number = Self::number();
        let identity = LoadBalancerIdentity {
            uid: Self::uid(number),
            cluster_name: format!("conformance-{number}"),
        };
        let mut load_balancers = self
            .load_balancers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        load_balancers.push(identity.clone());
        LoadBalancerOrder {
            identity,
            port: 6443,
            health_check_port: 6443,
            targets,
            address: self.address(number),
        }
    }

    /// Brings the load balancer in step and waits until it is.
    pub(super) async fn ensure(
        &self,
        order: &LoadBalancerOrder,
    ) -> Result<LoadBalancerObservation, Trouble> {
        let begin = Instant::now();
        loop {
            self.provider
                .ensure_load_balancer(&self.access, order)
                .await?;
            let seen = self
                .provider
                .observe_load_balancer(&self.access, order)
                .await?;
            if let Some(seen) = seen.filter(|seen| seen.in_step) {
                return Ok(seen);
            }
            must(begin.elapsed() < Duration::from_secs(10), || {
                "the load balancer does not come in step".to_owned()
            })?;
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(super) async fn delete_load_balancer(
        &self,
        identity: &LoadBalancerIdentity,
    ) -> Result<(), Trouble> {
        let begin = Instant::now();
        loop {
            let deletion = self
                .provider
                .delete_load_balancer(&self.access, identity)
                .await?;
            if deletion == Deletion::Gone {
                return Ok(());
            }
            must(begin.elapsed() < PATIENCE, || {
                format!("the load balancer is not gone after {PATIENCE:?}")
            })?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Deletes all that the case made. What cannot be deleted has failed a case of its own.
    pub(super) async fn clear(&self) {
        let load_balancers = std::mem::take(
            &mut *self
                .load_balancers
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        if self.capabilities().load_balancers {
            for identity in &load_balancers {
                let _ = self.delete_load_balancer(identity).await;
            }
        }
        let machines =
            std::mem::take(&mut *self.machines.lock().unwrap_or_else(PoisonError::into_inner));
        for identity in &machines {
            let _ = self.delete(identity).await;
        }
    }
}

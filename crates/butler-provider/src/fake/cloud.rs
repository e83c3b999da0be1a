//! The infrastructure itself: what is there, and which rules it breaks.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::{Mutex, MutexGuard, PoisonError},
};

use butler_api::{
    butler::load_balancer_request::LoadBalancerTarget, conditions::reasons, keys::secret_keys,
    normalize::machine_size::MachineSize,
};

use super::defect::{Call, Defect};
use crate::{
    error::{ErrorClass, ProviderError},
    order::{
        Access, LoadBalancerIdentity, LoadBalancerObservation, LoadBalancerOrder, MachineIdentity,
        MachineObservation, MachineOrder, MachineState,
    },
    provider::Deletion,
    secrets::UserData,
};

/// The password that opens the door.
pub const PASSWORD: &str = "open-sesame";
/// The largest machine there can be.
const LARGEST: MachineSize = MachineSize {
    cpu: 64,
    memory_mib: 1 << 20,
    disk_gib: 4096,
};

/// A machine in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeMachine {
    /// Its id at the infrastructure.
    pub id: String,
    /// The tag with the UID of its request.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: MachineSize,
    /// Its address.
    pub address: IpAddr,
    /// Its user data.
    pub user_data: Option<UserData>,
    /// Whether it runs.
    pub running: bool,
}

/// A load balancer in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeLoadBalancer {
    /// The tag with the UID of its request.
    pub uid: String,
    /// Where it listens.
    pub port: u16,
    /// Its address.
    pub address: IpAddr,
    /// What is behind it.
    pub targets: Vec<LoadBalancerTarget>,
}

#[derive(Debug, Default)]
struct State {
    machines: Vec<FakeMachine>,
    load_balancers: Vec<FakeLoadBalancer>,
    /// UIDs whose things were deleted: nothing is made for them again.
    buried: BTreeSet<String>,
    failures: BTreeMap<Call, Vec<ProviderError>>,
    made: u32,
    /// How often something may have changed.
    revision: u64,
}

/// The infrastructure in memory.
#[derive(Debug, Default)]
pub struct Cloud {
    defects: BTreeSet<Defect>,
    state: Mutex<State>,
}

impl Cloud {
    /// An infrastructure that breaks these rules.
    pub fn with_defects(defects: impl IntoIterator<Item = Defect>) -> Self {
        Self {
            defects: defects.into_iter().collect(),
            state: Mutex::default(),
        }
    }

    /// Whether a rule is broken.
    pub fn has(&self, defect: Defect) -> bool {
        self.defects.contains(&defect)
    }

    /// Has the next call of a kind fail.
    pub fn fail_next(&self, call: Call, error: ProviderError) {
        self.state().failures.entry(call).or_default().push(error);
    }

    /// A number that grows whenever something changes, and perhaps more often.
    pub fn revision(&self) -> u64 {
        self.state().revision
    }

    /// All machines that are there.
    pub fn machines(&self) -> Vec<FakeMachine> {
        self.state().machines.clone()
    }

    /// All load balancers that are there.
    pub fn load_balancers(&self) -> Vec<FakeLoadBalancer> {
        self.state().load_balancers.clone()
    }

    /// Has somebody else make a machine, as before there was a request for it.
    pub fn plant(&self, machine: FakeMachine) {
        self.changing().machines.push(machine);
    }

    /// Has somebody else delete the machines of a request.
    pub fn destroy(&self, uid: &str) {
        self.changing()
            .machines
            .retain(|machine| machine.uid != uid);
    }

    /// Stops the machines of a request.
    pub fn halt(&self, uid: &str) {
        let mut state = self.changing();
        let machines = state.machines.iter_mut();
        machines
            .filter(|machine| machine.uid == uid)
            .for_each(|machine| machine.running = false);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changing(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.revision += 1;
        state
    }

    /// Lets a call in: it is not to fail, and the credentials are right.
    fn enter(&self, call: Call, access: &Access) -> Result<MutexGuard<'_, State>, ProviderError> {
        self.validate(access)?;
        let mut state = match call {
            Call::ObserveMachine | Call::ObserveLoadBalancer => self.state(),
            _ => self.changing(),
        };
        let failures = state.failures.entry(call).or_default();
        if failures.is_empty() {
            Ok(state)
        } else {
            Err(failures.remove(0))
        }
    }

    fn opens(&self, access: &Access) -> bool {
        access.credentials.text(secret_keys::PASSWORD) == Some(PASSWORD)
            || self.has(Defect::AcceptsAnyCredentials)
    }

    /// See [`crate::Provider::validate`].
    pub fn validate(&self, access: &Access) -> Result<(), ProviderError> {
        if self.opens(access) {
            return Ok(());
        }
        let message = "the infrastructure refuses the password; correct it in the Secret";
        Err(if self.has(Defect::MisclassesCredentials) {
            ProviderError::retry(message)
        } else {
            ProviderError::credentials(message)
        })
    }

    /// See [`crate::Provider::observe_machine`].
    pub fn observe_machine(
        &self,
        access: &Access,
        identity: &MachineIdentity,
    ) -> Result<Option<MachineObservation>, ProviderError> {
        let state = self.enter(Call::ObserveMachine, access)?;
        let found = state.machines.iter().find(|machine| is(machine, identity));
        Ok(found.map(|machine| MachineObservation {
            provider_id: format!("fake://{}", machine.id),
            state: if machine.running {
                MachineState::Running
            } else {
                MachineState::Halted
            },
            addresses: vec![machine.address],
            mac_address: None,
            has_user_data: machine.user_data.is_some(),
        }))
    }

    /// See [`crate::Provider::create_machine`].
    pub fn create_machine(
        &self,
        access: &Access,
        order: &MachineOrder,
    ) -> Result<(), ProviderError> {
        let mut state = self.enter(Call::CreateMachine, access)?;
        let identity = &order.identity;
        let mut found = state.machines.iter_mut();
        let found = found.find(|machine| is(machine, identity));
        if let Some(found) = found.filter(|_| !self.has(Defect::MakesTwo)) {
            found.running = true;
            return Ok(());
        }
        if identity.adopts.is_some() && !self.has(Defect::MakesInsteadOfAdopting) {
            return Err(ProviderError::new(
                ErrorClass::Retry,
                reasons::MACHINE_NOT_FOUND,
                "the machine to be adopted is not there",
            ));
        }
        if state.buried.contains(&identity.uid) && !self.has(Defect::MakesAfterDeletion) {
            return Err(ProviderError::terminal(
                "the machine was deleted and is not made again",
            ));
        }
        self.make(&mut state, order)
    }

    /// Makes a machine, whatever is there.
    pub(super) fn make_unchecked(&self, order: &MachineOrder) -> Result<(), ProviderError> {
        self.make(&mut self.changing(), order)
    }

    fn make(&self, state: &mut State, order: &MachineOrder) -> Result<(), ProviderError> {
        let size = order.size;
        let too_large = size.cpu > LARGEST.cpu
            || size.memory_mib > LARGEST.memory_mib
            || size.disk_gib > LARGEST.disk_gib;
        if too_large && !self.has(Defect::HasNoLimit) {
            assert!(
                !self.has(Defect::PanicsWhenTooLarge),
                "index out of bounds, as it were"
            );
            return Err(ProviderError::quota(format!(
                "machine {} asks for {} processors and there are {}; ask for less",
                order.identity.machine_name, size.cpu, LARGEST.cpu
            )));
        }
        state.made += 1;
        let own = Ipv4Addr::from_bits(Ipv4Addr::new(192, 0, 2, 0).to_bits() + state.made);
        let ordered = order
            .address
            .filter(|_| !self.has(Defect::IgnoresAddresses));
        let machine = FakeMachine {
            id: format!("vm-{}", state.made),
            uid: order.identity.uid.clone(),
            name: order.identity.machine_name.clone(),
            size: if self.has(Defect::IgnoresSizes) {
                LARGEST
            } else {
                size
            },
            address: ordered.unwrap_or(IpAddr::V4(own)),
            user_data: order
                .user_data
                .clone()
                .filter(|_| !self.has(Defect::LosesUserData)),
            running: true,
        };
        state.machines.push(machine);
        Ok(())
    }

    /// See [`crate::Provider::deliver_user_data`].
    pub fn deliver_user_data(
        &self,
        access: &Access,
        identity: &MachineIdentity,
        user_data: &UserData,
    ) -> Result<(), ProviderError> {
        let mut state = self.enter(Call::DeliverUserData, access)?;
        let mut machines = state.machines.iter_mut();
        let Some(machine) = machines.find(|machine| is(machine, identity)) else {
            return Err(ProviderError::retry("there is no such machine"));
        };
        if !self.has(Defect::LosesUserData) {
            machine.user_data = Some(user_data.clone());
        }
        Ok(())
    }

    /// See [`crate::Provider::delete_machine`].
    pub fn delete_machine(
        &self,
        access: &Access,
        identity: &MachineIdentity,
    ) -> Result<Deletion, ProviderError> {
        let mut state = self.enter(Call::DeleteMachine, access)?;
        let there = state.machines.iter().any(|machine| is(machine, identity));
        if !there && self.has(Defect::RefusesToDeleteNothing) {
            return Err(ProviderError::terminal("there is no such machine"));
        }
        if !self.has(Defect::KeepsWhatItDeletes) {
            state.machines.retain(|machine| !is(machine, identity));
        } else if let Some(kept) = state
            .machines
            .iter_mut()
            .find(|machine| is(machine, identity))
        {
            // Nobody finds it by its tag any more.
            kept.uid = String::new();
        }
        state.buried.insert(identity.uid.clone());
        Ok(Deletion::Gone)
    }

    /// See [`crate::Provider::observe_load_balancer`].
    pub fn observe_load_balancer(
        &self,
        access: &Access,
        order: &LoadBalancerOrder,
    ) -> Result<Option<LoadBalancerObservation>, ProviderError> {
        let state = self.enter(Call::ObserveLoadBalancer, access)?;
        let mut found = state.load_balancers.iter();
        let found = found.find(|found| found.uid == order.identity.uid);
        Ok(found.map(|found| {
            let hidden = self.has(Defect::WantsTargetsFirst) && found.targets.is_empty();
            LoadBalancerObservation {
                resource_id: format!("fake-lb://{}", found.uid),
                endpoint: (!hidden).then(|| found.address.to_string()),
                registered_targets: u32::try_from(found.targets.len()).unwrap_or(u32::MAX),
                in_step: found.targets == order.targets && found.port == order.port,
            }
        }))
    }

    /// See [`crate::Provider::ensure_load_balancer`].
    pub fn ensure_load_balancer(
        &self,
        access: &Access,
        order: &LoadBalancerOrder,
    ) -> Result<(), ProviderError> {
        let mut state = self.enter(Call::EnsureLoadBalancer, access)?;
        if state.buried.contains(&order.identity.uid) {
            return Err(ProviderError::terminal(
                "the load balancer was deleted and is not made again",
            ));
        }
        state.made += 1;
        let own = Ipv4Addr::from_bits(Ipv4Addr::new(198, 51, 100, 0).to_bits() + state.made);
        let mut found = state.load_balancers.iter_mut();
        let found = found.find(|found| found.uid == order.identity.uid);
        if let Some(found) = found.filter(|_| !self.has(Defect::MakesTwoLoadBalancers)) {
            found.port = order.port;
            if self.has(Defect::KeepsTargets) {
                let new = order.targets.iter();
                let new: Vec<_> = new
                    .filter(|target| !found.targets.contains(target))
                    .cloned()
                    .collect();
                found.targets.extend(new);
            } else {
                found.targets.clone_from(&order.targets);
            }
            return Ok(());
        }
        state.load_balancers.push(FakeLoadBalancer {
            uid: order.identity.uid.clone(),
            port: order.port,
            address: order.address.unwrap_or(IpAddr::V4(own)),
            targets: order.targets.clone(),
        });
        Ok(())
    }

    /// See [`crate::Provider::delete_load_balancer`].
    pub fn delete_load_balancer(
        &self,
        access: &Access,
        identity: &LoadBalancerIdentity,
    ) -> Result<Deletion, ProviderError> {
        let mut state = self.enter(Call::DeleteLoadBalancer, access)?;
        if self.has(Defect::KeepsLoadBalancers) {
            let mut found = state.load_balancers.iter_mut();
            if let Some(found) = found.find(|found| found.uid == identity.uid) {
                found.uid = String::new();
            }
        } else {
            state
                .load_balancers
                .retain(|found| found.uid != identity.uid);
        }
        state.buried.insert(identity.uid.clone());
        Ok(Deletion::Gone)
    }
}

fn is(machine: &FakeMachine, identity: &MachineIdentity) -> bool {
    machine.uid == identity.uid
        || (identity.adopts.as_deref() == Some(&machine.id)
            && machine.name == identity.machine_name)
}

//! How the status of a request is told.

use std::net::IpAddr;

use butler_api::{
    butler::machine_request::{MachinePhase, MachineRequest, MachineRequestStatus},
    conditions::types,
};
use butler_runtime::conditions::{Answer, Conditions, Finding, whole_seconds};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::order::MachineObservation;

/// What a pass says of a machine.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) phase: MachinePhase,
    pub(super) ready: Finding,
    pub(super) progressing: Finding,
    /// Whether it failed until somebody acts: the reason and words of `ready` are the failure's.
    pub(super) failed: bool,
}

impl Words {
    /// The provider is at work, or will be.
    pub(super) fn working(
        phase: MachinePhase,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let message = message.into();
        Self {
            phase,
            ready: Finding::new(false, reason, message.clone()),
            progressing: Finding::new(true, reason, message),
            failed: false,
        }
    }

    /// Somebody has to act.
    pub(super) fn failed(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            phase: MachinePhase::Failed,
            ready: Finding::new(false, reason, message.clone()),
            progressing: Finding::new(false, reason, message),
            failed: true,
        }
    }

    /// Nobody knows how the machine is.
    pub(super) fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            phase: MachinePhase::Unknown,
            ready: Finding::new(Answer::Unknown, reason, message.clone()),
            progressing: Finding::new(false, reason, message),
            failed: false,
        }
    }
}

/// What the machine is known as.
#[derive(Clone, Debug, Default)]
pub(super) struct Identified {
    pub(super) provider_id: Option<String>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) mac_address: Option<String>,
}

impl Identified {
    pub(super) fn of(machine: &MachineObservation) -> Self {
        Self {
            provider_id: Some(machine.provider_id.clone()),
            addresses: machine.addresses.clone(),
            mac_address: machine.mac_address.clone(),
        }
    }

    /// As the status had it.
    pub(super) fn before(status: &MachineRequestStatus) -> Self {
        let addresses = status.ip_addresses.iter();
        Self {
            provider_id: status.provider_id.clone(),
            addresses: addresses.filter_map(|text| text.parse().ok()).collect(),
            mac_address: status.mac_address.clone(),
        }
    }
}

/// The status of a request.
pub(super) fn compose(
    request: &MachineRequest,
    words: &Words,
    address: Option<&Finding>,
    identified: Identified,
    now: Timestamp,
) -> MachineRequestStatus {
    let before = request.status.clone().unwrap_or_default();
    let generation = request.metadata.generation;
    let mut conditions = Conditions::since(&before.conditions, generation, now)
        .tell(types::READY, words.ready.clone())
        .tell(types::PROGRESSING, words.progressing.clone());
    if let Some(address) = address {
        conditions = conditions.tell(types::ADDRESS_ALLOCATED, address.clone());
    }
    let texts: Vec<_> = identified.addresses.iter().map(IpAddr::to_string).collect();
    let status = MachineRequestStatus {
        phase: Some(words.phase),
        provider_id: identified.provider_id,
        ip_address: texts.first().cloned(),
        ip_addresses: texts,
        mac_address: identified.mac_address,
        failure_reason: words.failed.then(|| words.ready.reason.to_owned()),
        failure_message: words.failed.then(|| words.ready.message.clone()),
        conditions: conditions.finish(),
        last_updated: before.last_updated.clone(),
        observed_generation: None,
    };
    dated(status, &before, now)
}

/// What was said before, said again.
pub(super) fn repeat(request: &MachineRequest) -> MachineRequestStatus {
    let before = request.status.clone().unwrap_or_default();
    let mut conditions = before.conditions.clone();
    conditions.retain(is_ours);
    for condition in &mut conditions {
        condition.observed_generation = request.metadata.generation;
    }
    MachineRequestStatus {
        conditions,
        observed_generation: None,
        ..before
    }
}

fn is_ours(condition: &Condition) -> bool {
    [types::READY, types::PROGRESSING, types::ADDRESS_ALLOCATED].contains(&condition.type_.as_str())
}

/// With the time of the change, if there is one.
fn dated(
    mut status: MachineRequestStatus,
    before: &MachineRequestStatus,
    now: Timestamp,
) -> MachineRequestStatus {
    // The API server may keep conditions in another order than they were told in.
    let comparable = |status: &MachineRequestStatus| {
        let mut conditions = status.conditions.clone();
        conditions.retain(is_ours);
        conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
        MachineRequestStatus {
            conditions,
            observed_generation: None,
            ..status.clone()
        }
    };
    if comparable(&status) != comparable(before) || before.last_updated.is_none() {
        status.last_updated = Some(Time(whole_seconds(now)));
    }
    status
}

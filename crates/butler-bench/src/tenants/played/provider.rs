//! A provider whose machines run as soon as they have an address.

use butler_api::{
    butler::{ip_allocation::IPAllocation, machine_request::MachineRequest},
    keys::finalizers,
};
use butler_runtime::object::Kind;
use serde_json::{Value, json};

use super::{Stage, condition, name_of, namespace_of, text};
use crate::tenants::scene::{LOCAL, SYSTEM};

/// Plays on.
pub(super) async fn play(stage: &Stage) -> anyhow::Result<()> {
    let (requests, allocations) = (Kind::of::<MachineRequest>(), Kind::of::<IPAllocation>());
    tokio::try_join!(
        Box::pin(stage.attend(requests, |request| take(stage, request))),
        Box::pin(stage.attend(allocations, |allocation| run(stage, allocation))),
    )?;
    Ok(())
}

/// Takes a request, and asks for an address.
async fn take(stage: &Stage, request: Value) -> anyhow::Result<()> {
    if !stage.first(&request, "taken") {
        return Ok(());
    }
    let kind = Kind::of::<MachineRequest>();
    let (namespace, name) = (namespace_of(&request), name_of(&request));
    let held = json!({ "metadata": { "finalizers": [finalizers::MACHINE_REQUEST] } });
    stage.patch(&kind, namespace, name, held).await?;
    let creating = json!({
        "phase": "Creating",
        "conditions": [condition("Ready", false, "Creating", "the provider is making the machine")],
    });
    stage.tell(&kind, namespace, name, creating).await?;
    let allocation = json!({
        "metadata": { "name": format!("{namespace}-{name}"), "finalizers": [finalizers::ADDRESSES_IN_USE] },
        "spec": {
            "poolRef": { "name": LOCAL },
            "type": "nodes",
            "count": 1,
            "ownerRef": {
                "apiVersion": kind.api_version(), "kind": kind.kind,
                "name": name, "namespace": namespace, "uid": text(&request, "/metadata/uid"),
            },
        },
    });
    let allocations = Kind::of::<IPAllocation>();
    stage.create(&allocations, SYSTEM, allocation).await
}

/// Starts the machine that an address was granted for.
async fn run(stage: &Stage, allocation: Value) -> anyhow::Result<()> {
    let kind = Kind::of::<MachineRequest>();
    let (namespace, name) = (
        text(&allocation, "/spec/ownerRef/namespace"),
        text(&allocation, "/spec/ownerRef/name"),
    );
    let granted = text(&allocation, "/status/phase") == "Allocated";
    let is_machines = text(&allocation, "/spec/ownerRef/kind") == kind.kind;
    if !granted || !is_machines || !stage.first(&allocation, "used") {
        return Ok(());
    }
    let running = json!({
        "phase": "Running",
        "ipAddress": text(&allocation, "/status/startAddress"),
        "conditions": [condition("Ready", true, "Running", "the machine runs")],
    });
    stage.tell(&kind, namespace, name, running).await
}

//! Addresses out of pools: which `IPAllocation` objects a request needs, and what came of them.
//!
//! One is asked for in the first pool; while a pool refuses, the next is asked as well. What a machine has already is asked for
//! exactly. Each allocation carries the mark of a user ([`finalizers::ADDRESSES_IN_USE`]), so that its address is not given to
//! anybody else while the machine may still have it. Labels name the tenant cluster of a machine, by which its quota is counted.

use std::{fmt::Write as _, net::IpAddr};

use butler_api::{
    butler::ip_allocation::{
        AllocationOwnerReference, AllocationPhase, AllocationType, IPAllocation, IPAllocationSpec,
        PinnedRange,
    },
    conditions::{reasons, types},
    keys::{finalizers, labels},
    reference::LocalReference,
};
use butler_runtime::{
    api_server::Preconditions,
    cache::{AnyStore as _, Projection, Store},
    conditions::Finding,
    failure::Failure,
    object::{Kind, Manifest, ObjectKey},
    reconciler::Context,
};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What plans read of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Where it is.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// The pool.
    pub pool: String,
    /// The address it asks for, if it asks for a certain one.
    pub pinned: Option<IpAddr>,
    /// The address it got.
    pub address: Option<IpAddr>,
    /// Why it is refused, if it is.
    pub refusal: Option<String>,
    /// Whether it is refused because the tenant cluster may have no more.
    pub over_quota: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it carries the mark of a user.
    pub in_use: bool,
}

impl Projection for Allocation {
    fn kind() -> Kind {
        Kind::of::<IPAllocation>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let allocation: IPAllocation = serde_json::from_value(object)?;
        let status = allocation.status.clone().unwrap_or_default();
        let granted = status.phase == Some(AllocationPhase::Allocated);
        let refused = status.phase == Some(AllocationPhase::Failed);
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == types::READY);
        let words = || ready.map_or_else(String::new, |ready| ready.message.clone());
        let pinned = allocation.spec.pinned_range.as_ref();
        Ok(Self {
            key: ObjectKey::of(&allocation),
            uid: allocation.uid().unwrap_or_default(),
            pool: allocation.spec.pool_ref.name.clone(),
            pinned: pinned.and_then(|range| range.start_address.parse().ok()),
            address: status
                .start_address
                .filter(|_| granted)
                .and_then(|address| address.parse().ok()),
            refusal: refused.then(words),
            over_quota: refused
                && ready.is_some_and(|ready| ready.reason == reasons::QUOTA_EXCEEDED),
            deleting: allocation.metadata.deletion_timestamp.is_some(),
            in_use: allocation
                .finalizers()
                .iter()
                .any(|held| held == finalizers::ADDRESSES_IN_USE),
        })
    }
}

/// The allocations that were made for an object.
pub(crate) fn of_owner(store: &Store<Allocation>, uid: &str) -> Vec<Allocation> {
    let facts = store.owned_by(uid).into_iter();
    let cached = facts.filter_map(|facts| store.get(&facts.key));
    cached.map(|cached| cached.value.clone()).collect()
}

/// For whom and from where addresses are taken.
#[derive(Clone, Debug)]
pub(crate) struct Claimant<'a> {
    pub(crate) kind: Kind,
    pub(crate) owner: &'a ObjectKey,
    pub(crate) uid: &'a str,
    pub(crate) purpose: AllocationType,
    /// The tenant cluster that the addresses count for, if they do.
    pub(crate) tenant: Option<&'a ObjectKey>,
    /// The namespace of the pools, which is the provider configuration's.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) pools: &'a [String],
}

/// What is to be done about addresses, and what can be told.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// The address to use, if it is granted.
    pub(crate) address: Option<IpAddr>,
    /// Allocations that must be there.
    pub(crate) apply: Vec<Manifest>,
    /// Allocations that nobody needs.
    pub(crate) release: Vec<Release>,
    /// How it stands.
    pub(crate) finding: Finding,
}

/// An allocation to be given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Release {
    /// Where it is.
    pub key: ObjectKey,
    /// Which one.
    pub uid: String,
}

impl Release {
    fn of(allocation: &Allocation) -> Self {
        Self {
            key: allocation.key.clone(),
            uid: allocation.uid.clone(),
        }
    }
}

/// Everything that has to be given back when nobody uses the addresses any more.
pub(crate) fn release_all(allocations: &[Allocation]) -> Vec<Release> {
    let held = allocations
        .iter()
        .filter(|allocation| allocation.in_use || !allocation.deleting);
    held.map(Release::of).collect()
}

/// Decides about addresses. `has` is the address that is in use already.
pub(crate) fn decide(
    claimant: &Claimant<'_>,
    allocations: &[Allocation],
    has: Option<IpAddr>,
) -> Addresses {
    let live = || allocations.iter().filter(|allocation| !allocation.deleting);
    let granted = |address: IpAddr| live().find(move |found| found.address == Some(address));
    let in_order = || {
        let pools = claimant.pools.iter();
        pools.flat_map(|pool| live().filter(move |allocation| allocation.pool == *pool))
    };
    let chosen = match has {
        Some(address) => granted(address),
        None => in_order().find(|allocation| allocation.address.is_some()),
    };
    if let Some(chosen) = chosen {
        let surplus = live().filter(|other| other.uid != chosen.uid);
        return Addresses {
            address: chosen.address,
            apply: vec![claimant.manifest(&chosen.pool, chosen.pinned)],
            release: surplus.map(Release::of).collect(),
            finding: Finding::new(true, reasons::ALLOCATED, ""),
        };
    }
    if claimant.pools.is_empty() {
        let message = "spec.network of the ProviderConfig names no pool to take an address from; set mode to ipam and name a NetworkPool in poolRefs";
        return Addresses {
            address: None,
            apply: Vec::new(),
            release: Vec::new(),
            finding: Finding::new(false, reasons::INVALID_CONFIGURATION, message),
        };
    }
    let mut apply = Vec::new();
    let mut refusals = Vec::new();
    let mut over_quota = None;
    for pool in claimant.pools {
        apply.push(claimant.manifest(pool, has));
        let asked = live().find(|asked| asked.pool == *pool && asked.pinned == has);
        let Some((asked, refusal)) = asked.and_then(|asked| Some((asked, asked.refusal.as_ref()?)))
        else {
            break;
        };
        if asked.over_quota {
            // It counts in all pools: another one would say the same.
            over_quota = Some(refusal);
            break;
        }
        refusals.push(format!("NetworkPool {pool}: {refusal}"));
    }
    let finding = if let Some(refusal) = over_quota {
        let limit = match claimant.purpose {
            AllocationType::Nodes => "maxNodeIPs",
            AllocationType::Loadbalancer => "maxLoadBalancerIPs",
        };
        let message = format!(
            "{refusal}; ask for less, or raise network.quotaPerTenant.{limit} of the ProviderConfig"
        );
        Finding::new(false, reasons::QUOTA_EXCEEDED, message)
    } else if refusals.len() == claimant.pools.len() {
        Finding::new(false, reasons::POOL_EXHAUSTED, refusals.join("; "))
    } else {
        let pool = claimant.pools.get(refusals.len());
        let pool = pool.map_or("", String::as_str);
        let message = format!("waiting for NetworkPool {pool} to grant an address");
        Finding::new(false, reasons::AWAITING_GRANT, message)
    };
    Addresses {
        address: None,
        apply,
        release: Vec::new(),
        finding,
    }
}

/// How much of the owner's name stands in the name of its allocation.
const LONGEST_NAME: usize = 200;
/// How many digits tell allocations of one owner apart.
const DIGITS: usize = 10;

impl Claimant<'_> {
    /// The allocation for one pool. Its name follows from what it asks for, since allocations cannot be changed.
    fn manifest(&self, pool: &str, pinned: Option<IpAddr>) -> Manifest {
        let pinned_text = pinned.map(|address| address.to_string());
        let mut hash = Sha256::new();
        for part in [self.uid, pool, pinned_text.as_deref().unwrap_or_default()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digits = hash.finalize();
        let digits = digits
            .iter()
            .take(DIGITS / 2)
            .fold(String::new(), |mut text, byte| {
                // Writing to a String cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            });
        let name: String = self.owner.name.chars().take(LONGEST_NAME).collect();
        let name = format!("{}-{digits}", name.trim_end_matches(['.', '-']));
        let spec = IPAllocationSpec {
            pool_ref: LocalReference {
                name: pool.to_owned(),
            },
            tenant_cluster_ref: None,
            owner_ref: Some(AllocationOwnerReference {
                api_version: self.kind.api_version(),
                kind: self.kind.kind.clone(),
                name: self.owner.name.clone(),
                namespace: self.owner.namespace.clone(),
                uid: Some(self.uid.to_owned()),
            }),
            kind: self.purpose,
            count: Some(1),
            pinned_range: pinned_text.map(|address| PinnedRange {
                start_address: address.clone(),
                end_address: address,
            }),
        };
        let mut metadata = json!({
            "name": name,
            "namespace": self.namespace,
            "finalizers": [finalizers::ADDRESSES_IN_USE],
        });
        if let Some(tenant) = self.tenant {
            metadata["labels"] = json!({
                labels::TENANT: tenant.name,
                labels::SOURCE_NAMESPACE: tenant.namespace,
                labels::SOURCE_NAME: tenant.name,
            });
        }
        let body = json!({ "metadata": metadata, "spec": spec });
        Manifest::new(Kind::of::<IPAllocation>(), body)
    }
}

/// Gives an allocation back: takes our mark off and deletes it. One that is gone is well.
pub(crate) async fn release(release: &Release, context: &Context) -> Result<(), Failure> {
    let kind = Kind::of::<IPAllocation>();
    let api = context.api();
    let Some(body) = api.get(&kind, &release.key).await? else {
        return Ok(());
    };
    if body.pointer("/metadata/uid").and_then(Value::as_str) != Some(&release.uid) {
        return Ok(());
    }
    let preconditions = Preconditions {
        uid: Some(release.uid.clone()),
        resource_version: None,
    };
    // First deleted, then let go: an allocation without our mark that lives on would look like one in nobody's use.
    api.delete(&kind, &release.key, preconditions).await?;
    let Some(body) = api.get(&kind, &release.key).await? else {
        return Ok(());
    };
    let held = body
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    let held: Vec<&Value> = held.into_iter().flatten().collect();
    let others: Vec<&Value> = held
        .iter()
        .filter(|held| held.as_str() != Some(finalizers::ADDRESSES_IN_USE))
        .copied()
        .collect();
    if others.len() == held.len() {
        return Ok(());
    }
    let patch = json!({ "metadata": {
        "uid": release.uid,
        "resourceVersion": body.pointer("/metadata/resourceVersion"),
        "finalizers": others,
    } });
    match api.merge(&kind, &release.key, patch).await {
        Err(error) if error.cause == butler_runtime::api_server::Cause::NotFound => Ok(()),
        other => {
            other?;
            Ok(())
        }
    }
}

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;

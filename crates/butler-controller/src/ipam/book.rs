//! The book of a pool: `butler-ipam`'s picture of it, opened from the ledger and the world around.

use std::net::IpAddr;

use butler_api::{conditions::reasons, keys::groups, net::AddressRange};
use butler_ipam::{Layout, Pool, Quota, Refusal, Request, Violation};

use super::{claimant::Claimant, infrastructure, observe::Surroundings};

/// What asks for a machine; its node has the same name.
const MACHINE_REQUEST: &str = "MachineRequest";

/// Why an allocation gets nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// CamelCase reason.
    pub(crate) reason: &'static str,
    /// The field that asks for it.
    pub(crate) field: String,
    /// What is so, and what to do about it.
    pub(crate) message: String,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self {
            reason: refusal.reason(),
            field: refusal.field().to_owned(),
            message: refusal.to_string(),
        }
    }
}

impl From<Violation> for Refused {
    fn from(violation: Violation) -> Self {
        Self {
            reason: reasons::VALIDATION_FAILED,
            field: violation.field,
            message: violation.rule,
        }
    }
}

/// Opens the book of a pool as the ledger has it now.
pub(crate) fn open(layout: Layout, around: &Surroundings) -> Pool {
    let mut book = Pool::new(layout);
    for (range, pool) in &around.shared {
        book.block(range, pool);
    }
    for (range, pool) in &around.left_over {
        book.block(range, pool);
    }
    for (address, what) in &around.services {
        block_address(&mut book, *address, what);
    }
    for (address, allocation) in &around.infrastructure {
        block_address(&mut book, *address, &infrastructure::user(allocation));
    }
    for claimant in around.unrecorded() {
        if let Some(range) = &claimant.committed {
            let what = format!("IPAllocation {} shows it", claimant.name);
            book.block(range, &what);
        }
    }
    for entry in around.ledger.dangling() {
        book.block(&entry.range, "a grant that was not completed");
    }
    for entry in around.ledger.grants() {
        let claimant = around.claimants.get(&entry.uid);
        let holder = claimant.map_or_else(|| unknown(entry), Claimant::holder);
        // The API server let each page be written once over each version, so no two grants of it overlap.
        if let Err(taken) = book.hold(&entry.range, holder) {
            tracing::error!(%taken, allocation = entry.name, "a ledger grants an address twice");
        }
    }
    book
}

fn block_address(book: &mut Pool, address: IpAddr, what: &str) {
    if let Ok(range) = AddressRange::new(address, address) {
        book.block(&range, what);
    }
}

/// The holder of a grant whose allocation is not in sight.
fn unknown(entry: &super::ledger::Entry) -> butler_ipam::Holder {
    butler_ipam::Holder {
        allocation: entry.uid.clone(),
        owner: butler_ipam::Owner {
            kind: "IPAllocation".to_owned(),
            namespace: None,
            name: entry.name.clone(),
        },
    }
}

/// What an allocation would get from a book, or why it gets nothing.
pub(crate) fn find(
    book: &Pool,
    claimant: &Claimant,
    around: &Surroundings,
) -> Result<AddressRange, Refused> {
    // A machine that was there before its request: its node uses the very address that is asked for on its behalf.
    if let Some(address) = of_its_own_node(claimant, around) {
        let mut without = around.clone();
        without.infrastructure.remove(&address);
        let book = open(book.layout().clone(), &without);
        return search(&book, claimant, &without);
    }
    search(book, claimant, around)
}

/// The address that an allocation pins for a `MachineRequest` and that the node of the same machine has.
fn of_its_own_node(claimant: &Claimant, around: &Surroundings) -> Option<IpAddr> {
    let owner = claimant.spec.owner_ref.as_ref()?;
    let pinned = claimant.spec.pinned_range.as_ref()?;
    let address: IpAddr = pinned.start_address.parse().ok()?;
    let node = around.infrastructure.get(&address)?.node_ref.as_ref()?;
    let own = owner.kind == MACHINE_REQUEST
        && owner.api_version == groups::BUTLER_API_VERSION
        && node.name == owner.name
        && pinned.end_address == pinned.start_address;
    own.then_some(address)
}

fn search(
    book: &Pool,
    claimant: &Claimant,
    around: &Surroundings,
) -> Result<AddressRange, Refused> {
    let owner = claimant.counted();
    let quota = around.quotas.get(&(owner.clone(), claimant.spec.kind));
    let quota = quota.map(|share| Quota {
        most: share.most,
        used: share.elsewhere.saturating_add(used(book, claimant, around)),
    });
    let mut request = Request::of(&claimant.spec, book.layout(), quota)?;
    request.owner = owner;
    Ok(book.find(&request)?)
}

/// How many addresses of its type whoever an allocation counts for has in this pool.
fn used(book: &Pool, claimant: &Claimant, around: &Surroundings) -> u32 {
    let owner = claimant.counted();
    let of_type = |uid: &str| {
        let other = around.claimants.get(uid);
        other.is_some_and(|other| other.spec.kind == claimant.spec.kind)
    };
    let held = book
        .held()
        .filter(|(_, holder)| holder.owner == owner && of_type(&holder.allocation));
    let counts = held.map(|(range, _)| u32::try_from(range.count()).unwrap_or(u32::MAX));
    counts.fold(0, u32::saturating_add)
}

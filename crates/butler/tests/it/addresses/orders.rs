//! Who asks for which addresses: one pool, many writers, all drawn from a seed.

use std::collections::{BTreeSet, VecDeque};

use butler_api::butler::{
    ip_allocation::IPAllocation, network_pool::NetworkPool, tenant_cluster::TenantCluster,
};
use futures::future::join_all;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::record::{Record, Recorder};

/// The pool.
pub(crate) const POOL: &str = "edge";
/// The addresses it gives out, over several pages of its ledger, and 16 of them reserved.
pub(crate) const WINDOWS: [(&str, &str); 2] = [
    ("10.60.0.10", "10.60.11.255"),
    ("10.60.16.0", "10.60.27.121"),
];
/// What is never given out in the midst of it.
pub(crate) const RESERVED: (&str, &str) = ("10.60.8.0", "10.60.8.15");

const RESERVED_BLOCK: &str = "10.60.8.0/28";
const NAMESPACE: &str = "default";
/// How many requests of a writer are on their way at once.
const LANES: usize = 4;
/// Let this many of its allocations live at once that a writer will delete again.
const KEPT: usize = 6;
/// Nobody asks for more while this many wait: a queue that only grows would be all that is tested.
const BACKLOG: usize = 160;

/// Reads an object as its owner writes it.
fn object<K: DeserializeOwned>(kind: &str, name: &str, spec: &Value) -> K {
    serde_json::from_value(json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": kind,
        "metadata": { "name": name },
        "spec": spec,
    }))
    .unwrap()
}

/// Creates the pool.
pub(crate) async fn create_pool(client: &Client) {
    let windows = WINDOWS.map(|(start, end)| json!({ "start": start, "end": end }));
    let spec = json!({
        "cidr": "10.60.0.0/16",
        "reserved": [{ "cidr": RESERVED_BLOCK }],
        "tenantAllocation": {
            "ranges": windows,
            "defaults": { "nodesPerTenant": 3, "lbPoolPerTenant": 5 },
        },
    });
    let pool = object::<NetworkPool>("NetworkPool", POOL, &spec);
    let pools = Api::default_namespaced(client.clone());
    pools.create(&PostParams::default(), &pool).await.unwrap();
}

/// One allocation, and what its writer does with it.
struct Order {
    name: String,
    allocation: IPAllocation,
    leaves: Option<Leaves>,
}

/// When an allocation is deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// At some time, in whatever state it is.
    Whenever,
    /// Once it was granted or refused.
    Settled,
}

/// Somebody who creates allocations for a tenant cluster and deletes some of them again.
pub(crate) struct Writer {
    client: Client,
    lanes: Vec<Vec<Order>>,
}

impl Writer {
    /// A writer with a cluster of its own. All of its deeds are drawn from the seed and its number.
    pub(crate) async fn new(client: &Client, seed: u64, number: usize, allocations: usize) -> Self {
        let cluster = format!("cluster-{number}");
        let spec = json!({ "kubernetesVersion": "v1.35.2", "workers": { "replicas": 3 } });
        let body = object::<TenantCluster>("TenantCluster", &cluster, &spec);
        let clusters = Api::default_namespaced(client.clone());
        let created = clusters.create(&PostParams::default(), &body).await;
        created.unwrap();

        let stream = u64::try_from(number).unwrap();
        let mut random = SmallRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(stream));
        let mut lanes: Vec<_> = (0..LANES).map(|_| Vec::new()).collect();
        for order in 0..allocations {
            // By its turn, not by its writer: a controller that starts takes what it finds in the order of names.
            let name = format!("order-{order:04}-of-{cluster}");
            lanes[order % LANES].push(Order::draw(name, &cluster, &mut random));
        }
        Self {
            client: client.clone(),
            lanes,
        }
    }

    /// The allocations that will be there at the end.
    pub(crate) fn stay(&self) -> BTreeSet<String> {
        let orders = self.lanes.iter().flatten();
        orders
            .filter(|order| order.leaves.is_none())
            .map(|order| order.name.clone())
            .collect()
    }

    /// Those of them that are content with any addresses: there are more than all ask for, so nothing stands in their way.
    pub(crate) fn undemanding(&self) -> BTreeSet<String> {
        let orders = self.lanes.iter().flatten();
        let stay = orders.filter(|order| order.leaves.is_none());
        stay.filter(|order| order.allocation.spec.pinned_range.is_none())
            .map(|order| order.name.clone())
            .collect()
    }

    /// Does it all.
    pub(crate) async fn write(&self, recorder: &Recorder) {
        let api = Api::<IPAllocation>::default_namespaced(self.client.clone());
        let lanes = self.lanes.iter();
        join_all(lanes.map(|lane| write_lane(lane, &api, recorder))).await;
    }
}

async fn write_lane(orders: &[Order], api: &Api<IPAllocation>, recorder: &Recorder) {
    let mut leaving = VecDeque::new();
    for order in orders {
        let short = |record: &Record| record.waiting.len() < BACKLOG;
        recorder.until("fewer allocations wait", short).await;
        let created = api.create(&PostParams::default(), &order.allocation).await;
        created.unwrap();
        leaving.extend(order.leaves.map(|leaves| (order, leaves)));
        if leaving.len() > KEPT
            && let Some((order, leaves)) = leaving.pop_front()
        {
            delete(order, leaves, api, recorder).await;
        }
    }
    for (order, leaves) in leaving {
        delete(order, leaves, api, recorder).await;
    }
}

async fn delete(order: &Order, leaves: Leaves, api: &Api<IPAllocation>, recorder: &Recorder) {
    if leaves == Leaves::Settled {
        let settled = format!("{} is granted or refused", order.name);
        recorder
            .until(&settled, |record| record.settled.contains(&order.name))
            .await;
    }
    let deleted = api.delete(&order.name, &DeleteParams::default()).await;
    deleted.unwrap();
}

impl Order {
    fn draw(name: String, cluster: &str, random: &mut SmallRng) -> Self {
        let kind = ["nodes", "loadbalancer"][random.random_range(0..2)];
        let mut spec = json!({
            "poolRef": { "name": POOL },
            "tenantClusterRef": { "name": cluster, "namespace": NAMESPACE },
            "type": kind,
        });
        match random.random_range(0..100) {
            0..72 => spec["count"] = random.random_range(1..=4).into(),
            72..80 => spec["count"] = 8.into(),
            80..88 => spec["pinnedRange"] = pinned(random),
            _ => {}
        }
        let leaves = match random.random_range(0..6) {
            0 => Some(Leaves::Whenever),
            1 => Some(Leaves::Settled),
            _ => None,
        };
        Self {
            allocation: object("IPAllocation", &name, &spec),
            name,
            leaves,
        }
    }
}

/// Addresses that somebody insists on: some where two pages meet, most where nobody comes by himself, some wanted twice.
fn pinned(random: &mut SmallRng) -> Value {
    let (third, fourth) = match random.random_range(0..4) {
        0 => ([3, 7, 19, 23][random.random_range(0..4)], 254),
        _ => (random.random_range(24..27), random.random_range(0..252)),
    };
    let more: u32 = random.random_range(0..4);
    let start = u32::from_be_bytes([10, 60, third, fourth]);
    let address = |number: u32| std::net::Ipv4Addr::from(number).to_string();
    json!({ "startAddress": address(start), "endAddress": address(start + more) })
}

//! What a management cluster has given away, so that it can be compared before and after.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kit::{Installation, eventually};

const METRICS_OF_THE_STORE: &str =
    "/api/v1/namespaces/butler-system/services/steward-etcd-metrics:metrics/proxy/metrics";
/// The number of keys that are there.
const KEYS: &str = "etcd_debugging_mvcc_keys_total ";

/// Everything that a cluster which is gone must have given back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Books {
    /// Names of machines.
    machines: BTreeSet<String>,
    /// Names of namespaces.
    namespaces: BTreeSet<String>,
    /// Addresses that somebody has, with whose they are.
    addresses: BTreeSet<String>,
    /// How many addresses the pool has left.
    free: Value,
    /// Control planes that have a place in the store.
    tenants_of_the_store: BTreeSet<String>,
    /// How many keys the store holds, whosever they are.
    keys_of_the_store: String,
    /// Machines that were asked for.
    requests: BTreeSet<String>,
}

impl Books {
    pub(super) fn read(installation: &Installation) -> Result<Self, String> {
        let get = |arguments: &[&str]| -> Result<Value, String> {
            let mut all = vec!["get", "-o", "json"];
            all.extend(arguments);
            let text = installation.kubectl(&all)?;
            serde_json::from_str(&text).map_err(|error| error.to_string())
        };
        let namespaces = get(&["namespaces"])?;
        let allocations = get(&["ipallocations", "--all-namespaces"])?;
        let pool = get(&["networkpool", "local", "--namespace", "butler-system"])?;
        let store = get(&["datastore", "default"])?;
        let requests = get(&["machinerequests", "--all-namespaces"])?;
        let address = |one: &Value| {
            let (metadata, status) = (&one["metadata"], &one["status"]);
            format!(
                "{} {}-{}",
                metadata["name"], status["startAddress"], status["endAddress"]
            )
        };
        Ok(Self {
            machines: installation.machines().into_iter().collect(),
            namespaces: items(&namespaces)
                .map(|one| one["metadata"]["name"].to_string())
                .collect(),
            addresses: items(&allocations).map(address).collect(),
            free: pool["status"]["availableIPs"].clone(),
            tenants_of_the_store: store["status"]["usedBy"]
                .as_array()
                .into_iter()
                .flatten()
                .map(ToString::to_string)
                .collect(),
            keys_of_the_store: keys_of_the_store(installation)?,
            requests: items(&requests)
                .map(|one| one["metadata"]["name"].to_string())
                .collect(),
        })
    }

    /// Waits until everything is as it was.
    pub(super) fn are_balanced(&self, installation: &Installation) {
        eventually("everything is given back", || {
            let now = Self::read(installation)?;
            if now == *self {
                Ok(())
            } else {
                Err(format!("there was {self:#?}\nand there is {now:#?}"))
            }
        });
    }
}

/// What the store says of itself.
fn keys_of_the_store(installation: &Installation) -> Result<String, String> {
    let told = installation.kubectl(&["get", "--raw", METRICS_OF_THE_STORE])?;
    let mut lines = told.lines();
    let count = lines.find_map(|line| line.strip_prefix(KEYS));
    count
        .map(|count| count.trim().to_owned())
        .ok_or_else(|| format!("the store does not tell {KEYS}:\n{told}"))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

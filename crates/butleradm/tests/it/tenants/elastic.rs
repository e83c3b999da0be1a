//! Ranges of addresses that follow the need: a Service waits, and the cluster gets more; nobody needs them any more, and it gives them
//! back.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    cluster::Cluster,
    workload::{self, PORT},
};
use crate::kit::{Installation, eventually, note};

/// A provider like that of every installation, whose clusters begin with one address.
pub(super) const PROVIDER: &str = "sparing";
const NAMESPACE: &str = "butler-system";
/// Of the Service that finds no address.
const LATECOMER: &str = "echo-more";
const UNUSED_SINCE: &str = "butler.butlerlabs.dev/addresses-unused-since";
/// Longer than an unused range is kept.
const LONG: SignedDuration = SignedDuration::from_mins(11);

/// Makes the provider.
pub(super) fn provider_is_there(installation: &Installation) {
    let like = installation.get(&["providerconfig", "local", "--namespace", NAMESPACE]);
    let mut spec = like["spec"].clone();
    spec["network"]["loadBalancer"] = json!({
        "allocationMode": "elastic",
        "initialPoolSize": 1,
        "growthIncrement": 1,
    });
    let provider = json!({
        "apiVersion": like["apiVersion"],
        "kind": like["kind"],
        "metadata": { "name": PROVIDER, "namespace": NAMESPACE },
        "spec": spec,
    });
    installation.apply(&provider.to_string());
}

/// A second Service finds no address, gets one, and goes.
pub(super) fn grows_and_shrinks(installation: &Installation) {
    let shop = Cluster::shop(installation);
    let first = workload::ranges(&shop);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0].0, first[0].1, "it begins with one address");
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": LATECOMER },
        "spec": {
            "type": "LoadBalancer",
            "selector": { "app": "echo" },
            "ports": [{ "port": PORT, "targetPort": 8080 }],
        },
    });
    shop.apply(&service.to_string());
    let address = workload::address(&shop, LATECOMER);
    let grown = workload::ranges(&shop);
    note(&format!("{first:?} became {grown:?}"));
    assert_eq!(grown.len(), 2, "{grown:?}");
    assert!(
        grown.contains(&(address, address)),
        "{address} of {grown:?}"
    );
    eventually("an answer at the new address", || workload::fetch(address));

    eventually("the Service is asked to go", || {
        shop.kubectl(&["delete", "service", LATECOMER, "--wait=false"])
    });
    let range = eventually("nobody uses the range that was added", || {
        let range = allocation_of(installation, &address.to_string())?;
        let unused = range["metadata"]["annotations"][UNUSED_SINCE].is_string();
        unused.then_some(()).ok_or_else(|| range.to_string())?;
        Ok(range["metadata"]["name"].as_str().unwrap().to_owned())
    });
    // Nobody waits so long: it is dated as if the time were over.
    let since = Timestamp::now() - LONG;
    eventually("the range is unused for long", || {
        installation.kubectl(&[
            "annotate",
            "--overwrite",
            "ipallocation",
            "--namespace",
            NAMESPACE,
            &range,
            &format!("{UNUSED_SINCE}={since}"),
        ])
    });
    eventually("the range is given back", || {
        let left = workload::ranges(&shop);
        (left == first)
            .then_some(())
            .ok_or_else(|| format!("{left:?}"))
    });
}

/// The allocation that begins with an address.
fn allocation_of(installation: &Installation, address: &str) -> Result<Value, String> {
    let text = installation.kubectl(&["get", "ipallocations", "--all-namespaces", "-o", "json"])?;
    let all: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let mut all = all["items"].as_array().into_iter().flatten();
    let found = all.find(|one| one["status"]["startAddress"] == address);
    found
        .cloned()
        .ok_or_else(|| format!("no allocation has {address}"))
}

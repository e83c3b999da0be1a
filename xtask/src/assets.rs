//! The binaries that tests run, made before the tests so that their making is seen.

use anyhow::Context;
use butler_assets::{Asset, Component};

/// What the test servers are made of.
const NEEDED: [Component; 3] = [
    Component::Etcd,
    Component::KubeApiserver,
    Component::KubeControllerManager,
];

/// Makes sure that they are there.
pub(crate) fn run() -> anyhow::Result<String> {
    let runtime = tokio::runtime::Runtime::new().context("could not start the runtime")?;
    let found = runtime.block_on(butler_assets::ensure(&NEEDED.map(Asset::default_of)))?;
    let lines = found
        .iter()
        .map(|(asset, path)| format!("{asset}: {}", path.display()));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

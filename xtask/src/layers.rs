//! The layers of the house: a crate may use what is below it or beside it, never what is above.
//!
//! Dev-dependencies are free: tests of a low crate may stand on a high one. Cargo itself forbids cycles of the others.

use std::{path::Path, process::Command};

use anyhow::{Context, bail};
use serde::Deserialize;

/// From the ground up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Vocabulary,
    Domain,
    Adapter,
    Application,
    Binary,
    /// May use everything, and may itself be used by its own layer and by tests alone.
    Tests,
}

/// Every crate has its layer here; a crate without one fails the check.
const LAYERS: &[(&str, Layer)] = &[
    ("butler-api", Layer::Vocabulary),
    ("butler-ipam", Layer::Domain),
    ("butler-pki", Layer::Domain),
    ("butler-assets", Layer::Adapter),
    ("butler-helm", Layer::Adapter),
    ("butler-host", Layer::Adapter),
    ("butler-local", Layer::Adapter),
    ("butler-proto", Layer::Adapter),
    ("butler-runtime", Layer::Adapter),
    ("steward-tenant", Layer::Adapter),
    ("butler-tunnel", Layer::Adapter),
    ("steward-datastore", Layer::Adapter),
    ("butler-controller", Layer::Application),
    ("butler-provider", Layer::Application),
    ("butler-cli", Layer::Application),
    ("steward", Layer::Application),
    ("butler", Layer::Binary),
    ("butleradm", Layer::Binary),
    ("butlerctl", Layer::Binary),
    ("butler-bench", Layer::Tests),
    ("butler-testkit", Layer::Tests),
    ("xtask", Layer::Tests),
];

#[derive(Deserialize)]
struct Workspace {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or absent for an ordinary one.
    kind: Option<String>,
    /// Only members of the workspace have one.
    path: Option<String>,
}

/// Reads the workspace and complains of every edge that goes upwards.
pub(crate) fn check(manifest_path: &Path) -> anyhow::Result<String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(manifest_path)
        .output()
        .context("could not run cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let workspace: Workspace =
        serde_json::from_slice(&output.stdout).context("could not read cargo metadata")?;
    let violations = violations(&workspace);
    if violations.is_empty() {
        Ok(format!(
            "{} crates stand in their layers",
            workspace.packages.len()
        ))
    } else {
        bail!("{}", violations.join("\n"))
    }
}

fn violations(workspace: &Workspace) -> Vec<String> {
    let mut violations = Vec::new();
    for package in &workspace.packages {
        let Some(upper) = layer_of(&package.name) else {
            violations.push(format!(
                "{} has no layer: give it one in xtask/src/layers.rs",
                package.name
            ));
            continue;
        };
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| is_edge(dependency))
        {
            let allowed = match layer_of(&dependency.name) {
                Some(lower) => lower <= upper,
                None => continue,
            };
            if !allowed {
                violations.push(format!(
                    "{} ({upper:?}) must not depend on {} ({:?}): move the code down, or turn the edge around",
                    package.name,
                    dependency.name,
                    layer_of(&dependency.name).unwrap_or(upper),
                ));
            }
        }
    }
    violations
}

fn is_edge(dependency: &Dependency) -> bool {
    dependency.path.is_some() && dependency.kind.as_deref() != Some("dev")
}

fn layer_of(name: &str) -> Option<Layer> {
    LAYERS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, layer)| *layer)
}

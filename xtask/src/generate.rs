//! Files that are generated and committed, so that a change of what they are made of is a diff in review.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use butler_api::crds;

use crate::proto;

/// For `kubectl apply`.
const BASES: &str = "config/crd/bases";
/// The chart that installs them.
const CHART: &str = "charts/butler-crds/templates";

/// Writes all generated files, or checks that they are fresh.
pub(crate) fn run(check: bool) -> anyhow::Result<String> {
    let root = root();
    let wanted = wanted(&root)?;
    let stale = stale(&root, &wanted)?;
    if check {
        if stale.is_empty() {
            return Ok(format!("{} generated files are fresh", wanted.len()));
        }
        let names: Vec<_> = stale
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        bail!(
            "not fresh: {}; run `cargo xtask generate` and commit the result",
            names.join(", ")
        );
    }
    for path in &stale {
        let target = root.join(path);
        match wanted.get(path) {
            Some(text) => {
                let folder = target.parent().unwrap_or(&root);
                fs::create_dir_all(folder)
                    .with_context(|| format!("could not make {}", folder.display()))?;
                fs::write(&target, text)
                    .with_context(|| format!("could not write {}", path.display()))?;
            }
            None => fs::remove_file(&target)
                .with_context(|| format!("could not remove {}", path.display()))?,
        }
    }
    Ok(format!(
        "{} of {} generated files written",
        stale.len(),
        wanted.len()
    ))
}

fn wanted(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut files = proto::files(root)?;
    for crd in crds::all() {
        let yaml = crds::to_yaml(&crd).context("could not write a CRD as YAML")?;
        let name = crds::file_name(&crd);
        files.insert(Path::new(CHART).join(&name), in_chart(&yaml));
        files.insert(Path::new(BASES).join(&name), yaml);
    }
    Ok(files)
}

/// Helm would read `{{` as its own; a CRD's words are not a template.
fn in_chart(yaml: &str) -> String {
    yaml.replace("{{", "{{ \"{{\" }}")
}

/// Files that differ from what is wanted, are missing, or are not wanted any more.
fn stale(root: &Path, wanted: &BTreeMap<PathBuf, String>) -> anyhow::Result<Vec<PathBuf>> {
    let differs = |path: &&PathBuf| {
        let text = fs::read_to_string(root.join(path)).ok();
        text.as_ref() != wanted.get(*path)
    };
    let mut stale: Vec<_> = wanted.keys().filter(differs).cloned().collect();
    for folder in [BASES, CHART] {
        let Ok(entries) = fs::read_dir(root.join(folder)) else {
            continue;
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("could not list {folder}"))?;
            let path = Path::new(folder).join(entry.file_name());
            let is_yaml = path
                .extension()
                .is_some_and(|extension| extension == "yaml");
            if is_yaml && !wanted.contains_key(&path) {
                stale.push(path);
            }
        }
    }
    Ok(stale)
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

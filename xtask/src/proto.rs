//! The code of foreign protocols, made of the `.proto` files in `crates/butler-proto` without any tool but this one.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// Where the descriptions are, from the root of the workspace.
const DESCRIPTIONS: &str = "crates/butler-proto/proto";
/// Where the code goes.
const CODE: &str = "crates/butler-proto/src";
/// Each description, and the package it declares, which is how the generator names its file.
const PROTOCOLS: [(&str, &str); 1] = [("etcd", "etcdserverpb")];

/// The generated files by their path from the root, with their text.
pub(crate) fn files(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for (name, package) in PROTOCOLS {
        let directory = tempfile::tempdir().context("could not make a temporary directory")?;
        let description = format!("{name}.proto");
        let descriptors = protox::compile([&description], [root.join(DESCRIPTIONS)])
            .with_context(|| format!("could not read {DESCRIPTIONS}/{description}"))?;
        tonic_prost_build::configure()
            .build_server(false)
            .out_dir(directory.path())
            .compile_fds(descriptors)
            .with_context(|| format!("could not generate the code of {description}"))?;
        let code = fs::read_to_string(directory.path().join(format!("{package}.rs")))
            .with_context(|| format!("{description} does not declare the package {package}"))?;
        files.insert(Path::new(CODE).join(format!("{name}.rs")), code);
    }
    Ok(files)
}

/// Writes the files.
pub(crate) fn run(root: &Path) -> anyhow::Result<String> {
    let files = files(root)?;
    for (path, text) in &files {
        fs::write(root.join(path), text)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(format!("{} protocols written", files.len()))
}

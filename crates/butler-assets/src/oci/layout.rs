//! The archive around the layer: an OCI image layout that is a docker-archive too.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tar::{Builder, EntryType};

use super::layer::{self, header};
use super::{Archive, Error, Image, READABLE};
use crate::asset::Platform;
use crate::digest::{Digest, HashingWriter, length};

const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// The name containerd gives an imported image.
const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// The tag, for tools that name images themselves.
const REFERENCE_NAME: &str = "org.opencontainers.image.ref.name";
/// Every image was made at the same moment, or its digest would tell when.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// Removes a file that is not wanted any more, whatever happened.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename it is gone already.
        drop(fs::remove_file(&self.0));
    }
}

/// Writes the archive by way of two temporary files beside it: the layer's digest must be known before its bytes.
pub(super) fn write(image: &Image, output: &Path) -> Result<Archive, Error> {
    let failed = |source| Error::Write {
        path: output.to_owned(),
        source,
    };
    if let Some(parent) = output.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let layer_file = Temporary(beside(output, "layer"));
    let archive_file = Temporary(beside(output, "archive"));

    let writer = HashingWriter::new(BufWriter::new(File::create(&layer_file.0).map_err(failed)?));
    let writer = layer::write(image, output, writer)?;
    let (mut writer, layer, layer_size) = writer.finish();
    writer.flush().map_err(failed)?;

    let config = bytes(&config(image, &layer));
    let config_digest = Digest::of(&config);
    let manifest = bytes(&manifest(&config_digest, config.len(), &layer, layer_size));
    let manifest_digest = Digest::of(&manifest);
    let small = [
        (
            "oci-layout".to_owned(),
            bytes(&json!({"imageLayoutVersion": "1.0.0"})),
        ),
        (
            "index.json".to_owned(),
            bytes(&index(image, &manifest_digest, manifest.len())),
        ),
        (
            "manifest.json".to_owned(),
            bytes(&docker_manifest(image, &config_digest, &layer)),
        ),
        (blob(&config_digest), config),
        (blob(&manifest_digest), manifest),
    ];

    let assemble = || -> io::Result<u64> {
        let file = File::create(&archive_file.0)?;
        let mut builder = Builder::new(BufWriter::new(file));
        for (name, content) in small {
            let mut header = header(EntryType::Regular, READABLE, length(content.len()));
            builder.append_data(&mut header, name, content.as_slice())?;
        }
        let mut header = header(EntryType::Regular, READABLE, layer_size);
        builder.append_data(&mut header, blob(&layer), File::open(&layer_file.0)?)?;
        let file = builder.into_inner()?.into_inner()?;
        file.sync_all()?;
        fs::rename(&archive_file.0, output)?;
        Ok(file.metadata()?.len())
    };
    let size = assemble().map_err(failed)?;
    Ok(Archive {
        manifest: manifest_digest,
        config: config_digest,
        layer,
        size,
    })
}

fn config(image: &Image, layer: &Digest) -> Value {
    let environment: Vec<String> = image
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut run = json!({"Entrypoint": image.entrypoint, "Env": environment});
    if let Some(user) = &image.user {
        run["User"] = user.as_str().into();
    }
    json!({
        "created": CREATED,
        "architecture": image.platform.architecture,
        "os": Platform::OPERATING_SYSTEM,
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [named(layer)]},
    })
}

fn manifest(config: &Digest, config_size: usize, layer: &Digest, layer_size: u64) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": CONFIG_TYPE, "digest": named(config), "size": config_size},
        "layers": [{"mediaType": LAYER_TYPE, "digest": named(layer), "size": layer_size}],
    })
}

fn index(image: &Image, manifest: &Digest, manifest_size: usize) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": [{
            "mediaType": MANIFEST_TYPE,
            "digest": named(manifest),
            "size": manifest_size,
            "platform": {"architecture": image.platform.architecture, "os": Platform::OPERATING_SYSTEM},
            "annotations": {CONTAINERD_NAME: image.reference, REFERENCE_NAME: tag(&image.reference)},
        }],
    })
}

fn docker_manifest(image: &Image, config: &Digest, layer: &Digest) -> Value {
    json!([{"Config": blob(config), "RepoTags": [image.reference], "Layers": [blob(layer)]}])
}

/// The tag of a reference. A colon before the last slash is a port.
fn tag(reference: &str) -> &str {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    name.split_once(':').map_or("latest", |(_, tag)| tag)
}

fn named(digest: &Digest) -> String {
    format!("sha256:{digest}")
}

fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{digest}")
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn beside(output: &Path, what: &str) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{what}.tmp", std::process::id()));
    output.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_is_what_follows_the_name_and_not_a_port() {
        assert_eq!(tag("registry.k8s.io/kube-apiserver:v1.36.3"), "v1.36.3");
        assert_eq!(tag("localhost:5000/pause"), "latest");
    }
}

//! What is in an archive and where: read from its table of contents, without unpacking it.
//!
//! Two kinds are understood: OCI image layouts, and what `docker save` wrote before it wrote those.

use std::{collections::BTreeMap, fs::File, io, os::unix::fs::FileExt as _, path::Path, sync::Arc};

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tar::EntryType;

use super::reference::Reference;

/// A manifest or configuration that is larger than this is none.
const LARGEST_DOCUMENT: u64 = 4 * 1024 * 1024;
/// Indexes of indexes end somewhere.
const DEEPEST_INDEX: usize = 4;
const CONTAINERD_NAME: &str = "io.containerd.image.name";
const REFERENCE_NAME: &str = "org.opencontainers.image.ref.name";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// Bytes in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Where a document is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    InArchive(Position),
    /// Old archives have none, so it is made of what they have.
    Made(Arc<[u8]>),
}

/// A manifest or an index.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) media_type: String,
    pub(super) place: Place,
}

/// What is in an archive. Digests are written `sha256:…`.
#[derive(Debug)]
pub(super) struct Contents {
    /// Open, so that what is served fits what was read, also when the archive was replaced.
    pub(super) file: Arc<File>,
    /// Names, and the digests of what they name.
    pub(super) images: Vec<(Reference, String)>,
    pub(super) manifests: BTreeMap<String, Manifest>,
    pub(super) blobs: BTreeMap<String, Position>,
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: Option<String>,
    digest: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct Configuration {
    rootfs: RootFileSystem,
}

#[derive(Deserialize)]
struct RootFileSystem {
    diff_ids: Vec<String>,
}

/// Reads the table of contents.
pub(super) fn read(path: &Path) -> io::Result<Contents> {
    let file = File::open(path)?;
    let entries = entries(&file)?;
    let mut contents = Contents {
        file: Arc::new(file),
        images: Vec::new(),
        manifests: BTreeMap::new(),
        blobs: BTreeMap::new(),
    };
    for (name, position) in &entries {
        if let Some(hex) = name.strip_prefix("blobs/sha256/") {
            contents.blobs.insert(format!("sha256:{hex}"), *position);
        }
    }
    if let Some(index) = entries.get("index.json") {
        let index: Index = contents.document(*index)?;
        contents.add_index(index, DEEPEST_INDEX)?;
    } else if let Some(list) = entries.get("manifest.json") {
        for image in contents.document::<Vec<DockerImage>>(*list)? {
            contents.add_docker_image(&image, &entries)?;
        }
    } else {
        return Err(invalid("it has neither an index.json nor a manifest.json"));
    }
    Ok(contents)
}

/// Names of all files, and where they are. A link is what it leads to.
fn entries(file: &File) -> io::Result<BTreeMap<String, Position>> {
    let length = file.metadata()?.len();
    let mut found = BTreeMap::new();
    let mut links = Vec::new();
    let mut archive = tar::Archive::new(file);
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let name = plain(&entry.path()?);
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                let position = Position {
                    offset: entry.raw_file_position(),
                    size: entry.size(),
                };
                // It may still be on its way here.
                if position
                    .offset
                    .checked_add(position.size)
                    .is_none_or(|end| end > length)
                {
                    return Err(invalid("it is cut off"));
                }
                found.insert(name, position);
            }
            EntryType::Symlink | EntryType::Link => {
                if let Some(target) = entry.link_name()? {
                    let beside = Path::new(&name).parent().unwrap_or_else(|| Path::new(""));
                    links.push((name.clone(), plain(&beside.join(&target)), plain(&target)));
                }
            }
            _ => {}
        }
    }
    for (name, beside, absolute) in links {
        if let Some(position) = found.get(&beside).or_else(|| found.get(&absolute)) {
            found.insert(name, *position);
        }
    }
    Ok(found)
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::Normal(part) => parts.extend(part.to_str()),
            std::path::Component::ParentDir => {
                parts.pop();
            }
            _ => {}
        }
    }
    parts.join("/")
}

impl Contents {
    fn bytes(&self, position: Position) -> io::Result<Vec<u8>> {
        if position.size > LARGEST_DOCUMENT {
            return Err(invalid("a manifest or configuration in it is too large"));
        }
        let mut bytes = vec![0; usize::try_from(position.size).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, position.offset)?;
        Ok(bytes)
    }

    fn document<T: for<'text> Deserialize<'text>>(&self, position: Position) -> io::Result<T> {
        serde_json::from_slice(&self.bytes(position)?).map_err(io::Error::from)
    }

    /// All manifests of an index. Those of other platforms may be missing.
    fn add_index(&mut self, index: Index, depth: usize) -> io::Result<()> {
        if depth == 0 {
            return Err(invalid("its indexes are too deep"));
        }
        for descriptor in index.manifests {
            let Some(position) = self.blobs.get(&descriptor.digest).copied() else {
                continue;
            };
            let names = [CONTAINERD_NAME, REFERENCE_NAME];
            let name = names
                .into_iter()
                .filter_map(|key| descriptor.annotations.get(key))
                // A bare tag is no name.
                .find(|name| name.contains(['/', ':']))
                .and_then(|name| Reference::parse(name));
            self.images
                .extend(name.map(|name| (name, descriptor.digest.clone())));
            let media_type = descriptor
                .media_type
                .unwrap_or_else(|| MANIFEST_TYPE.to_owned());
            if INDEX_TYPES.contains(&media_type.as_str()) {
                let inner: Index = self.document(position)?;
                self.add_index(inner, depth - 1)?;
            }
            let manifest = Manifest {
                media_type,
                place: Place::InArchive(position),
            };
            self.manifests.insert(descriptor.digest, manifest);
        }
        Ok(())
    }

    fn add_docker_image(
        &mut self,
        image: &DockerImage,
        entries: &BTreeMap<String, Position>,
    ) -> io::Result<()> {
        let find = |name: &str| {
            entries
                .get(&plain(Path::new(name)))
                .copied()
                .ok_or_else(|| invalid(format!("{name} is missing in it")))
        };
        let config = find(&image.config)?;
        let bytes = self.bytes(config)?;
        let config_digest = digest(&bytes);
        let configuration: Configuration = serde_json::from_slice(&bytes)?;
        let mut layers = Vec::new();
        // The layers are not compressed, so their digests are those of the configuration.
        for (name, layer) in image.layers.iter().zip(configuration.rootfs.diff_ids) {
            let position = find(name)?;
            layers.push(json!({"mediaType": LAYER_TYPE, "digest": layer, "size": position.size}));
            self.blobs.insert(layer, position);
        }
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": config_digest, "size": config.size},
            "layers": layers,
        })
        .to_string()
        .into_bytes();
        let manifest_digest = digest(&manifest);
        self.blobs.insert(config_digest, config);
        let names = image.repo_tags.iter().flatten();
        self.images.extend(
            names
                .filter_map(|name| Reference::parse(name))
                .map(|name| (name, manifest_digest.clone())),
        );
        let manifest = Manifest {
            media_type: MANIFEST_TYPE.to_owned(),
            place: Place::Made(manifest.into()),
        };
        self.manifests.insert(manifest_digest, manifest);
        Ok(())
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

/// The SHA-256 digest in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn invalid(words: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.into())
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write as _;

    use pretty_assertions::assert_eq;

    use super::*;

    /// A tar of files.
    pub(in crate::images) fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(bytes.len()).unwrap());
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    /// An OCI archive with one image of one layer, and the digests of its manifest and its layer.
    pub(in crate::images) fn oci_archive(name: &str, layer: &[u8]) -> (Vec<u8>, String, String) {
        let layer_digest = digest(layer);
        let config = json!({"rootfs": {"type": "layers", "diff_ids": [layer_digest]}}).to_string();
        let manifest = json!({
            "schemaVersion": 2,
            "config": {"mediaType": CONFIG_TYPE, "digest": digest(config.as_bytes()), "size": config.len()},
            "layers": [{"mediaType": LAYER_TYPE, "digest": layer_digest, "size": layer.len()}],
        })
        .to_string();
        let manifest_digest = digest(manifest.as_bytes());
        let index = json!({"schemaVersion": 2, "manifests": [{
            "mediaType": MANIFEST_TYPE, "digest": manifest_digest, "size": manifest.len(),
            "annotations": {CONTAINERD_NAME: name, REFERENCE_NAME: "tag"},
        }]})
        .to_string();
        let blob = |digest: &str| format!("blobs/sha256/{}", &digest["sha256:".len()..]);
        let bytes = tar_of(&[
            ("oci-layout", b"{\"imageLayoutVersion\":\"1.0.0\"}"),
            ("index.json", index.as_bytes()),
            (&blob(&digest(config.as_bytes())), config.as_bytes()),
            (&blob(&manifest_digest), manifest.as_bytes()),
            (&blob(&layer_digest), layer),
        ]);
        (bytes, manifest_digest, layer_digest)
    }

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn an_image_layout_is_read_without_unpacking() {
        let (bytes, manifest, layer) = oci_archive("registry.k8s.io/pause:3.10.2", b"layer");
        let file = written(&bytes);
        let contents = read(file.path()).unwrap();
        assert_eq!(
            contents.images,
            [(
                Reference::parse("registry.k8s.io/pause:3.10.2").unwrap(),
                manifest.clone()
            )]
        );
        assert_eq!(contents.manifests[&manifest].media_type, MANIFEST_TYPE);
        assert_eq!(contents.bytes(contents.blobs[&layer]).unwrap(), b"layer");
    }

    #[test]
    fn what_docker_saved_gets_a_manifest() {
        let layer_digest = digest(b"layer");
        let config = json!({"rootfs": {"type": "layers", "diff_ids": [layer_digest]}}).to_string();
        let list =
            json!([{"Config": "c.json", "RepoTags": ["busybox:1"], "Layers": ["a/layer.tar"]}])
                .to_string();
        let file = written(&tar_of(&[
            ("c.json", config.as_bytes()),
            ("./a/layer.tar", b"layer"),
            ("manifest.json", list.as_bytes()),
        ]));
        let contents = read(file.path()).unwrap();
        let (name, manifest) = &contents.images[0];
        assert_eq!(name.to_string(), "docker.io/library/busybox:1");
        let Place::Made(bytes) = &contents.manifests[manifest].place else {
            panic!("it has no manifest of its own");
        };
        let made: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        assert_eq!(made["layers"][0]["digest"], *layer_digest);
        assert_eq!(
            contents.bytes(contents.blobs[&layer_digest]).unwrap(),
            b"layer"
        );
        assert!(contents.blobs.contains_key(&digest(config.as_bytes())));
    }

    #[test]
    fn what_is_no_archive_or_is_cut_off_is_refused() {
        let (bytes, _, _) = oci_archive("a.example/b:1", &[7; 4096]);
        assert!(read(written(&bytes[..bytes.len() - 4096]).path()).is_err());
        assert!(read(written(b"no archive at all").path()).is_err());
        let other = tar_of(&[("notes.txt", b"x")]);
        let error = read(written(&other).path()).unwrap_err().to_string();
        assert!(error.contains("index.json"), "{error}");
    }
}

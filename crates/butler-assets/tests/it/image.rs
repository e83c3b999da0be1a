//! Image archives: the same files give the same bytes, and everything needed is in them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use butler_assets::Digest;
use butler_assets::oci::{EXECUTABLE, Image, READABLE, libraries_of};
use pretty_assertions::assert_eq;
use serde_json::Value;

const REFERENCE: &str = "registry.example/kube-proxy:v1.36.3";

#[test]
fn same_files_give_the_same_bytes_whatever_their_order_and_times() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, seconds) in [("a", 1), ("b", 2), ("other-a", 3), ("other-b", 4)] {
        fs::write(path(name), name.trim_start_matches("other-")).unwrap();
        let file = File::options().write(true).open(path(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds))
            .unwrap();
    }
    let mut one = Image::new(REFERENCE);
    one.file(path("a"), "/usr/bin/a", EXECUTABLE).unwrap();
    one.file(path("b"), "/etc/b", READABLE).unwrap();
    one.environment("A", "1")
        .environment("B", "2")
        .entrypoint(["/usr/bin/a"]);
    let mut other = Image::new(REFERENCE);
    other.file(path("other-b"), "/etc/b", READABLE).unwrap();
    other
        .file(path("other-a"), "/usr/bin/a", EXECUTABLE)
        .unwrap();
    other
        .entrypoint(["/usr/bin/a"])
        .environment("B", "2")
        .environment("A", "1");

    let first = one.write_archive(&path("one.tar")).unwrap();
    let second = other.write_archive(&path("other.tar")).unwrap();
    assert_eq!(first, second);
    assert_eq!(
        fs::read(path("one.tar")).unwrap(),
        fs::read(path("other.tar")).unwrap()
    );

    fs::write(path("a"), "changed").unwrap();
    let changed = one.write_archive(&path("one.tar")).unwrap();
    assert_ne!(changed.manifest, first.manifest);
}

#[test]
fn archive_is_an_image_layout_and_a_docker_archive() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("made/image.tar");
    let mut image = Image::new(REFERENCE);
    image
        .text("root:x:0:0::/:/bin/sh\n", "/etc/passwd", READABLE)
        .unwrap();
    image.link("../run", "/var/run").unwrap();
    image.directory("/tmp", 0o1777).unwrap();
    image.entrypoint(["/bin/proxy", "--v=2"]);
    let made = image.write_archive(&output).unwrap();
    assert_eq!(made.size, fs::metadata(&output).unwrap().len());

    let files = members(File::open(&output).unwrap());
    for (name, content) in &files {
        if let Some(digest) = name.strip_prefix("blobs/sha256/") {
            assert_eq!(Digest::of(content).as_hex(), digest);
        }
    }
    let json = |name: &str| serde_json::from_slice::<Value>(&files[name]).unwrap();
    let index = json("index.json");
    let described = &index["manifests"][0];
    assert_eq!(
        described["annotations"]["io.containerd.image.name"],
        REFERENCE
    );
    assert_eq!(
        described["annotations"]["org.opencontainers.image.ref.name"],
        "v1.36.3"
    );
    assert_eq!(described["digest"], format!("sha256:{}", made.manifest));
    let docker = json("manifest.json");
    assert_eq!(docker[0]["RepoTags"][0], REFERENCE);
    let config = json(docker[0]["Config"].as_str().unwrap());
    assert_eq!(config["config"]["Entrypoint"][1], "--v=2");
    assert_eq!(
        config["rootfs"]["diff_ids"][0],
        format!("sha256:{}", made.layer)
    );

    let layer = &files[docker[0]["Layers"][0].as_str().unwrap()];
    let mut archive = tar::Archive::new(layer.as_slice());
    let entries: Vec<(String, u32)> = archive
        .entries()
        .unwrap()
        .map(Result::unwrap)
        .map(|entry| {
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.mtime().unwrap(), 0);
            (
                entry.path().unwrap().display().to_string(),
                header.mode().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("etc/", 0o755),
        ("etc/passwd", 0o644),
        ("tmp/", 0o1777),
        ("var/", 0o755),
        ("var/run", 0o777),
    ];
    assert_eq!(
        entries,
        expected.map(|(name, mode)| (name.to_owned(), mode))
    );
    let left: Vec<_> = fs::read_dir(output.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "temporary files are gone");
}

#[test]
fn program_brings_its_libraries_and_the_loader() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("image.tar");
    let mut image = Image::new(REFERENCE);
    image.program("/bin/ls", "/bin/ls").unwrap();
    image.write_archive(&output).unwrap();
    let files = members(File::open(&output).unwrap());
    let docker: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
    let layer = &files[docker[0]["Layers"][0].as_str().unwrap()];
    let names: Vec<String> = members(layer.as_slice()).into_keys().collect();
    for part in ["bin/ls", "libc.so.6", "/ld-linux"] {
        assert!(
            names.iter().any(|name| name.contains(part)),
            "{part} is missing in {names:?}"
        );
    }
}

#[test]
fn script_needs_no_libraries() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    crate::fixture::write_executable(&script, "#!/bin/sh\n");
    assert!(libraries_of(&script).unwrap().is_empty());
}

#[test]
fn missing_program_is_named() {
    let error = libraries_of(Path::new("/no/such/program"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("/no/such/program"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let mut image = Image::new(REFERENCE);
    image.file("/no/such/file", "/file", READABLE).unwrap();
    let error = image
        .write_archive(&directory.path().join("image.tar"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/no/such/file") && error.contains(REFERENCE),
        "{error}"
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn file_cannot_be_a_directory_too() {
    let directory = tempfile::tempdir().unwrap();
    let mut image = Image::new(REFERENCE);
    image.text("", "/etc", READABLE).unwrap();
    image.text("", "/etc/passwd", READABLE).unwrap();
    let error = image
        .write_archive(&directory.path().join("image.tar"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("/etc in"), "{error}");
}

fn members(archive: impl Read) -> BTreeMap<String, Vec<u8>> {
    tar::Archive::new(archive)
        .entries()
        .unwrap()
        .map(Result::unwrap)
        .map(|mut entry| {
            let name = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (name, content)
        })
        .collect()
}

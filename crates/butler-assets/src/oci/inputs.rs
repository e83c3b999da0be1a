//! What an archive is made of, as a digest that is cheap to have: files count by their identity, not their bytes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Content, Error, Image};
use crate::digest::{Digest, Hasher, length};

/// Part of every digest: raised when the same inputs are to give another archive.
const FORMAT: &str = "1";

/// The digest of all that decides the archive's bytes. A file is known by its path, its place on the disk, its size and
/// its time: one that was replaced or written to has another digest, and hundreds of megabytes need not be read.
pub(super) fn digest(image: &Image) -> Result<Digest, Error> {
    let mut parts = Parts::default();
    parts.add(FORMAT);
    parts.add(&image.reference);
    parts.add(image.platform.architecture);
    for word in &image.entrypoint {
        parts.add("entrypoint");
        parts.add(word);
    }
    for (name, value) in &image.environment {
        parts.add("environment");
        parts.add(name);
        parts.add(value);
    }
    if let Some(user) = &image.user {
        parts.add("user");
        parts.add(user);
    }
    for (place, content) in &image.contents {
        parts.add("content");
        parts.add(place);
        match content {
            Content::Directory { mode } => parts.add(&format!("directory {mode:o}")),
            Content::Text { bytes, mode } => {
                parts.add(&format!("text {mode:o}"));
                parts.add_bytes(bytes);
            }
            Content::Link { target } => {
                parts.add("link");
                parts.add(target);
            }
            Content::File { source, mode } => {
                let identity = identity(source).map_err(|error| Error::Read {
                    reference: image.reference.clone(),
                    path: source.clone(),
                    source: error,
                })?;
                parts.add(&format!("file {mode:o} {identity}"));
            }
        }
    }
    Ok(parts.0.finish())
}

fn identity(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    Ok(format!(
        "{}:{} {} bytes of {}.{:09}",
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec()
    ))
}

/// A digest of parts that cannot run into each other.
#[derive(Default)]
struct Parts(Hasher);

impl Parts {
    fn add(&mut self, part: &str) {
        self.add_bytes(part.as_bytes());
    }

    fn add_bytes(&mut self, part: &[u8]) {
        self.0.update(&length(part.len()).to_be_bytes());
        self.0.update(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::EXECUTABLE;

    #[test]
    fn another_file_is_another_input_and_the_same_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, "one").unwrap();
        let mut image = Image::new("example/image:1");
        image.file(&program, "/program", EXECUTABLE).unwrap();
        let first = digest(&image).unwrap();
        assert_eq!(digest(&image).unwrap(), first);

        // A replaced program has the same path and size.
        let fresh = directory.path().join("fresh");
        fs::write(&fresh, "two").unwrap();
        fs::rename(&fresh, &program).unwrap();
        let second = digest(&image).unwrap();
        assert_ne!(second, first);
        image.user("65532:65532");
        assert_ne!(digest(&image).unwrap(), second);
    }

    #[test]
    fn a_file_that_is_gone_is_named() {
        let mut image = Image::new("example/image:1");
        image.file("/no/such/file", "/program", EXECUTABLE).unwrap();
        let error = digest(&image).unwrap_err().to_string();
        assert!(error.contains("/no/such/file"), "{error}");
    }
}

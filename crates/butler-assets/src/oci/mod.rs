//! One-layer OCI archives made of files: the same files give the same bytes.
//!
//! The archive is an OCI image layout and a docker-archive at once, so `ctr images import`, registries and other
//! tools read it. Entries are sorted, times are zero, owners are root, modes are given, nothing of the machine that
//! made it gets in. The layer is not compressed: archives stay on the machine that uses them.

mod inputs;
mod layer;
mod layout;
mod libraries;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::asset::Platform;
use crate::command::CommandError;
use crate::digest::Digest;

pub use libraries::libraries_of;
pub(crate) use libraries::libraries_with_plugins;

/// The mode of programs and directories.
pub const EXECUTABLE: u32 = 0o755;
/// The mode of files that are only read.
pub const READABLE: u32 = 0o644;

/// Why an image could not be assembled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A destination that is no place in an image.
    #[error("{destination:?} is not a place in an image; write an absolute path without .. in it")]
    Destination {
        /// What was written.
        destination: String,
    },
    /// Two different things for one place.
    #[error("two different things are to be put at {destination} in {reference}; keep one")]
    Conflict {
        /// The image.
        reference: String,
        /// The place.
        destination: String,
    },
    /// A file to be put into the image cannot be read.
    #[error("{path} cannot be read for the image {reference}", path = path.display())]
    Read {
        /// The image.
        reference: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The archive cannot be written.
    #[error("the image archive {path} cannot be written; check that its disk has room", path = path.display())]
    Write {
        /// The archive.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The shared libraries of a program cannot be listed.
    #[error("the shared libraries of {path} cannot be listed: {reason}", path = path.display())]
    Libraries {
        /// The program.
        path: PathBuf,
        /// What went wrong and what to do.
        reason: String,
    },
}

impl Error {
    fn from_ldd(path: &Path, error: &CommandError) -> Self {
        let reason = match error {
            CommandError::NotFound { .. } => {
                "ldd was not found; install the C library's tools (package libc-bin on Debian)"
                    .to_owned()
            }
            other => crate::error::chain(other),
        };
        Self::Libraries {
            path: path.to_owned(),
            reason,
        }
    }
}

/// What is at one place of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Directory { mode: u32 },
    File { source: PathBuf, mode: u32 },
    Text { bytes: Vec<u8>, mode: u32 },
    Link { target: String },
}

/// An image to be assembled.
///
/// ```no_run
/// # fn example() -> Result<(), butler_assets::oci::Error> {
/// use butler_assets::oci::Image;
///
/// let mut image = Image::new("registry.k8s.io/kube-proxy:v1.36.3");
/// image.program("/cache/kube-proxy", "/usr/local/bin/kube-proxy")?;
/// image.program("/usr/sbin/nft", "/usr/sbin/nft")?;
/// image.entrypoint(["/usr/local/bin/kube-proxy"]);
/// let made = image.write_archive("/cache/kube-proxy.tar".as_ref())?;
/// # let _ = made;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Image {
    reference: String,
    platform: Platform,
    contents: BTreeMap<String, Content>,
    entrypoint: Vec<String>,
    environment: BTreeMap<String, String>,
    user: Option<String>,
}

/// The digests of an archive that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// The digest of the image's manifest: what a registry calls the image's digest.
    pub manifest: Digest,
    /// The digest of its configuration.
    pub config: Digest,
    /// The digest of its one layer.
    pub layer: Digest,
    /// How many bytes the archive has.
    pub size: u64,
}

impl Image {
    /// An empty image under a full reference, like `registry.k8s.io/pause:3.10`, for this machine's platform.
    pub fn new(reference: impl Into<String>) -> Self {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        Self {
            reference: reference.into(),
            platform: Platform::host(),
            contents: BTreeMap::new(),
            entrypoint: Vec::new(),
            environment: BTreeMap::from([("PATH".to_owned(), path.to_owned())]),
            user: None,
        }
    }

    /// The full reference.
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// Puts a copy of a file at a place. A symbolic link is followed.
    pub fn file(
        &mut self,
        source: impl Into<PathBuf>,
        destination: &str,
        mode: u32,
    ) -> Result<&mut Self, Error> {
        let source = source.into();
        self.put(destination, Content::File { source, mode })
    }

    /// Puts a program at a place, and every shared library it needs where the dynamic loader looks for it.
    pub fn program(
        &mut self,
        source: impl Into<PathBuf>,
        destination: &str,
    ) -> Result<&mut Self, Error> {
        let source = source.into();
        for library in libraries_of(&source)? {
            let place = library.to_string_lossy().into_owned();
            self.file(library, &place, EXECUTABLE)?;
        }
        self.file(source, destination, EXECUTABLE)
    }

    /// Puts a small file with this content at a place.
    pub fn text(
        &mut self,
        content: impl Into<Vec<u8>>,
        destination: &str,
        mode: u32,
    ) -> Result<&mut Self, Error> {
        let bytes = content.into();
        self.put(destination, Content::Text { bytes, mode })
    }

    /// Puts a symbolic link at a place.
    pub fn link(
        &mut self,
        target: impl Into<String>,
        destination: &str,
    ) -> Result<&mut Self, Error> {
        let target = target.into();
        self.put(destination, Content::Link { target })
    }

    /// Puts an empty directory at a place, for mounts or with a mode of its own (`0o1777` for `/tmp`).
    pub fn directory(&mut self, destination: &str, mode: u32) -> Result<&mut Self, Error> {
        self.put(destination, Content::Directory { mode })
    }

    /// What the image runs.
    pub fn entrypoint<I: IntoIterator<Item: Into<String>>>(&mut self, words: I) -> &mut Self {
        self.entrypoint = words.into_iter().map(Into::into).collect();
        self
    }

    /// Sets an environment variable. `PATH` has the usual value unless it is set.
    pub fn environment(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Who runs it, like `65532:65532`; root unless it is set. A number, so that a pod that must not run as root can
    /// tell.
    pub fn user(&mut self, user: impl Into<String>) -> &mut Self {
        self.user = Some(user.into());
        self
    }

    /// The digest of all that decides the archive's bytes, without reading them: a file counts by its identity.
    pub(crate) fn inputs(&self) -> Result<Digest, Error> {
        inputs::digest(self)
    }

    /// Writes the archive; a file that is there is replaced when the new one is complete.
    ///
    /// This reads and writes as many bytes as the files have: call it beside an async runtime's threads.
    pub fn write_archive(&self, output: &Path) -> Result<Archive, Error> {
        layout::write(self, output)
    }

    fn put(&mut self, destination: &str, content: Content) -> Result<&mut Self, Error> {
        let place = place(destination).ok_or_else(|| Error::Destination {
            destination: destination.to_owned(),
        })?;
        match self.contents.get(&place) {
            Some(present) if *present != content => Err(self.conflict(&place)),
            _ => {
                self.contents.insert(place, content);
                Ok(self)
            }
        }
    }

    fn conflict(&self, place: &str) -> Error {
        Error::Conflict {
            reference: self.reference.clone(),
            destination: format!("/{place}"),
        }
    }
}

/// An absolute destination as the layer spells it: relative to the root, without doubled slashes.
fn place(destination: &str) -> Option<String> {
    let parts: Vec<&str> = destination
        .strip_prefix('/')?
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destination_outside_of_the_image_is_refused() {
        for destination in ["bin/sh", "/", "", "/../etc/passwd"] {
            let error = Image::new("example/image:1")
                .text("", destination, READABLE)
                .unwrap_err();
            assert!(error.to_string().contains("absolute path"), "{error}");
        }
    }

    #[test]
    fn same_file_twice_is_one_file_but_another_one_is_a_conflict() {
        let mut image = Image::new("example/image:1");
        image.file("/a", "/bin/a", EXECUTABLE).unwrap();
        image.file("/a", "//bin/./a", EXECUTABLE).unwrap();
        let error = image
            .file("/b", "/bin/a", EXECUTABLE)
            .unwrap_err()
            .to_string();
        assert!(error.contains("/bin/a in example/image:1"), "{error}");
    }
}

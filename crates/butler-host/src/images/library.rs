//! Archives in a directory, found by the names and digests of what is in them.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use thiserror::Error;

use super::{
    OWN_DIRECTORY,
    archive::{self, Contents, Place, Position},
    reference::{Reference, repository},
};

/// Archives in a directory. Whoever adds one there has it served; nobody needs to be told.
#[derive(Debug)]
pub struct Library {
    directory: PathBuf,
    known: Mutex<BTreeMap<PathBuf, Known>>,
}

/// An image in the library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LibraryImage {
    /// Spelled out, with registry and tag.
    pub reference: String,
    /// Of its manifest or index: `sha256:…`.
    pub digest: String,
    /// Where it is.
    pub archive: PathBuf,
}

/// Why the library cannot be used.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// A file or directory of it.
    #[error("could not {doing} {} in the library of images", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// An archive that is to be added is none.
    #[error("{} is not an image archive; use an OCI layout in a tar, or what docker save writes", path.display())]
    NoArchive {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
}

/// What tells whether a file was replaced or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: SystemTime,
}

#[derive(Debug)]
struct Known {
    stamp: Stamp,
    /// Nothing if the archive cannot be used, so that it is told once.
    contents: Option<Arc<Contents>>,
}

/// Something to serve.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) source: Source,
}

/// Where the bytes are.
#[derive(Clone, Debug)]
pub(super) enum Source {
    File(Arc<fs::File>, Position),
    Memory(Arc<[u8]>),
}

impl Library {
    /// A library in a directory, which is made if it is missing.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, LibraryError> {
        let directory = directory.into();
        let own = directory.join(OWN_DIRECTORY);
        fs::create_dir_all(&own).map_err(failed("make", &own))?;
        Ok(Self {
            directory,
            known: Mutex::default(),
        })
    }

    /// Adds archives of Butler's own, as links if they are on the same disk. They take the place of those that had the
    /// same names; archives of users are left alone, and win if they have the same names.
    pub fn adopt(&self, archives: &[PathBuf]) -> Result<(), LibraryError> {
        let own = self.directory.join(OWN_DIRECTORY);
        let mut adopted = Vec::new();
        let mut names = Vec::new();
        for archive in archives {
            let contents = archive::read(archive).map_err(|source| LibraryError::NoArchive {
                path: archive.clone(),
                source,
            })?;
            names.extend(contents.images.into_iter().map(|(name, _)| name));
            let target = own.join(archive.file_name().unwrap_or_default());
            link(archive, &target)?;
            adopted.push(target);
        }
        for path in listing(&own)? {
            let replaced = || {
                archive::read(&path).is_ok_and(|contents| {
                    contents.images.iter().all(|(name, _)| names.contains(name))
                })
            };
            if !adopted.contains(&path) && replaced() {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }

    /// The names of the images in an archive that is not in the library yet; refuses what is no archive of images.
    pub fn check(&self, archive: &Path) -> Result<Vec<String>, LibraryError> {
        let contents = archive::read(archive).map_err(|source| LibraryError::NoArchive {
            path: archive.to_owned(),
            source,
        })?;
        Ok(contents
            .images
            .into_iter()
            .map(|(name, _)| name.to_string())
            .collect())
    }

    /// Every image that can be had, by its name.
    pub fn images(&self) -> Result<Vec<LibraryImage>, LibraryError> {
        let images = self.with(|archives| {
            let mut images = BTreeMap::new();
            for (path, contents) in archives {
                for (name, digest) in &contents.images {
                    images.insert(
                        name.to_string(),
                        LibraryImage {
                            reference: name.to_string(),
                            digest: digest.clone(),
                            archive: path.clone(),
                        },
                    );
                }
            }
            images
        })?;
        Ok(images.into_values().collect())
    }

    /// A manifest or an index, by its name and a tag or digest. The registry is the one a mirror is asked for.
    pub(super) fn manifest(
        &self,
        registry: Option<&str>,
        name: &str,
        reference: &str,
    ) -> Result<Option<Found>, LibraryError> {
        let wanted = Reference {
            repository: registry
                .map_or_else(|| repository(name), |registry| format!("{registry}/{name}")),
            tag: reference.to_owned(),
        };
        self.with(|archives| {
            archives.iter().rev().find_map(|(_, contents)| {
                let digest = if reference.contains(':') {
                    reference
                } else {
                    let named = contents.images.iter().find(|(name, _)| *name == wanted);
                    named.map(|(_, digest)| digest.as_str())?
                };
                let manifest = contents.manifests.get(digest)?;
                let source = match &manifest.place {
                    Place::InArchive(position) => {
                        Source::File(Arc::clone(&contents.file), *position)
                    }
                    Place::Made(bytes) => Source::Memory(Arc::clone(bytes)),
                };
                Some(Found {
                    media_type: manifest.media_type.clone(),
                    digest: digest.to_owned(),
                    source,
                })
            })
        })
    }

    /// A configuration or a layer, by its digest.
    pub(super) fn blob(&self, digest: &str) -> Result<Option<Found>, LibraryError> {
        self.with(|archives| {
            archives.iter().rev().find_map(|(_, contents)| {
                let position = contents.blobs.get(digest)?;
                Some(Found {
                    media_type: "application/octet-stream".to_owned(),
                    digest: digest.to_owned(),
                    source: Source::File(Arc::clone(&contents.file), *position),
                })
            })
        })
    }

    /// Looks what is there now, reads what is new, and gives all archives, those that win last.
    fn with<T>(
        &self,
        use_them: impl FnOnce(&[(PathBuf, Arc<Contents>)]) -> T,
    ) -> Result<T, LibraryError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut present = BTreeMap::new();
        for directory in [self.directory.join(OWN_DIRECTORY), self.directory.clone()] {
            for path in listing(&directory)? {
                // What went away in between is not there.
                if let Ok(metadata) = fs::metadata(&path)
                    && metadata.is_file()
                {
                    present.insert(path, Stamp::of(&metadata));
                }
            }
        }
        known.retain(|path, entry| present.get(path) == Some(&entry.stamp));
        for (path, stamp) in present {
            known.entry(path).or_insert_with_key(|path| Known {
                stamp,
                contents: read(path),
            });
        }
        let mut archives: Vec<(bool, SystemTime, PathBuf, Arc<Contents>)> = known
            .iter()
            .filter_map(|(path, entry)| {
                let contents = Arc::clone(entry.contents.as_ref()?);
                let of_a_user = path.parent() == Some(self.directory.as_path());
                Some((of_a_user, entry.stamp.modified, path.clone(), contents))
            })
            .collect();
        drop(known);
        archives
            .sort_by(|left, right| (left.0, left.1, &left.2).cmp(&(right.0, right.1, &right.2)));
        let archives: Vec<(PathBuf, Arc<Contents>)> = archives
            .into_iter()
            .map(|(_, _, path, contents)| (path, contents))
            .collect();
        Ok(use_them(&archives))
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }
}

fn read(path: &Path) -> Option<Arc<Contents>> {
    match archive::read(path) {
        Ok(contents) => Some(Arc::new(contents)),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "not an image archive; its images are not served");
            None
        }
    }
}

/// Files that may be archives; hidden ones are on their way.
fn listing(directory: &Path) -> Result<Vec<PathBuf>, LibraryError> {
    let entries = fs::read_dir(directory).map_err(failed("list", directory))?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed("list", directory))?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.retain(|path| !path.is_dir());
    Ok(paths)
}

/// The same file under another name, or a copy where that cannot be. It appears whole.
fn link(source: &Path, target: &Path) -> Result<(), LibraryError> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let fresh = target.with_file_name(format!(".{name}.new"));
    let _ = fs::remove_file(&fresh);
    let linked = fs::hard_link(source, &fresh).or_else(|_| fs::copy(source, &fresh).map(drop));
    let moved = linked.and_then(|()| fs::rename(&fresh, target));
    // A rename between two names of one file does nothing, and leaves both.
    let _ = fs::remove_file(&fresh);
    moved.map_err(failed("add", target))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LibraryError {
    let path = path.to_owned();
    move |source| LibraryError::File {
        doing,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::images::archive::tests::oci_archive;

    const PAUSE: &str = "registry.k8s.io/pause:3.10.2";

    fn library() -> (tempfile::TempDir, Library) {
        let directory = tempfile::tempdir().unwrap();
        let library = Library::open(directory.path().join("images")).unwrap();
        (directory, library)
    }

    fn digest_of(library: &Library) -> Option<String> {
        let found = library.manifest(Some("registry.k8s.io"), "pause", "3.10.2");
        found.unwrap().map(|found| found.digest)
    }

    #[test]
    fn an_archive_that_comes_later_is_found_and_one_that_goes_is_not() {
        let (_directory, library) = library();
        assert_eq!(digest_of(&library), None);
        let (bytes, manifest, layer) = oci_archive(PAUSE, b"layer");
        let path = library.directory.join("pause.tar");
        fs::write(&path, &bytes[..600]).unwrap();
        assert_eq!(digest_of(&library), None, "it is not whole yet");
        fs::write(&path, &bytes).unwrap();
        assert_eq!(digest_of(&library), Some(manifest.clone()));
        assert!(library.blob(&layer).unwrap().is_some());
        let by_digest = library.manifest(Some("registry.k8s.io"), "pause", &manifest);
        assert!(by_digest.unwrap().is_some());
        let elsewhere = library.manifest(None, "pause", "3.10.2");
        assert!(elsewhere.unwrap().is_none(), "another registry's");
        fs::remove_file(&path).unwrap();
        assert_eq!(digest_of(&library), None);
    }

    #[test]
    fn a_newer_archive_of_ours_takes_the_place_of_the_older() {
        let (directory, library) = library();
        let made = |name: &str, layer: &[u8]| {
            let (bytes, manifest, _) = oci_archive(PAUSE, layer);
            let path = directory.path().join(name);
            fs::write(&path, bytes).unwrap();
            (path, manifest)
        };
        let (first, _) = made("pause-1.tar", b"one");
        let (second, newer) = made("pause-2.tar", b"two");
        library.adopt(std::slice::from_ref(&first)).unwrap();
        library.adopt(std::slice::from_ref(&second)).unwrap();
        library.adopt(&[second]).unwrap();
        assert_eq!(digest_of(&library), Some(newer));
        assert_eq!(
            listing(&library.directory.join(OWN_DIRECTORY)).unwrap(),
            [library.directory.join(OWN_DIRECTORY).join("pause-2.tar")]
        );

        // A user's own wins, and stays.
        let (theirs, manifest) = made("theirs.tar", b"three");
        fs::rename(theirs, library.directory.join("theirs.tar")).unwrap();
        library.adopt(&[first]).unwrap();
        assert_eq!(digest_of(&library), Some(manifest));
    }

    #[test]
    fn what_is_no_archive_cannot_be_adopted() {
        let (directory, library) = library();
        let path = directory.path().join("notes.txt");
        fs::write(&path, "notes").unwrap();
        let error = library.adopt(std::slice::from_ref(&path)).unwrap_err();
        assert!(error.to_string().contains("docker save"), "{error}");
    }
}

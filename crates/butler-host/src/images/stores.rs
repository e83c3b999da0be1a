//! containerd roots with images in them, one for each set of images. A machine gets a copy that shares all but the
//! databases, so it has its images at once and at the cost of some directories.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use thiserror::Error;

use super::{
    STORES_DIRECTORY, archive,
    containerd::{Containerd, remove},
    reference::Reference,
    tree::link_tree,
};

/// Part of every digest: raised when the same archives are to give another root.
const FORMAT: &str = "1";
/// What is being made; nobody uses it.
const UNFINISHED: &str = "new";
const LOCK: &str = "lock";
/// Ending of the file beside a root that lists its images.
const LIST: &str = "images";
/// Where containerd keeps the name it has given itself, which no two should share.
const IDENTITY: &str = "io.containerd.grpc.v1.introspection";
/// How many archives are unpacked at once.
const CONCURRENCY: usize = 2;
/// Digits of a set's digest in its name: the path of a socket must be short.
const DIGITS: usize = 20;

/// The programs that unpack images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerdPrograms {
    /// The daemon.
    pub containerd: PathBuf,
    /// Its command line.
    pub ctr: PathBuf,
}

/// Prepared containerd roots below the state directory.
#[derive(Clone, Debug)]
pub struct ImageStores {
    directory: PathBuf,
    programs: ContainerdPrograms,
}

/// Why images were not prepared. Nothing half made is left.
#[derive(Debug, Error)]
pub enum ImageStoreError {
    /// A file or directory.
    #[error("could not {doing} {} while preparing images", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// A file that is to be unpacked is no archive.
    #[error("{} is not an image archive", path.display())]
    NoArchive {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// The kernel has a limit for the paths of sockets.
    #[error("the state directory is too deep for a socket in {}; use one with a shorter path", path.display())]
    PathTooLong {
        /// Where the socket would be.
        path: PathBuf,
    },
    /// containerd does not run.
    #[error("containerd could not be used to unpack images: {words}")]
    Containerd {
        /// Its last words.
        words: String,
    },
    /// An archive could not be unpacked.
    #[error("the images of {} could not be unpacked: {words}", archive.display())]
    Import {
        /// Which one.
        archive: PathBuf,
        /// In its own words.
        words: String,
    },
}

impl ImageStoreError {
    pub(super) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            doing,
            path,
            source,
        }
    }
}

impl ImageStores {
    /// Roots below a directory: the state directory of machines, or one on the same disk that outlives it. Nothing is
    /// made yet.
    pub fn new(parent: &Path, programs: ContainerdPrograms) -> Self {
        Self {
            directory: parent.join(STORES_DIRECTORY),
            programs,
        }
    }

    /// The root that has the images of all these archives. It is made once, and appears whole; another process that
    /// makes one is waited for. What an earlier root has is not unpacked again.
    pub async fn prepare(&self, archives: &[PathBuf]) -> Result<PathBuf, ImageStoreError> {
        let _lock = self.lock().await?;
        let set = {
            let archives = archives.to_vec();
            on_disk(move || ImageSet::read(&archives)).await?
        };
        let store = self.directory.join(set.digest());
        if store.is_dir() {
            return Ok(store);
        }
        let unfinished = self.directory.join(UNFINISHED);
        remove(&unfinished)?;
        let made = self.make(&unfinished, set, &store).await;
        let cleaned = on_disk(move || remove(&unfinished)).await;
        made?;
        cleaned?;
        Ok(store)
    }

    async fn make(
        &self,
        unfinished: &Path,
        set: ImageSet,
        store: &Path,
    ) -> Result<(), ImageStoreError> {
        let root = unfinished.join("root");
        let (set, missing) = {
            let (stores, unfinished, root) =
                (self.directory.clone(), unfinished.to_owned(), root.clone());
            on_disk(move || {
                fs::create_dir(&unfinished).map_err(ImageStoreError::file("make", &unfinished))?;
                let base = set.base(&earlier(&stores)?);
                let missing = set.missing(base.as_ref());
                if let Some((path, _)) = base {
                    link_tree(&path, &root).map_err(ImageStoreError::file("copy", &path))?;
                }
                Ok((set, missing))
            })
            .await?
        };
        let containerd = Containerd::start(&self.programs, unfinished).await?;
        let imported: Result<(), ImageStoreError> = stream::iter(&missing)
            .map(|archive| containerd.import(archive))
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await;
        let stopped = containerd.stop().await;
        imported?;
        stopped?;
        let store = store.to_owned();
        on_disk(move || {
            remove(&root.join(IDENTITY))?;
            let list = store.with_extension(LIST);
            fs::write(&list, set.names().join("\n"))
                .map_err(ImageStoreError::file("write", &list))?;
            // After the power failed, a root that is there is whole.
            File::open(&root)
                .and_then(|directory| rustix::fs::syncfs(directory).map_err(io::Error::from))
                .and_then(|()| fs::rename(&root, &store))
                .map_err(ImageStoreError::file("finish", &store))
        })
        .await
    }

    /// Removes every root but these. Machines keep what they have, for it is theirs as well.
    pub async fn keep_only(&self, stores: &[PathBuf]) -> Result<(), ImageStoreError> {
        let _lock = self.lock().await?;
        let directory = self.directory.clone();
        let kept = stores.to_vec();
        on_disk(move || {
            let listing =
                fs::read_dir(&directory).map_err(ImageStoreError::file("list", &directory))?;
            for entry in listing {
                let path = entry
                    .map_err(ImageStoreError::file("list", &directory))?
                    .path();
                if path.is_dir() && !kept.contains(&path) {
                    remove(&path)?;
                    // A list without a root says nothing to anybody.
                    let _ = fs::remove_file(path.with_extension(LIST));
                }
            }
            Ok(())
        })
        .await
    }

    async fn lock(&self) -> Result<File, ImageStoreError> {
        let directory = self.directory.clone();
        on_disk(move || {
            fs::create_dir_all(&directory).map_err(ImageStoreError::file("make", &directory))?;
            let path = directory.join(LOCK);
            let file = File::options()
                .create(true)
                .append(true)
                .open(&path)
                .map_err(ImageStoreError::file("open", &path))?;
            file.lock().map_err(ImageStoreError::file("lock", &path))?;
            Ok(file)
        })
        .await
    }
}

/// A root that is there, and what it has: names with digests.
type Earlier = (PathBuf, BTreeSet<String>);

/// What archives have, by name and digest.
#[derive(Debug)]
struct ImageSet {
    archives: Vec<(PathBuf, Vec<(Reference, String)>)>,
}

impl ImageSet {
    fn read(archives: &[PathBuf]) -> Result<Self, ImageStoreError> {
        let read = |path: &PathBuf| {
            let contents = archive::read(path).map_err(|source| ImageStoreError::NoArchive {
                path: path.clone(),
                source,
            })?;
            Ok((path.clone(), contents.images))
        };
        let archives = archives.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { archives })
    }

    /// Another order of archives is the same set.
    fn names(&self) -> Vec<String> {
        let names: BTreeSet<String> = self
            .archives
            .iter()
            .flat_map(|(_, images)| images)
            .map(|(name, digest)| format!("{name}@{digest}"))
            .collect();
        names.into_iter().collect()
    }

    fn digest(&self) -> String {
        let text = format!("{FORMAT}\n{}", self.names().join("\n"));
        archive::hex(text.as_bytes())[..DIGITS].to_owned()
    }

    /// The earlier root that has most of this set, and no name that is not in it. A name may have had another digest:
    /// it gets the new one.
    fn base(&self, earlier: &[Earlier]) -> Option<Earlier> {
        let wanted: BTreeSet<String> = self.names().into_iter().collect();
        let name = |image: &str| {
            image
                .split_once('@')
                .map(|(name, _)| name.to_owned())
                .unwrap_or_default()
        };
        let wanted_names: BTreeSet<String> = wanted.iter().map(|image| name(image)).collect();
        earlier
            .iter()
            .filter(|(_, images)| {
                images
                    .iter()
                    .all(|image| wanted_names.contains(&name(image)))
            })
            .max_by_key(|(_, images)| images.intersection(&wanted).count())
            .filter(|(_, images)| images.intersection(&wanted).next().is_some())
            .cloned()
    }

    /// Archives with something that a root does not have.
    fn missing(&self, base: Option<&Earlier>) -> Vec<PathBuf> {
        let has = |image: &(Reference, String)| {
            let image = format!("{}@{}", image.0, image.1);
            base.is_some_and(|(_, images)| images.contains(&image))
        };
        self.archives
            .iter()
            .filter(|(_, images)| !images.iter().all(has))
            .map(|(path, _)| path.clone())
            .collect()
    }
}

/// All roots that are there.
fn earlier(directory: &Path) -> Result<Vec<Earlier>, ImageStoreError> {
    let listing = fs::read_dir(directory).map_err(ImageStoreError::file("list", directory))?;
    let mut found = Vec::new();
    for entry in listing {
        let path = entry
            .map_err(ImageStoreError::file("list", directory))?
            .path();
        if path.is_dir()
            && let Ok(list) = fs::read_to_string(path.with_extension(LIST))
        {
            found.push((path, list.lines().map(str::to_owned).collect()));
        }
    }
    found.sort();
    Ok(found)
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageStoreError> + Send + 'static,
) -> Result<T, ImageStoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::archive::tests::oci_archive;

    #[test]
    fn a_set_is_known_by_its_images_and_not_by_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let made = |file: &str, name: &str, layer: &[u8]| {
            let path = directory.path().join(file);
            fs::write(&path, oci_archive(name, layer).0).unwrap();
            path
        };
        let first = made("a", "a.example/a:1", b"a");
        let second = made("b", "a.example/b:1", b"b");
        let copy = made("c", "a.example/b:1", b"b");
        let other = made("d", "a.example/b:1", b"other");
        let set = |archives: &[&PathBuf]| {
            ImageSet::read(&archives.iter().copied().cloned().collect::<Vec<_>>()).unwrap()
        };
        let both = set(&[&first, &second]);
        assert_eq!(both.digest(), set(&[&copy, &first]).digest());
        assert_ne!(both.digest(), set(&[&first, &other]).digest());
        assert_ne!(both.digest(), set(&[&first]).digest());

        // One program was built anew: only its image is unpacked.
        let earlier = |path: &str, set: &ImageSet| (path.into(), set.names().into_iter().collect());
        let third = made("e", "a.example/c:1", b"c");
        let there = [
            earlier("/one", &set(&[&first])),
            earlier("/both", &both),
            earlier("/more", &set(&[&first, &second, &third])),
        ];
        let changed = set(&[&first, &other]);
        let base = changed.base(&there).unwrap();
        assert_eq!(base.0, Path::new("/both"));
        assert_eq!(changed.missing(Some(&base)), [other]);
        assert_eq!(changed.missing(None).len(), 2);
        assert_eq!(set(&[&third]).base(&there), None);
    }
}

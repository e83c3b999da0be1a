//! Archives on disk: `<cache>/images/<reference>-<digest of the inputs>.tar`, and one of each reference at a time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Error, ImageArchive};
use crate::digest::Digest;
use crate::error::Error as AssetError;
use crate::lock;
use crate::oci::Image;
use crate::progress::{ImageEvent, Progress};
use crate::search::blocking;

/// Digits of the inputs' digest in a file name; the reference is in it as well.
const DIGEST_DIGITS: usize = 16;
const EXTENSION: &str = ".tar";

/// Gives the archive of an image: the one that is there if nothing it is made of has changed, else a new one, which
/// takes the place of the old.
pub(super) async fn ensure(
    cache: &Path,
    image: Image,
    progress: &dyn Progress,
) -> Result<ImageArchive, Error> {
    let reference = image.reference().to_owned();
    let directory = cache.join("images");
    let locks = directory.join("locks");
    fs::create_dir_all(&locks).map_err(AssetError::cache("create", &locks))?;
    let stem = stem(&reference);
    let _lock = lock::acquire(&locks.join(&stem), || {
        progress.report_image(&reference, ImageEvent::Waiting);
    })
    .await?;
    let image = std::sync::Arc::new(image);
    let inputs = {
        let image = std::sync::Arc::clone(&image);
        blocking(cache, move || Ok(image.inputs())).await??
    };
    let path = directory.join(file_name(&stem, &inputs));
    if path.is_file() {
        progress.report_image(&reference, ImageEvent::Found);
        return Ok(ImageArchive { reference, path });
    }
    progress.report_image(&reference, ImageEvent::Started);
    let started = Instant::now();
    let target = path.clone();
    let written = blocking(cache, move || {
        remove_leftovers(&directory, &stem)?;
        Ok(image.write_archive(&target).map(|archive| archive.size))
    })
    .await??;
    let made = ImageEvent::Made {
        size: written,
        elapsed: started.elapsed(),
    };
    progress.report_image(&reference, made);
    remove_others(&path)?;
    Ok(ImageArchive { reference, path })
}

/// The reference as a file name: what is not a letter, a digit, a dot or a dash is an underscore. Two references that
/// become the same still differ in the digest.
fn stem(reference: &str) -> String {
    reference
        .chars()
        .map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() => letter,
            '.' | '-' => letter,
            _ => '_',
        })
        .collect()
}

fn file_name(stem: &str, inputs: &Digest) -> String {
    let digits: String = inputs.as_hex().chars().take(DIGEST_DIGITS).collect();
    format!("{stem}-{digits}{EXTENSION}")
}

/// Whether a file name is one of this reference's archives, whatever it was made of.
fn is_of(name: &str, stem: &str) -> bool {
    name.strip_prefix(stem)
        .and_then(|rest| rest.strip_prefix('-')?.strip_suffix(EXTENSION))
        .is_some_and(|digits| {
            digits.len() == DIGEST_DIGITS && digits.chars().all(|digit| digit.is_ascii_hexdigit())
        })
}

/// What a process that was killed has left: nobody else writes, for we hold the lock.
fn remove_leftovers(directory: &Path, stem: &str) -> Result<(), AssetError> {
    remove_where(directory, |name| {
        name.strip_suffix(".tmp")
            .and_then(|name| name.rsplit_once(".tar."))
            .is_some_and(|(front, _)| is_of(&format!("{front}{EXTENSION}"), stem))
    })
}

/// Archives that were made of what is no longer there. Whoever has one open keeps it.
fn remove_others(path: &Path) -> Result<(), AssetError> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let name = name.to_string_lossy();
    let stem = &name[..name
        .len()
        .saturating_sub(1 + DIGEST_DIGITS + EXTENSION.len())];
    remove_where(directory, |other| other != name && is_of(other, stem))
}

fn remove_where(directory: &Path, condemned: impl Fn(&str) -> bool) -> Result<(), AssetError> {
    let entries = fs::read_dir(directory).map_err(AssetError::cache("list", directory))?;
    let paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(&condemned))
        .map(|entry| entry.path())
        .collect();
    for path in paths {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(AssetError::cache("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::{EXECUTABLE, READABLE};
    use crate::progress::Silent;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "locks")
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn archive_is_made_once_and_again_when_its_program_changed() {
        let cache = tempfile::tempdir().unwrap();
        let program = cache.path().join("program");
        fs::write(&program, "one").unwrap();
        let mut image = Image::new("registry.k8s.io/pause:3.10");
        image.file(&program, "/pause", EXECUTABLE).unwrap();
        let mut longer = Image::new("registry.k8s.io/pause:3.10-0123456789abcdef");
        longer.text("x", "/x", READABLE).unwrap();
        let other = ensure(cache.path(), longer, &Silent).await.unwrap();

        let first = ensure(cache.path(), image.clone(), &Silent).await.unwrap();
        let made = fs::metadata(&first.path).unwrap().modified().unwrap();
        let again = ensure(cache.path(), image.clone(), &Silent).await.unwrap();
        assert_eq!(again, first);
        assert_eq!(fs::metadata(&again.path).unwrap().modified().unwrap(), made);

        let fresh = cache.path().join("fresh");
        fs::write(&fresh, "two").unwrap();
        fs::rename(&fresh, &program).unwrap();
        // Somebody was killed while writing.
        let half = cache.path().join("images").join(format!(
            "{}.77.layer.tmp",
            first.path.file_name().unwrap().to_str().unwrap()
        ));
        fs::write(&half, "half").unwrap();
        let second = ensure(cache.path(), image, &Silent).await.unwrap();
        assert_ne!(second.path, first.path);
        let mut expected = [other.path, second.path]
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        expected.sort();
        assert_eq!(names(&cache.path().join("images")), expected);
    }
}

//! Takes one file out of a published `tar.gz`.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;

/// Writes the member of the archive to a file.
pub(crate) fn extract_member(archive: &Path, member: &str, output: &Path) -> io::Result<()> {
    let wanted = plain(Path::new(member));
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(archive)?));
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() && plain(&entry.path()?) == wanted {
            io::copy(&mut entry, &mut File::create(output)?)?;
            return Ok(());
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("the archive has no member {member}"),
    ))
}

/// The path without `./`, which some projects put in front of every member.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != Component::CurDir)
        .collect()
}

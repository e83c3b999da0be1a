//! Files that the host writes on a machine's disk while the machine may run.
//!
//! Must not: leave the disk. Whoever is root in a machine can put a link anywhere; links are followed as the machine would
//! follow them, within its own disk.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags, mkdirat, open, openat, openat2, renameat, unlinkat},
    io::Errno,
};

const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// Writes a file, or removes it if there is no text for it. Whoever reads it finds the old text or the new one; one that
/// is as it should be is not touched.
pub(super) fn write(
    root: &Path,
    directory: &[&str],
    name: &str,
    text: Option<&str>,
) -> io::Result<()> {
    let directory = open_directory(root, directory)?;
    let Some(text) = text else {
        return match unlinkat(&directory, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
        };
    };
    if holds(&directory, name, text) {
        return Ok(());
    }
    let fresh = format!(".{name}.new");
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&directory, &fresh, flags, FILE_MODE)?);
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(renameat(&directory, &fresh, &directory, name)?)
}

/// Opens a directory below the root, and makes what is missing.
fn open_directory(root: &Path, names: &[&str]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(root, flags, Mode::empty())?;
    let enter = |path: &Path| openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    let mut path = PathBuf::from(".");
    let mut directory = enter(&path)?;
    for name in names {
        path.push(name);
        directory = match enter(&path) {
            Err(Errno::NOENT) => {
                match mkdirat(&directory, *name, DIRECTORY_MODE) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                enter(&path)?
            }
            other => other?,
        };
    }
    Ok(directory)
}

/// Whether the file has this text. One that cannot be read is replaced.
fn holds(directory: &OwnedFd, name: &str, text: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(directory, name, flags, Mode::empty()) else {
        return false;
    };
    let longest = u64::try_from(text.len()).map_or(u64::MAX, |length| length.saturating_add(1));
    let mut found = Vec::new();
    File::from(file)
        .take(longest)
        .read_to_end(&mut found)
        .is_ok_and(|_| found == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    const PLACE: [&str; 2] = ["etc", "net.d"];

    #[test]
    fn a_file_is_written_where_the_machine_reads_it() {
        let disk = tempfile::tempdir().unwrap();
        let path = disk.path().join("etc/net.d/x.conf");
        write(disk.path(), &PLACE, "x.conf", Some("one")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        let untouched = fs::metadata(&path).unwrap().modified().unwrap();
        write(disk.path(), &PLACE, "x.conf", Some("one")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), untouched);
        write(disk.path(), &PLACE, "x.conf", Some("on")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "on");
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no temporary file stays"
        );
        for _ in 0..2 {
            write(disk.path(), &PLACE, "x.conf", None).unwrap();
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_link_in_a_machine_does_not_lead_to_the_host() {
        let outside = tempfile::tempdir().unwrap();
        let disk = tempfile::tempdir().unwrap();
        fs::create_dir(disk.path().join("etc")).unwrap();
        symlink(outside.path(), disk.path().join("etc/net.d")).unwrap();
        assert!(write(disk.path(), &PLACE, "x.conf", Some("one")).is_err());
        fs::remove_file(disk.path().join("etc/net.d")).unwrap();

        symlink("/elsewhere", disk.path().join("etc/net.d")).unwrap();
        fs::create_dir(disk.path().join("elsewhere")).unwrap();
        let target = outside.path().join("x.conf");
        fs::write(&target, "host").unwrap();
        symlink(&target, disk.path().join("elsewhere/x.conf")).unwrap();
        write(disk.path(), &PLACE, "x.conf", Some("one")).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "host");
        assert_eq!(
            fs::read_to_string(disk.path().join("elsewhere/x.conf")).unwrap(),
            "one"
        );
    }
}

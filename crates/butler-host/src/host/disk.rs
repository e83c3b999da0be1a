//! Makes the disk of a machine from its layout.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use super::{
    Error,
    error::FileContext as _,
    store::{entries, remove},
};
use crate::{images::link_tree, machine::Entry};

const OPEN_DIRECTORY: u32 = 0o755;

/// Makes the disk, unless it is there: it appears whole or not at all.
pub(super) fn prepare(disk: &Path, layout: &[Entry]) -> Result<(), Error> {
    if disk.exists() {
        return Ok(());
    }
    let fresh = disk.with_extension("new");
    remove(&fresh)?;
    for entry in layout {
        make(&fresh, entry)?;
    }
    fs::rename(&fresh, disk).file("make", disk)
}

fn make(disk: &Path, entry: &Entry) -> Result<(), Error> {
    match entry {
        Entry::Directory { path, mode } => directory(&disk.join(path), *mode),
        Entry::File { path, mode, text } => {
            let path = disk.join(path);
            parent(&path)?;
            // What was copied there from the host may be a link, and writing would follow it.
            remove(&path)?;
            fs::write(&path, text).file("write", &path)?;
            set_mode(&path, *mode)
        }
        Entry::Link { path, target } => {
            let path = disk.join(path);
            parent(&path)?;
            symlink(target, &path).file("make the link", &path)
        }
        Entry::Copy { path, source } => {
            let path = disk.join(path);
            if fs::symlink_metadata(source).is_err() {
                return Ok(());
            }
            parent(&path)?;
            copy(source, &path)
        }
        Entry::ImageStore { path, source } => {
            let path = disk.join(path);
            parent(&path)?;
            remove(&path)?;
            link_tree(source, &path).file("copy the prepared images to", &path)
        }
    }
}

/// With all that lead to it, whatever the umask says.
fn directory(path: &Path, mode: u32) -> Result<(), Error> {
    if !path.is_dir() {
        parent(path)?;
        fs::create_dir(path).file("make the directory", path)?;
    }
    set_mode(path, mode)
}

fn parent(path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(parent) if !parent.is_dir() => directory(parent, OPEN_DIRECTORY),
        _ => Ok(()),
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, Permissions::from_mode(mode)).file("set the permissions of", path)
}

/// Links stay links: they lead to the same place in the machine.
fn copy(source: &Path, path: &Path) -> Result<(), Error> {
    let kind = fs::symlink_metadata(source)
        .file("read", source)?
        .file_type();
    if kind.is_symlink() {
        let target = fs::read_link(source).file("read", source)?;
        return symlink(target, path).file("make the link", path);
    }
    if kind.is_dir() {
        directory(path, OPEN_DIRECTORY)?;
        for child in entries(source)? {
            let name = child.file_name().unwrap_or_default();
            copy(&child, &path.join(name))?;
        }
        return Ok(());
    }
    if kind.is_file() {
        fs::copy(source, path).file("copy to", path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_disk_is_made_whole_once() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        fs::create_dir_all(source.join("inner")).unwrap();
        fs::write(source.join("inner/file"), "text").unwrap();
        symlink("../elsewhere", source.join("link")).unwrap();
        let disk = directory.path().join("disk");
        let layout = [
            Entry::Directory {
                path: "rootfs/tmp".into(),
                mode: 0o1777,
            },
            Entry::Copy {
                path: "rootfs/etc/copied".into(),
                source: source.clone(),
            },
            Entry::Copy {
                path: "rootfs/etc/absent".into(),
                source: directory.path().join("absent"),
            },
            Entry::Link {
                path: "rootfs/var/run".into(),
                target: "/run".into(),
            },
            Entry::File {
                path: "rootfs/etc/machine-id".into(),
                mode: 0o444,
                text: "one".to_owned(),
            },
        ];
        // Somebody was killed while making it.
        fs::create_dir_all(directory.path().join("disk.new/rootfs/etc/machine-id")).unwrap();

        prepare(&disk, &layout).unwrap();
        let mode =
            |path: &str| fs::metadata(disk.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("rootfs/tmp"), 0o1777);
        assert_eq!(mode("rootfs/etc"), 0o755);
        assert_eq!(mode("rootfs/etc/machine-id"), 0o444);
        assert_eq!(
            fs::read_to_string(disk.join("rootfs/etc/copied/inner/file")).unwrap(),
            "text"
        );
        assert_eq!(
            fs::read_link(disk.join("rootfs/etc/copied/link")).unwrap(),
            PathBuf::from("../elsewhere")
        );
        assert!(!disk.join("rootfs/etc/absent").exists());

        fs::write(disk.join("rootfs/written"), "by the machine").unwrap();
        prepare(&disk, &layout).unwrap();
        assert!(disk.join("rootfs/written").exists());
    }
}

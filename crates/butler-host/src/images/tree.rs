//! A copy of a containerd root that shares what is never written again.

use std::{
    ffi::OsStr,
    fs::{self, File, FileTimes, Metadata},
    io,
    os::unix::fs::{MetadataExt as _, chown, symlink},
    path::Path,
};

use rustix::{
    fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr},
    io::Errno,
};

/// Databases are written in place. All else in a containerd root is written once and then only read: contents are
/// renamed to their digest, and layers are the lower directories of overlays.
const WRITTEN_IN_PLACE: &str = "db";

/// Makes a copy in which files are hard links and databases are copies. Where a link cannot be, there is a copy.
pub(crate) fn link_tree(source: &Path, target: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(source)?;
    let kind = metadata.file_type();
    if kind.is_symlink() {
        symlink(fs::read_link(source)?, target)?;
        return chown_link(target, &metadata);
    }
    if !kind.is_dir() {
        return link_file(source, target);
    }
    fs::create_dir(target)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        link_tree(&entry.path(), &target.join(entry.file_name()))?;
    }
    chown(target, Some(metadata.uid()), Some(metadata.gid()))?;
    fs::set_permissions(target, metadata.permissions())?;
    copy_attributes(source, target)?;
    // Last: what was made in it has changed its time.
    let times = FileTimes::new().set_modified(metadata.modified()?);
    File::open(target)?.set_times(times)
}

fn chown_link(target: &Path, metadata: &Metadata) -> io::Result<()> {
    std::os::unix::fs::lchown(target, Some(metadata.uid()), Some(metadata.gid()))
}

fn link_file(source: &Path, target: &Path) -> io::Result<()> {
    if source.extension() == Some(OsStr::new(WRITTEN_IN_PLACE)) {
        return fs::copy(source, target).map(drop);
    }
    match fs::hard_link(source, target) {
        // Another disk, or as many links as a disk can have.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::CrossesDevices | io::ErrorKind::TooManyLinks
            ) =>
        {
            fs::copy(source, target).map(drop)
        }
        other => other,
    }
}

/// Overlays say in attributes of directories what is hidden below.
fn copy_attributes(source: &Path, target: &Path) -> io::Result<()> {
    let mut names = vec![0; 4096];
    let length = match llistxattr(source, &mut names) {
        Err(Errno::NOTSUP) => return Ok(()),
        other => other?,
    };
    for name in names[..length].split(|byte| *byte == 0) {
        if name.is_empty() {
            continue;
        }
        let mut value = vec![0; 4096];
        let length = lgetxattr(source, name, &mut value)?;
        lsetxattr(target, name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn contents_are_shared_and_databases_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        fs::create_dir_all(source.join("snapshots/1/fs/tmp")).unwrap();
        fs::write(source.join("snapshots/1/fs/program"), "program").unwrap();
        symlink("program", source.join("snapshots/1/fs/link")).unwrap();
        fs::write(source.join("metadata.db"), "database").unwrap();
        let open = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(source.join("snapshots/1/fs/tmp"), open).unwrap();

        let target = directory.path().join("target");
        link_tree(&source, &target).unwrap();
        let inode = |root: &Path, path: &str| fs::metadata(root.join(path)).unwrap().ino();
        for (path, shared) in [("snapshots/1/fs/program", true), ("metadata.db", false)] {
            assert_eq!(
                inode(&source, path) == inode(&target, path),
                shared,
                "{path}"
            );
        }
        assert_eq!(
            fs::read_to_string(target.join("metadata.db")).unwrap(),
            "database"
        );
        assert_eq!(
            fs::read_link(target.join("snapshots/1/fs/link")).unwrap(),
            Path::new("program")
        );
        let tmp = fs::metadata(target.join("snapshots/1/fs/tmp")).unwrap();
        assert_eq!(tmp.permissions().mode() & 0o7777, 0o1777);
    }
}

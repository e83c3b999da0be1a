//! Removes control groups that `runc` leaves: the parent of all machines, and groups of a machine that was half made.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Error, error::FileContext as _, store::entries};

const MOUNTS: &str = "/proc/self/mountinfo";
/// A group is busy for a moment after its last process ended, and nothing tells when it no longer is.
const PAUSE: Duration = Duration::from_millis(20);
const ATTEMPTS: u32 = 150;

/// Removes a group and all groups in it, in every hierarchy.
pub(super) async fn remove(group: &str) -> Result<(), Error> {
    let mounts = fs::read_to_string(MOUNTS).file("read", MOUNTS)?;
    for hierarchy in hierarchies(&mounts) {
        let path = hierarchy.join(group.trim_start_matches('/'));
        let mut attempt = 0;
        loop {
            match remove_below(&path) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && attempt < ATTEMPTS => {
                    attempt += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(source) => return Err(Error::ControlGroup { path, source }),
            }
        }
    }
    Ok(())
}

/// A group goes when the groups in it are gone; the files in it are the kernel's and go with it.
fn remove_below(group: &Path) -> io::Result<()> {
    for child in entries(group).map_err(io::Error::other)? {
        if child.is_dir() {
            remove_below(&child)?;
        }
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Where control groups are mounted, of both generations.
fn hierarchies(mountinfo: &str) -> Vec<PathBuf> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            let kind = file_system.split(' ').next()?;
            matches!(kind, "cgroup" | "cgroup2")
                .then(|| mount.split(' ').nth(4).map(PathBuf::from))
                .flatten()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_of_control_groups_are_found() {
        let mountinfo = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 29 0:26 / /sys/fs/cgroup/cpu rw,relatime shared:4 - cgroup cgroup rw,cpu
39 29 0:35 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
        assert_eq!(
            hierarchies(mountinfo),
            [
                PathBuf::from("/sys/fs/cgroup/cpu"),
                PathBuf::from("/sys/fs/cgroup/unified")
            ]
        );
    }
}

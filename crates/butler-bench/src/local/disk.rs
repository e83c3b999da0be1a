//! How much of the disk a directory has for itself.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context;

use super::shell;

/// The kernel counts blocks of this size, whatever those of the file system are.
const BLOCK: u64 = 512;

/// A file, by what was seen of it.
struct Seen {
    names: u64,
    names_in_all: u64,
    blocks: u64,
}

/// Bytes of blocks that would be free if the directory were removed. A file that has a name elsewhere would stay.
pub(super) async fn own_bytes(directory: &Path) -> anyhow::Result<u64> {
    // Blocks are given to a file when it is written to the disk.
    shell::settle().await?;
    let walked = directory.to_owned();
    tokio::task::spawn_blocking(move || walk(&walked))
        .await?
        .with_context(|| format!("could not look at {}", directory.display()))
}

fn walk(directory: &Path) -> io::Result<u64> {
    let device = fs::metadata(directory)?.dev();
    let mut blocks = 0;
    let mut files: BTreeMap<u64, Seen> = BTreeMap::new();
    let mut left: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        let Some(metadata) = still_there(fs::symlink_metadata(&path))? else {
            continue;
        };
        if metadata.dev() != device {
            continue;
        }
        if metadata.is_dir() {
            blocks += metadata.blocks();
            for entry in still_there(fs::read_dir(&path))?.into_iter().flatten() {
                left.push(entry?.path());
            }
        } else {
            let seen = files.entry(metadata.ino()).or_insert_with(|| Seen {
                names: 0,
                names_in_all: metadata.nlink(),
                blocks: metadata.blocks(),
            });
            seen.names += 1;
        }
    }
    let own = files
        .values()
        .filter(|seen| seen.names >= seen.names_in_all);
    blocks += own.map(|seen| seen.blocks).sum::<u64>();
    Ok(blocks * BLOCK)
}

/// What runs there makes and removes files while we look.
fn still_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: usize = 1_000_000;

    #[test]
    fn only_what_has_no_name_elsewhere_counts() {
        let directory = tempfile::tempdir().unwrap();
        let (store, machine) = (
            directory.path().join("store"),
            directory.path().join("machine"),
        );
        for place in [&store, &machine] {
            fs::create_dir(place).unwrap();
        }
        let write = |path: &Path| {
            fs::write(path, vec![1; MEGABYTE]).unwrap();
            fs::File::open(path).unwrap().sync_all().unwrap();
        };
        write(&store.join("layer"));
        fs::hard_link(store.join("layer"), machine.join("layer")).unwrap();
        assert!(walk(&machine).unwrap() < 100_000, "shared with the store");

        write(&machine.join("database"));
        fs::hard_link(machine.join("database"), machine.join("again")).unwrap();
        let own = walk(&machine).unwrap();
        assert!((1_000_000..1_200_000).contains(&own), "counted once: {own}");

        fs::remove_file(store.join("layer")).unwrap();
        let own = walk(&machine).unwrap();
        assert!((2_000_000..2_400_000).contains(&own), "now its own: {own}");
    }
}

//! Writes the files of user data.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown},
    path::Path,
};

use crate::cloud_config::{FileToWrite, Owner};

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Writes one file, with the directories that lead to it.
pub(super) fn write(file: &FileToWrite) -> io::Result<()> {
    let path = Path::new(&file.path);
    let (user, group) = identifiers(
        &file.owner,
        &fs::read_to_string(USERS).unwrap_or_default(),
        &fs::read_to_string(GROUPS).unwrap_or_default(),
    )
    .map_err(io::Error::other)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut opened = OpenOptions::new()
        .create(true)
        .write(true)
        .append(file.append)
        .truncate(!file.append)
        .mode(0o600)
        .open(path)?;
    // Before the content: nobody reads it who may not. A change of owner takes away what set-user-id bits there are.
    chown(path, Some(user), group)?;
    opened.set_permissions(Permissions::from_mode(file.permissions))?;
    opened.write_all(&file.content)
}

/// The numbers of an owner: names are looked up, numbers stay.
fn identifiers(owner: &Owner, users: &str, groups: &str) -> Result<(u32, Option<u32>), String> {
    let user = number(&owner.user, users)
        .ok_or_else(|| format!("there is no user {:?} in {USERS}", owner.user))?;
    let group = match &owner.group {
        None => own_group(&owner.user, users),
        Some(name) => Some(
            number(name, groups)
                .ok_or_else(|| format!("there is no group {name:?} in {GROUPS}"))?,
        ),
    };
    Ok((user, group))
}

/// Third field of the line that begins with the name.
fn number(name: &str, table: &str) -> Option<u32> {
    name.parse().ok().or_else(|| field(name, table, 2))
}

fn own_group(user: &str, users: &str) -> Option<u32> {
    field(user, users, 3)
}

fn field(name: &str, table: &str, index: usize) -> Option<u32> {
    table
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&name))
        .and_then(|fields| fields.get(index)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:7:daemon:/:/bin/false\n";
    const GROUPS: &str = "root:x:0:\nadm:x:4:syslog\n";

    fn owner(user: &str, group: Option<&str>) -> Owner {
        Owner {
            user: user.to_owned(),
            group: group.map(str::to_owned),
        }
    }

    #[test]
    fn owners_are_found_by_name_and_number() {
        let find = |user, group| identifiers(&owner(user, group), USERS, GROUPS);
        assert_eq!(find("root", Some("adm")), Ok((0, Some(4))));
        assert_eq!(find("daemon", None), Ok((1, Some(7))));
        assert_eq!(find("1000", Some("1001")), Ok((1000, Some(1001))));
        assert_eq!(find("1000", None), Ok((1000, None)));
        assert_eq!(
            find("nobody", None),
            Err("there is no user \"nobody\" in /etc/passwd".to_owned())
        );
        assert!(find("root", Some("wheel")).is_err());
    }

    #[test]
    fn a_file_gets_its_content_and_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/file");
        let me = rustix::process::geteuid().as_raw().to_string();
        let mine = rustix::process::getegid().as_raw().to_string();
        let file = |content: &str, append, permissions| FileToWrite {
            path: path.to_str().unwrap().to_owned(),
            content: content.as_bytes().to_vec(),
            owner: owner(&me, Some(&mine)),
            permissions,
            append,
        };
        write(&file("one\n", false, 0o640)).unwrap();
        write(&file("two\n", true, 0o600)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        write(&file("new", false, 0o755)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
    }
}

//! The disk of a new machine, as a list of what to make. Paths are relative to the disk.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::{HostFacts, MachineSpec, PROGRAM_DIRECTORY, SEED_DIRECTORY, TopLevel, reported};

/// The root file system of the machine.
pub(crate) const ROOT: &str = "rootfs";
/// What the machine writes below `/usr`.
pub(crate) const USR_UPPER: &str = "usr/upper";
/// The kernel's own place beside that.
pub(crate) const USR_WORK: &str = "usr/work";

/// What the machine sees of its own size.
pub(crate) const REPORTED: &str = "reported";
/// Where containerd keeps images in a machine.
const CONTAINERD_ROOT: &str = "var/lib/containerd";

/// One thing to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// With all that lead to it.
    Directory { path: PathBuf, mode: u32 },
    /// With this text.
    File {
        path: PathBuf,
        mode: u32,
        text: String,
    },
    /// A symbolic link.
    Link { path: PathBuf, target: PathBuf },
    /// A copy of a file or a directory of the host, if it has it.
    Copy { path: PathBuf, source: PathBuf },
    /// A copy of a prepared containerd root that shares all it can, in the place of what is there.
    ImageStore { path: PathBuf, source: PathBuf },
}

/// Empty directories of the root file system, and who may enter.
const DIRECTORIES: [(&str, u32); 20] = [
    ("dev", 0o755),
    ("etc/cni/net.d", 0o755),
    ("etc/containerd", 0o755),
    ("etc/kubernetes/manifests", 0o755),
    ("home", 0o755),
    ("mnt", 0o755),
    ("opt/cni/bin", 0o755),
    ("proc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("srv", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("var/cache", 0o755),
    ("var/lib/containerd", 0o711),
    ("var/lib/kubelet", 0o755),
    ("var/log", 0o755),
    ("var/spool", 0o755),
    ("var/tmp", 0o1777),
];

/// What programs read of `/etc`. Certificates, and no keys: `/etc/ssl/private` stays on the host.
const COPIED: [&str; 13] = [
    "alternatives",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
];

/// Directories that kubeadm and kubelet look for below `/usr`, and that a host may lack.
const BELOW_USR: [&str; 2] = ["lib/modules", "libexec/kubernetes"];

/// The disk of a new machine. `name_server` is in it although nothing may answer there: some programs end without one.
pub(crate) fn disk_layout(
    spec: &MachineSpec,
    host: &HostFacts,
    name_server: Ipv4Addr,
) -> Vec<Entry> {
    let root = PathBuf::from(ROOT);
    let absolute = |path: &str| root.join(path.trim_start_matches('/'));
    let mut entries: Vec<Entry> = DIRECTORIES
        .into_iter()
        .map(|(path, mode)| Entry::Directory {
            path: root.join(path),
            mode,
        })
        .collect();
    entries.extend(
        [PROGRAM_DIRECTORY, SEED_DIRECTORY].map(|path| Entry::Directory {
            path: absolute(path),
            mode: 0o755,
        }),
    );
    entries.extend(BELOW_USR.map(|path| Entry::Directory {
        path: PathBuf::from(USR_UPPER).join(path),
        mode: 0o755,
    }));
    entries.push(Entry::Directory {
        path: USR_WORK.into(),
        mode: 0o755,
    });
    entries.extend(host.top_level.iter().map(|(name, kind)| match kind {
        TopLevel::Link(target) => Entry::Link {
            path: root.join(name),
            target: target.clone(),
        },
        TopLevel::Directory => Entry::Directory {
            path: root.join(name),
            mode: 0o755,
        },
    }));
    entries.push(Entry::Link {
        path: root.join("var/run"),
        target: "/run".into(),
    });
    entries.extend(COPIED.map(|path| Entry::Copy {
        path: root.join("etc").join(path),
        source: PathBuf::from("/etc").join(path),
    }));
    let MachineSpec {
        hostname, address, ..
    } = spec;
    entries.extend(
        [
            ("etc/hostname", format!("{hostname}\n"), 0o644),
            (
                "etc/hosts",
                format!(
                    "127.0.0.1 localhost\n::1 localhost\n{} {hostname}\n",
                    address.addr()
                ),
                0o644,
            ),
            ("etc/machine-id", format!("{}\n", spec.id.digits()), 0o444),
            (
                "etc/resolv.conf",
                format!("nameserver {name_server}\n"),
                0o644,
            ),
        ]
        .map(|(path, text, mode)| Entry::File {
            path: root.join(path),
            mode,
            text,
        }),
    );
    entries.extend(reported::entries(spec, host));
    entries.extend(spec.disk.files.iter().map(|file| Entry::File {
        path: absolute(&file.path.to_string_lossy()),
        mode: file.mode,
        text: file.text.clone(),
    }));
    entries.extend(spec.disk.image_store.iter().map(|store| Entry::ImageStore {
        path: root.join(CONTAINERD_ROOT),
        source: store.clone(),
    }));
    entries
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::machine::spec::tests::{host, worker};

    fn text_of(entries: &[Entry], wanted: &str) -> String {
        entries
            .iter()
            .find_map(|entry| match entry {
                Entry::File { path, text, .. } if path == &PathBuf::from(wanted) => {
                    Some(text.clone())
                }
                _ => None,
            })
            .unwrap()
    }

    #[test]
    fn a_machine_knows_who_it_is() {
        let entries = disk_layout(&worker(), &host(), "10.213.7.1".parse().unwrap());
        assert_eq!(text_of(&entries, "rootfs/etc/hostname"), "worker-1\n");
        assert_eq!(
            text_of(&entries, "rootfs/etc/machine-id"),
            "6f9619ff8b864d01b42d00cf4fc964ff\n"
        );
        assert_eq!(
            text_of(&entries, "rootfs/etc/hosts"),
            "127.0.0.1 localhost\n::1 localhost\n10.213.7.10 worker-1\n"
        );
        assert_eq!(
            text_of(&entries, "rootfs/etc/resolv.conf"),
            "nameserver 10.213.7.1\n"
        );
    }

    #[test]
    fn files_of_a_specification_are_on_the_disk() {
        let mut spec = worker();
        spec.disk.files.push(crate::machine::DiskFile {
            path: "/etc/containerd/config.toml".into(),
            mode: 0o644,
            text: "version = 3\n".to_owned(),
        });
        spec.disk.image_store = Some("/state/image-stores/0".into());
        let entries = disk_layout(&spec, &host(), "10.213.7.1".parse().unwrap());
        assert_eq!(
            text_of(&entries, "rootfs/etc/containerd/config.toml"),
            "version = 3\n"
        );
        assert!(entries.contains(&Entry::ImageStore {
            path: "rootfs/var/lib/containerd".into(),
            source: "/state/image-stores/0".into()
        }));
    }

    #[test]
    fn no_secret_of_the_host_is_copied() {
        let entries = disk_layout(&worker(), &host(), "10.213.7.1".parse().unwrap());
        for entry in &entries {
            if let Entry::Copy { source, .. } = entry {
                for secret in ["/etc/ssl/private", "/etc/shadow", "/etc/ssh"] {
                    assert!(
                        !PathBuf::from(secret).starts_with(source) && !source.starts_with(secret),
                        "{source:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_host_that_has_not_merged_usr_lends_its_directories() {
        let mut old = host();
        old.top_level.insert("lib", TopLevel::Directory);
        let entries = disk_layout(&worker(), &old, "10.213.7.1".parse().unwrap());
        assert!(entries.contains(&Entry::Directory {
            path: "rootfs/lib".into(),
            mode: 0o755
        }));
        assert!(entries.contains(&Entry::Link {
            path: "rootfs/bin".into(),
            target: "usr/bin".into()
        }));
    }
}

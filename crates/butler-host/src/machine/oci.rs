//! The configuration that `runc` makes a machine from.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Bind, HostFacts, MachineSpec, PROGRAM_DIRECTORY, SEED_DIRECTORY, TopLevel, reported};

/// Of the specification that the configuration keeps to.
const OCI_VERSION: &str = "1.0.2";
/// In microseconds; the quota counts within it.
const CPU_PERIOD: u64 = 100_000;
/// The kernel gives a group no less.
const LEAST_CPU_SHARES: u64 = 2;

/// Where on the host the parts of a machine are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// The root file system.
    pub(crate) root: PathBuf,
    /// What the machine writes below `/usr`.
    pub(crate) usr_upper: PathBuf,
    /// The kernel's own place beside that.
    pub(crate) usr_work: PathBuf,
    /// What the machine sees of its own size.
    pub(crate) reported: PathBuf,
    /// What the host tells the machine.
    pub(crate) seed: PathBuf,
    /// The network namespace, as a file.
    pub(crate) network_namespace: PathBuf,
    /// The control group, from the root of each hierarchy.
    pub(crate) control_group: String,
}

/// The configuration. Everything in it is decided by the arguments.
pub(crate) fn runtime_config(spec: &MachineSpec, host: &HostFacts, places: &Places) -> Value {
    let path = format!(
        "PATH={PROGRAM_DIRECTORY}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    );
    let capabilities = &host.capabilities;
    json!({
        "ociVersion": OCI_VERSION,
        "hostname": spec.hostname,
        "root": { "path": places.root, "readonly": false },
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "cwd": "/",
            "args": spec.init,
            "env": [path, "HOME=/root", "container=butler"],
            "noNewPrivileges": false,
            "capabilities": {
                "bounding": capabilities,
                "effective": capabilities,
                "permitted": capabilities,
            },
        },
        "mounts": mounts(spec, host, places),
        "linux": {
            "namespaces": [
                { "type": "pid" },
                { "type": "ipc" },
                { "type": "uts" },
                { "type": "mount" },
                { "type": "cgroup" },
                { "type": "network", "path": places.network_namespace },
            ],
            "cgroupsPath": places.control_group,
            // What kubelet mounts for a pod must reach the pod's containers.
            "rootfsPropagation": "shared",
            // Kubelet reads the kernel's log to learn of processes that ran out of memory.
            "devices": [{
                "path": "/dev/kmsg", "type": "c", "major": 1, "minor": 11, "fileMode": 0o644, "uid": 0, "gid": 0,
            }],
            "resources": {
                // A machine starts containers of its own, with devices of their own.
                "devices": [{ "allow": true, "access": "rwm" }],
                "cpu": {
                    "shares": (spec.cpu_millicores * 1024 / 1000).max(LEAST_CPU_SHARES),
                    "quota": spec.cpu_millicores * CPU_PERIOD / 1000,
                    "period": CPU_PERIOD,
                },
                "memory": { "limit": spec.memory_bytes },
            },
        },
    })
}

fn mounts(spec: &MachineSpec, host: &HostFacts, places: &Places) -> Vec<Value> {
    let mut mounts = vec![
        mount("/proc", "proc", "proc", &[]),
        mount(
            "/dev",
            "tmpfs",
            "tmpfs",
            &["nosuid", "strictatime", "mode=755", "size=65536k"],
        ),
        mount(
            "/dev/pts",
            "devpts",
            "devpts",
            &[
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
            ],
        ),
        mount(
            "/dev/shm",
            "tmpfs",
            "shm",
            &["nosuid", "nodev", "noexec", "mode=1777"],
        ),
        mount(
            "/dev/mqueue",
            "mqueue",
            "mqueue",
            &["nosuid", "nodev", "noexec"],
        ),
        mount(
            "/sys",
            "sysfs",
            "sysfs",
            &["nosuid", "nodev", "noexec", "rw"],
        ),
        mount(
            "/sys/fs/cgroup",
            "cgroup",
            "cgroup",
            &["nosuid", "nodev", "noexec", "rw"],
        ),
        mount("/run", "tmpfs", "tmpfs", &["nosuid", "nodev", "mode=755"]),
        mount("/tmp", "tmpfs", "tmpfs", &["nosuid", "nodev", "mode=1777"]),
        mount(
            "/usr",
            "overlay",
            "overlay",
            &[
                "lowerdir=/usr",
                &format!("upperdir={}", places.usr_upper.display()),
                &format!("workdir={}", places.usr_work.display()),
            ],
        ),
    ];
    let directories = host
        .top_level
        .iter()
        .filter(|(_, kind)| **kind == TopLevel::Directory)
        .map(|(name, _)| Path::new("/").join(name));
    mounts.extend(directories.map(|path| bind(&path, &path, false)));
    mounts.extend(
        reported::places(host)
            .map(|(source, destination)| bind(&places.reported.join(source), destination, false)),
    );
    mounts.push(bind(&places.seed, Path::new(SEED_DIRECTORY), false));
    mounts.extend(spec.binds.iter().map(
        |Bind {
             source,
             destination,
             writable,
         }| { bind(source, destination, *writable) },
    ));
    mounts
}

fn mount(destination: &str, kind: &str, source: &str, options: &[&str]) -> Value {
    json!({ "destination": destination, "type": kind, "source": source, "options": options })
}

/// What the machine mounts there does not come back to the host.
fn bind(source: &Path, destination: &Path, writable: bool) -> Value {
    let access = if writable { "rw" } else { "ro" };
    json!({
        "destination": destination,
        "type": "bind",
        "source": source,
        "options": ["rbind", "rprivate", access],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::spec::tests::{host, worker};

    fn places() -> Places {
        Places {
            root: "/state/machines/worker-1/disk/rootfs".into(),
            usr_upper: "/state/machines/worker-1/disk/usr/upper".into(),
            usr_work: "/state/machines/worker-1/disk/usr/work".into(),
            reported: "/state/machines/worker-1/disk/reported".into(),
            seed: "/state/machines/worker-1/seed".into(),
            network_namespace: "/run/netns/butler-cellar.worker-1".into(),
            control_group: "/butler-cellar/worker-1".to_owned(),
        }
    }

    #[test]
    fn the_whole_configuration_of_a_worker() {
        insta::assert_json_snapshot!(runtime_config(&worker(), &host(), &places()));
    }

    #[test]
    fn a_small_machine_still_has_a_share() {
        let mut small = worker();
        small.cpu_millicores = 1;
        let config = runtime_config(&small, &host(), &places());
        assert_eq!(config["linux"]["resources"]["cpu"]["shares"], 2);
        assert_eq!(config["linux"]["resources"]["cpu"]["quota"], 100);
    }

    #[test]
    fn directories_of_an_old_host_are_bound_read_only() {
        let mut old = host();
        old.top_level.insert("lib", TopLevel::Directory);
        let config = runtime_config(&worker(), &old, &places());
        let mounts = config["mounts"].as_array().unwrap();
        assert!(mounts.contains(&bind(Path::new("/lib"), Path::new("/lib"), false)));
    }
}

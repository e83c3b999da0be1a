//! What the host can give its machines.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Directories beside `/usr` in which programs look for others.
const TOP_LEVEL: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// The kernel's capabilities, by their number.
const CAPABILITIES: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// What the host can give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// Thousandths of a processor.
    pub cpu_millicores: u64,
    /// All memory.
    pub memory_bytes: u64,
    /// Names of the capabilities that a process here can have at all.
    pub capabilities: Vec<&'static str>,
    /// `bin` and its like; one that the host lacks is absent.
    pub top_level: BTreeMap<&'static str, TopLevel>,
    /// What `/proc/cpuinfo` says of each processor.
    pub processors: String,
    /// Whether the kernel tells which memory is near which processor.
    pub memory_nodes: bool,
}

/// A directory beside `/usr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopLevel {
    /// A symbolic link, mostly into `/usr`.
    Link(PathBuf),
    /// A directory of its own.
    Directory,
}

/// Why the host cannot be known.
#[derive(Debug, Error)]
pub enum FactsError {
    /// A file of the kernel cannot be read.
    #[error("could not read {path}")]
    Read {
        /// Which one.
        path: &'static str,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// A file of the kernel lacks what it should have.
    #[error("{path} does not say {what}")]
    Unsaid {
        /// Which one.
        path: &'static str,
        /// What is missing.
        what: &'static str,
    },
}

impl HostFacts {
    /// Looks at this host.
    pub fn read() -> Result<Self, FactsError> {
        const STATUS: &str = "/proc/self/status";
        const MEMORY: &str = "/proc/meminfo";
        let read =
            |path| fs::read_to_string(path).map_err(|source| FactsError::Read { path, source });
        let mask = bounding_set(&read(STATUS)?).ok_or(FactsError::Unsaid {
            path: STATUS,
            what: "the bounding set of capabilities",
        })?;
        let memory_bytes = total_memory(&read(MEMORY)?).ok_or(FactsError::Unsaid {
            path: MEMORY,
            what: "the total memory",
        })?;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            cpu_millicores: u64::try_from(processors).unwrap_or(1) * 1000,
            memory_bytes,
            capabilities: capabilities(mask),
            top_level: TOP_LEVEL.into_iter().filter_map(top_level).collect(),
            processors: read("/proc/cpuinfo")?,
            memory_nodes: Path::new(super::reported::SYSTEM_NODES).is_dir(),
        })
    }
}

fn top_level(name: &'static str) -> Option<(&'static str, TopLevel)> {
    let path = PathBuf::from("/").join(name);
    if let Ok(target) = fs::read_link(&path) {
        return Some((name, TopLevel::Link(target)));
    }
    path.is_dir().then_some((name, TopLevel::Directory))
}

fn bounding_set(status: &str) -> Option<u64> {
    let digits = status
        .lines()
        .find_map(|line| line.strip_prefix("CapBnd:"))?;
    u64::from_str_radix(digits.trim(), 16).ok()
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let amount = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?
        .trim()
        .strip_suffix("kB")?;
    amount.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Those of a mask that have a name; a newer kernel may have more.
fn capabilities(mask: u64) -> Vec<&'static str> {
    CAPABILITIES
        .into_iter()
        .enumerate()
        .filter(|(number, _)| mask >> number & 1 == 1)
        .map(|(_, name)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_the_host_lacks_is_given_to_nobody() {
        let status = "Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t000001fffeffffff\n";
        let names = capabilities(bounding_set(status).unwrap());
        assert_eq!(names.len(), 40);
        assert!(!names.contains(&"CAP_SYS_RESOURCE"));
        assert!(names.contains(&"CAP_CHECKPOINT_RESTORE"));
        assert_eq!(capabilities(1 << 60), Vec::<&str>::new());
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(
            total_memory("MemTotal:       24682416 kB\nMemFree: 1 kB\n"),
            Some(24_682_416 * 1024)
        );
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }
}

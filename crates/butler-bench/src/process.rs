//! What the kernel knows of a process: its memory, its CPU time, its control group.
//!
//! Must not: start or end anything.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context;

use crate::report::kibibytes;

/// The kernel tells CPU times to programs in hundredths of a second, whatever its own clock does.
const TICK: Duration = Duration::from_millis(10);
/// Where control groups of the first generation limit memory, and where those of the second do everything.
const MEMORY_GROUPS: &str = "/sys/fs/cgroup/memory";
const UNIFIED_GROUPS: &str = "/sys/fs/cgroup";
const BYTES_OF_A_MEBIBYTE: f64 = 1_048_576.0;

/// A process by its number on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// The first process of a container, by the number its runtime gave it: the control group is named after it.
    pub(crate) fn of_container(container: &str) -> anyhow::Result<Self> {
        let all = fs::read_dir("/proc").context("could not look at the processes of this host")?;
        let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut inside: Vec<u32> = numbers
            .filter(|number| {
                // Processes end while we look.
                let groups = fs::read_to_string(format!("/proc/{number}/cgroup"));
                groups.is_ok_and(|groups| groups.contains(container))
            })
            .collect();
        inside.sort_unstable();
        let first = inside.first().copied().map(Self);
        first.with_context(|| format!("no process of this host is in the container {container}"))
    }

    /// Its resident memory in MiB.
    pub(crate) fn memory(self) -> anyhow::Result<f64> {
        let status = self.file("status")?;
        let kibibytes = kibibytes(&status, "VmRSS:")
            .context("the kernel does not tell the memory of a process")?;
        Ok(kibibytes / 1024.0)
    }

    /// What its control group could not do without, in MiB: all that it uses but files nobody has asked for lately.
    pub(crate) fn working_set(self) -> anyhow::Result<f64> {
        let group = MemoryGroup::named_by(&self.file("cgroup")?)
            .context("the kernel does not tell the control group of a process")?;
        let read = |file: &str| {
            let path = group.directory.join(file);
            fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
        };
        let used: f64 = read(group.used)?
            .trim()
            .parse()
            .context("the kernel does not tell the memory of a control group")?;
        let idle = statistic(&read("memory.stat")?, group.idle).unwrap_or_default();
        Ok((used - idle).max(0.0) / BYTES_OF_A_MEBIBYTE)
    }

    /// The CPU time it used so far, in user mode and in the kernel.
    pub(crate) fn cpu_time(self) -> anyhow::Result<Duration> {
        let stat = self.file("stat")?;
        // "pid (name) state …": the name may hold anything; after it, utime and stime are the 12th and 13th field.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let ticks: Result<Vec<u32>, _> =
            fields.split(' ').skip(11).take(2).map(str::parse).collect();
        Ok(TICK
            * ticks
                .context("the kernel does not tell the CPU time of a process")?
                .iter()
                .sum())
    }

    fn file(self, name: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{name}", self.0);
        fs::read_to_string(&path).with_context(|| format!("could not read {path}"))
    }
}

/// The control group that counts the memory of a process, and what its files are called.
#[derive(Debug, PartialEq, Eq)]
struct MemoryGroup {
    directory: PathBuf,
    used: &'static str,
    idle: &'static str,
}

impl MemoryGroup {
    /// From `/proc/<number>/cgroup`, whose lines read `4:memory:/path`, or `0::/path` in the second generation.
    fn named_by(groups: &str) -> Option<Self> {
        let path_of = |controller: &str| {
            groups.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                let matches = controllers.split(',').any(|name| name == controller);
                matches.then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let first = path_of("memory").map(|path| Self {
            directory: PathBuf::from(MEMORY_GROUPS).join(path),
            used: "memory.usage_in_bytes",
            idle: "total_inactive_file",
        });
        first.or_else(|| {
            path_of("").map(|path| Self {
                directory: PathBuf::from(UNIFIED_GROUPS).join(path),
                used: "memory.current",
                idle: "inactive_file",
            })
        })
    }
}

/// A number of `memory.stat`, whose lines read `name 123`.
fn statistic(statistics: &str, name: &str) -> Option<f64> {
    let mut lines = statistics.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.find(|(found, _)| *found == name)?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_where_the_generation_of_control_groups_counts_it() {
        let first = "5:cpu,cpuacct:/a\n4:memory:/kubepods/pod1/c1\n0::/b\n";
        let group = MemoryGroup::named_by(first).unwrap();
        assert_eq!(
            group.directory,
            PathBuf::from("/sys/fs/cgroup/memory/kubepods/pod1/c1")
        );
        let second = MemoryGroup::named_by("0::/kubepods/pod1/c1\n").unwrap();
        assert_eq!(
            second.directory,
            PathBuf::from("/sys/fs/cgroup/kubepods/pod1/c1")
        );
        assert_eq!(MemoryGroup::named_by(""), None);
    }

    #[test]
    fn a_statistic_is_found_by_its_whole_name() {
        let text = "inactive_file 1\ntotal_inactive_file 4096\n";
        assert_eq!(statistic(text, "total_inactive_file"), Some(4096.0));
        assert_eq!(statistic(text, "active_file"), None);
    }

    #[test]
    fn this_very_process_has_memory() {
        let myself = Process(std::process::id());
        assert!(myself.memory().unwrap() > 0.0);
        myself.cpu_time().unwrap();
    }
}

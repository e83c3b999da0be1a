//! What a machine sees of its own size: as much as was asked for, not what the host has.
//!
//! Programs that ask the kernel how large a machine is (kubelet above all, for a node's capacity) read a few files. They
//! are covered by files of our own. A part of a processor is reported as a whole one: there is no way to say less.
//!
//! What asks the kernel by a call and not by a file, such as a program's own count of processors to run on, still hears
//! of the host's; the limits of the control group hold for it all the same.

use std::path::{Path, PathBuf};

use super::{Entry, HostFacts, MachineSpec, layout::REPORTED};

/// Where the kernel tells which memory is near which processor.
pub(super) const SYSTEM_NODES: &str = "/sys/devices/system/node";
const SYSTEM_PROCESSORS: &str = "/sys/devices/system/cpu";
const READABLE: u32 = 0o444;

/// What covers what: a path in the directory of reports, and one in the machine.
pub(super) fn places(host: &HostFacts) -> impl Iterator<Item = (&'static str, &'static Path)> {
    let nodes = host.memory_nodes.then_some(("node", SYSTEM_NODES));
    [
        ("meminfo", "/proc/meminfo"),
        ("cpuinfo", "/proc/cpuinfo"),
        ("cpu", SYSTEM_PROCESSORS),
    ]
    .into_iter()
    .chain(nodes)
    .map(|(source, destination)| (source, Path::new(destination)))
}

/// The reports, as a part of the disk.
pub(super) fn entries(spec: &MachineSpec, host: &HostFacts) -> Vec<Entry> {
    let directory = PathBuf::from(REPORTED);
    let count = spec.reported_processors();
    let kilobytes = spec.memory_bytes / 1024;
    let list = match count {
        1 => "0\n".to_owned(),
        _ => format!("0-{}\n", count - 1),
    };
    let mut files = vec![
        ("meminfo".to_owned(), memory("", kilobytes)),
        ("cpuinfo".to_owned(), first(&host.processors, count)),
        ("cpu/offline".to_owned(), "\n".to_owned()),
        ("node/online".to_owned(), "0\n".to_owned()),
        ("node/possible".to_owned(), "0\n".to_owned()),
        ("node/node0/cpulist".to_owned(), list.clone()),
        ("node/node0/distance".to_owned(), "10\n".to_owned()),
        (
            "node/node0/meminfo".to_owned(),
            memory("Node 0 ", kilobytes),
        ),
    ];
    files.extend(
        ["online", "possible", "present"].map(|name| (format!("cpu/{name}"), list.clone())),
    );
    for number in 0..count {
        let of = |name: &str| format!("cpu/cpu{number}/topology/{name}");
        files.extend([
            (of("core_id"), format!("{number}\n")),
            (of("physical_package_id"), "0\n".to_owned()),
            (of("thread_siblings_list"), format!("{number}\n")),
            (of("core_siblings_list"), list.clone()),
        ]);
    }
    let files = files.into_iter().map(|(path, text)| Entry::File {
        path: directory.join(path),
        mode: READABLE,
        text,
    });
    let links = (0..count).map(|number| Entry::Link {
        path: directory.join(format!("node/node0/cpu{number}")),
        target: format!("../../cpu/cpu{number}").into(),
    });
    let hugepages = Entry::Directory {
        path: directory.join("node/node0/hugepages"),
        mode: 0o555,
    };
    files.chain(links).chain([hugepages]).collect()
}

/// How much memory there is. What is free changes all the time and is not told here: it looks as if all were.
fn memory(prefix: &str, kilobytes: u64) -> String {
    [
        ("MemTotal:", kilobytes),
        ("MemFree:", kilobytes),
        ("MemAvailable:", kilobytes),
        ("Buffers:", 0),
        ("Cached:", 0),
        ("SwapTotal:", 0),
        ("SwapFree:", 0),
    ]
    .map(|(name, amount)| format!("{prefix}{name:<15}{amount:>9} kB\n"))
    .concat()
}

/// The descriptions of the first processors; an empty line ends each.
fn first(processors: &str, count: u64) -> String {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    processors.split_inclusive("\n\n").take(count).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::machine::spec::tests::{host, worker};

    fn text(spec: &MachineSpec, path: &str) -> String {
        let wanted = Path::new(REPORTED).join(path);
        entries(spec, &host())
            .into_iter()
            .find_map(|entry| match entry {
                Entry::File { path, text, .. } if path == wanted => Some(text),
                _ => None,
            })
            .unwrap_or_default()
    }

    #[test]
    fn a_part_of_a_processor_is_reported_as_one() {
        let mut spec = worker();
        assert_eq!(spec.cpu_millicores, 1500);
        assert_eq!(text(&spec, "cpu/online"), "0-1\n");
        assert_eq!(text(&spec, "cpuinfo").matches("processor").count(), 2);
        spec.cpu_millicores = 500;
        assert_eq!(text(&spec, "cpu/online"), "0\n");
        assert_eq!(
            text(&spec, "cpuinfo"),
            "processor\t: 0\ncpu MHz\t\t: 2400.000\n\n"
        );
    }

    #[test]
    fn memory_is_what_was_asked_for() {
        let memory = text(&worker(), "meminfo");
        assert!(
            memory.starts_with("MemTotal:        2097152 kB\nMemFree:"),
            "{memory}"
        );
        assert!(memory.contains("SwapTotal:             0 kB\n"), "{memory}");
        assert!(text(&worker(), "node/node0/meminfo").starts_with("Node 0 MemTotal: "));
    }

    #[test]
    fn a_kernel_without_memory_nodes_has_nothing_to_cover() {
        let mut plain = host();
        assert_eq!(places(&plain).count(), 4);
        plain.memory_nodes = false;
        assert_eq!(places(&plain).count(), 3);
    }
}

//! What a host looks like, so that it can be compared before and after.

use std::{collections::BTreeSet, path::Path, process::Command};

/// Settings of the kernel that `up` or a kubelet changes.
const SETTINGS: [&str; 7] = [
    "net/ipv4/ip_forward",
    "fs/inotify/max_user_instances",
    "fs/inotify/max_user_watches",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// Everything of the host that `down` must leave as it was.
pub(crate) struct Traces(Vec<(&'static str, String)>);

impl Traces {
    pub(crate) fn look() -> Self {
        let commands: [(&str, &[&str]); 3] = [
            ("namespaces", &["ip", "netns", "list"]),
            ("routes", &["ip", "-4", "route", "show", "table", "all"]),
            ("rules", &["nft", "list", "ruleset"]),
        ];
        let mut traces: Vec<(&str, String)> = commands
            .into_iter()
            .map(|(what, command)| {
                let output = Command::new(command[0])
                    .args(&command[1..])
                    .output()
                    .unwrap();
                (what, String::from_utf8_lossy(&output.stdout).into_owned())
            })
            .collect();
        traces.push(("interfaces", files("/sys/class/net")));
        let settings = SETTINGS.map(|setting| {
            let value = std::fs::read_to_string(Path::new("/proc/sys").join(setting));
            format!("{setting} {}", value.unwrap_or_default())
        });
        traces.push(("settings", settings.concat()));
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounted = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        // `ip netns` mounts its directory on itself when it is first used on a host.
        let mounted = mounted.filter(|place| *place != "/run/netns");
        traces.push(("mounts", mounted.collect::<Vec<_>>().join("\n")));
        traces.push(("processes", processes()));
        traces.push(("records", files("/run/butler")));
        traces.push(("control groups", groups()));
        Self(traces)
    }

    /// Demands that nothing is there that was not, and that nothing is gone.
    pub(crate) fn assert_unchanged(&self) {
        let now = Self::look();
        let lines = |text: &str| text.lines().map(ToOwned::to_owned).collect::<BTreeSet<_>>();
        let differences: Vec<String> = self
            .0
            .iter()
            .zip(&now.0)
            .flat_map(|((what, before), (_, after))| {
                let (before, after) = (lines(before), lines(after));
                let gone = before.difference(&after);
                let gone = gone.map(move |line| format!("{what} lack: {line}"));
                let left = after.difference(&before);
                let left = left.map(move |line| format!("{what} have: {line}"));
                gone.chain(left).collect::<Vec<_>>()
            })
            .collect();
        assert!(
            differences.is_empty(),
            "the host is not as it was:\n{}",
            differences.join("\n")
        );
    }
}

/// Programs of Butler and of machines that go on running on the host. Commands that tests beside this one run do not.
fn processes() -> String {
    let ours = ["butler", "containerd", "kubelet", "runc"];
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let read = |file| std::fs::read_to_string(entry.path().join(file)).ok();
            let name = read("comm")?;
            // One that has ended has no command line any more: the host's first process has yet to take note.
            let line = read("cmdline").filter(|line| !line.is_empty())?;
            let line = line.replace('\0', " ");
            let supervises = name.trim() == "butleradm" && line.contains(" supervise ");
            // Controllers of tests that have an API server of their own.
            let is_others = line.contains("/butler-testkit-");
            let is_ours = supervises || (ours.contains(&name.trim()) && !is_others);
            is_ours.then(|| format!("{line}\n"))
        })
        .collect();
    found.sort();
    found.concat()
}

/// Names of what is in a directory, if it is there.
fn files(directory: &str) -> String {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| format!("{}\n", entry.path().display()))
        .collect();
    names.sort();
    names.concat()
}

/// Control groups of ours: others come and go as they like.
fn groups() -> String {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let places = mounts
        .lines()
        .filter(|line| line.contains(" - cgroup"))
        .filter_map(|line| line.split(' ').nth(4));
    let names: Vec<String> = places.map(files).collect();
    let lines = names.iter().flat_map(|names| names.lines());
    let ours = lines.filter(|name| ["butler", "kube"].iter().any(|our| name.contains(our)));
    ours.map(|name| format!("{name}\n"))
        .collect::<Vec<_>>()
        .concat()
}

//! What is found on a host, judged: pure, so that every finding has a test.

use std::fmt;

use ipnet::Ipv4Net;

/// A management cluster alone, with a little room.
const LEAST_MEMORY: u64 = 3 << 30;
/// With this, tenants have room too.
const COMFORTABLE_MEMORY: u64 = 8 << 30;
/// Images, stores and the state of a management cluster.
const LEAST_DISK: u64 = 5 << 30;
const COMFORTABLE_DISK: u64 = 20 << 30;
/// One processor makes a cluster that answers late.
const COMFORTABLE_PROCESSORS: u64 = 2;
/// overlayfs over overlayfs and the second generation of control groups work from here on.
const LEAST_KERNEL: (u32, u32) = (5, 4);

/// Programs that machines are made with, and the packages that have them on Debian.
pub(crate) const PROGRAMS: [(&str, &str); 6] = [
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("arping", "iputils-arping"),
];

/// What is so on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) root: bool,
    /// As the kernel calls its release: `6.1.0-18-amd64`.
    pub(crate) kernel: String,
    /// Programs of [`PROGRAMS`] that were not found.
    pub(crate) missing_programs: Vec<&'static str>,
    /// Whether the kernel knows overlayfs.
    pub(crate) overlay: bool,
    /// Kinds of namespaces that the kernel lacks.
    pub(crate) missing_namespaces: Vec<&'static str>,
    /// What is mounted at `/sys/fs/cgroup`.
    pub(crate) control_groups: ControlGroups,
    pub(crate) processors: u64,
    pub(crate) memory: u64,
    /// Free where the state is kept.
    pub(crate) disk: u64,
    /// Addresses that the bridge is to have.
    pub(crate) range: Ipv4Net,
    /// A route that they would collide with.
    pub(crate) collision: Option<String>,
    /// Who listens where the host process has to.
    pub(crate) busy_ports: Vec<String>,
}

/// Which generation of control groups a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlGroups {
    Second,
    First,
    Missing,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Pass,
    Warn,
    Fail,
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Pass => "PASS",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        })
    }
}

/// One aspect of a host, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) aspect: &'static str,
    pub(crate) found: String,
    /// What to do, unless it passes.
    pub(crate) fix: Option<String>,
}

impl Finding {
    fn pass(aspect: &'static str, found: impl Into<String>) -> Self {
        Self {
            level: Level::Pass,
            aspect,
            found: found.into(),
            fix: None,
        }
    }

    fn bad(
        level: Level,
        aspect: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            level,
            aspect,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }
}

/// Judges every aspect, in the order in which people would mend them.
pub(crate) fn judge(facts: &Facts) -> Vec<Finding> {
    vec![
        user(facts),
        kernel(facts),
        programs(facts),
        overlay(facts),
        namespaces(facts),
        control_groups(facts),
        processors(facts),
        amount(
            "memory",
            facts.memory,
            LEAST_MEMORY,
            COMFORTABLE_MEMORY,
            "of memory",
        ),
        amount(
            "disk",
            facts.disk,
            LEAST_DISK,
            COMFORTABLE_DISK,
            "free where the state is kept",
        ),
        range(facts),
        ports(facts),
    ]
}

fn user(facts: &Facts) -> Finding {
    if facts.root {
        Finding::pass("user", "root")
    } else {
        let fix =
            "run it as root, for example with sudo: namespaces, mounts and control groups need it";
        Finding::bad(Level::Fail, "user", "not root", fix)
    }
}

fn kernel(facts: &Facts) -> Finding {
    let mut numbers = facts
        .kernel
        .split(['.', '-', '+'])
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= LEAST_KERNEL {
        Finding::pass("kernel", &facts.kernel)
    } else {
        let (major, minor) = LEAST_KERNEL;
        Finding::bad(
            Level::Fail,
            "kernel",
            &facts.kernel,
            format!("use Linux {major}.{minor} or later"),
        )
    }
}

fn programs(facts: &Facts) -> Finding {
    if facts.missing_programs.is_empty() {
        return Finding::pass("programs", PROGRAMS.map(|(program, _)| program).join(", "));
    }
    let packages = PROGRAMS
        .iter()
        .filter(|(program, _)| facts.missing_programs.contains(program))
        .map(|(_, package)| *package);
    let fix = format!(
        "install them: apt-get install {}",
        packages.collect::<Vec<_>>().join(" ")
    );
    let found = format!("missing: {}", facts.missing_programs.join(", "));
    Finding::bad(Level::Fail, "programs", found, fix)
}

fn overlay(facts: &Facts) -> Finding {
    if facts.overlay {
        Finding::pass("overlayfs", "there")
    } else {
        let fix = "load it: modprobe overlay; a kernel without it cannot run machines";
        Finding::bad(Level::Fail, "overlayfs", "missing", fix)
    }
}

fn namespaces(facts: &Facts) -> Finding {
    if facts.missing_namespaces.is_empty() {
        Finding::pass("namespaces", "all")
    } else {
        let found = format!("missing: {}", facts.missing_namespaces.join(", "));
        Finding::bad(
            Level::Fail,
            "namespaces",
            found,
            "use a kernel that has them",
        )
    }
}

fn control_groups(facts: &Facts) -> Finding {
    match facts.control_groups {
        ControlGroups::Second => Finding::pass("control groups", "second generation"),
        ControlGroups::First => {
            Finding::pass("control groups", "first generation; kubelets are told so")
        }
        ControlGroups::Missing => Finding::bad(
            Level::Fail,
            "control groups",
            "nothing is mounted at /sys/fs/cgroup",
            "mount them: mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        ),
    }
}

fn processors(facts: &Facts) -> Finding {
    let found = facts.processors.to_string();
    if facts.processors >= COMFORTABLE_PROCESSORS {
        Finding::pass("processors", found)
    } else {
        let fix = "a cluster on one processor works and answers late; two are better";
        Finding::bad(Level::Warn, "processors", found, fix)
    }
}

fn amount(aspect: &'static str, found: u64, least: u64, comfortable: u64, what: &str) -> Finding {
    let text = |bytes: u64| {
        format!(
            "{:.1} GiB",
            f64::from(u32::try_from(bytes >> 20).unwrap_or(u32::MAX)) / 1024.0
        )
    };
    if found >= comfortable {
        Finding::pass(aspect, text(found))
    } else if found >= least {
        let fix = format!(
            "enough for the management cluster; tenants want {} {what}",
            text(comfortable)
        );
        Finding::bad(Level::Warn, aspect, text(found), fix)
    } else {
        Finding::bad(
            Level::Fail,
            aspect,
            text(found),
            format!("{} {what} are needed", text(least)),
        )
    }
}

fn range(facts: &Facts) -> Finding {
    match &facts.collision {
        None => Finding::pass("range", facts.range.to_string()),
        Some(collision) => {
            let fix = "choose another one with --range, such as 10.213.0.0/20";
            Finding::bad(
                Level::Fail,
                "range",
                format!("{}: {collision}", facts.range),
                fix,
            )
        }
    }
}

fn ports(facts: &Facts) -> Finding {
    if facts.busy_ports.is_empty() {
        Finding::pass("ports", "free")
    } else {
        let fix = "stop what listens there on every address, or let it listen on one address alone";
        Finding::bad(
            Level::Fail,
            "ports",
            format!("in use: {}", facts.busy_ports.join(", ")),
            fix,
        )
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn good() -> Facts {
        Facts {
            root: true,
            kernel: "6.1.0-18-amd64".to_owned(),
            missing_programs: Vec::new(),
            overlay: true,
            missing_namespaces: Vec::new(),
            control_groups: ControlGroups::Second,
            processors: 4,
            memory: 16 << 30,
            disk: 100 << 30,
            range: "172.30.0.0/20".parse().unwrap(),
            collision: None,
            busy_ports: Vec::new(),
        }
    }

    #[test]
    fn a_good_host_passes_in_every_aspect() {
        assert!(
            judge(&good())
                .iter()
                .all(|finding| finding.level == Level::Pass && finding.fix.is_none())
        );
    }

    type Spoil = fn(&mut Facts);

    #[test]
    fn every_trouble_is_named_with_what_to_do() {
        let cases: [(Spoil, &str, Level); 13] = [
            (|facts| facts.root = false, "user", Level::Fail),
            (
                |facts| facts.kernel = "4.19.0".to_owned(),
                "kernel",
                Level::Fail,
            ),
            (
                |facts| facts.missing_programs = vec!["runc", "nft"],
                "programs",
                Level::Fail,
            ),
            (|facts| facts.overlay = false, "overlayfs", Level::Fail),
            (
                |facts| facts.missing_namespaces = vec!["net"],
                "namespaces",
                Level::Fail,
            ),
            (
                |facts| facts.control_groups = ControlGroups::Missing,
                "control groups",
                Level::Fail,
            ),
            (|facts| facts.processors = 1, "processors", Level::Warn),
            (|facts| facts.memory = 4 << 30, "memory", Level::Warn),
            (|facts| facts.memory = 1 << 30, "memory", Level::Fail),
            (|facts| facts.disk = 9 << 30, "disk", Level::Warn),
            (|facts| facts.disk = 1 << 30, "disk", Level::Fail),
            (
                |facts| facts.collision = Some("172.16.0.0/12 dev eth1".to_owned()),
                "range",
                Level::Fail,
            ),
            (
                |facts| facts.busy_ports = vec!["port 5000 (TCP)".to_owned()],
                "ports",
                Level::Fail,
            ),
        ];
        for (spoil, aspect, level) in cases {
            let mut facts = good();
            spoil(&mut facts);
            let bad: Vec<Finding> = judge(&facts)
                .into_iter()
                .filter(|finding| finding.level > Level::Pass)
                .collect();
            assert_eq!(bad.len(), 1, "{bad:?}");
            assert_eq!((bad[0].aspect, bad[0].level), (aspect, level));
            assert!(bad[0].fix.is_some());
        }
    }

    #[test]
    fn missing_programs_are_named_by_their_packages() {
        let mut facts = good();
        facts.missing_programs = vec!["ip", "arping"];
        let finding = programs(&facts);
        assert_eq!(
            finding.fix.as_deref(),
            Some("install them: apt-get install iproute2 iputils-arping")
        );
    }
}

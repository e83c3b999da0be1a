//! Looks at the host. Reads only.

use std::{
    env, fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use butler_host::network::Egress;
use butler_provider::local::NAME_SERVER_PORT;
use ipnet::Ipv4Net;

use super::{
    Wish,
    judge::{ControlGroups, Facts, PROGRAMS},
    listeners::{Protocol, everywhere},
};
use crate::adm::installation::MIRROR_PORT;

/// As the kernel lists them below `/proc/self/ns`.
const NAMESPACES: [&str; 6] = ["cgroup", "ipc", "mnt", "net", "pid", "uts"];

/// What is so on this host. What cannot be read counts as missing.
pub(crate) async fn look(wish: Wish<'_>) -> Facts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let host = butler_host::machine::HostFacts::read().ok();
    Facts {
        root: rustix::process::geteuid().is_root(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        missing_programs: PROGRAMS
            .into_iter()
            .map(|(program, _)| program)
            .filter(|program| !found(program))
            .collect(),
        overlay: read("/proc/filesystems")
            .lines()
            .any(|line| line.ends_with("\toverlay")),
        missing_namespaces: NAMESPACES
            .into_iter()
            .filter(|kind| !Path::new("/proc/self/ns").join(kind).exists())
            .collect(),
        control_groups: control_groups(),
        processors: host.as_ref().map_or(0, |host| host.cpu_millicores / 1000),
        memory: host.as_ref().map_or(0, |host| host.memory_bytes),
        disk: free_space(wish.state),
        range: wish.range,
        collision: collision(wish.range, wish.bridge).await,
        busy_ports: busy_ports(wish.egress),
    }
}

fn found(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    // A user's path may lack where these programs are.
    let mut places: Vec<PathBuf> = env::split_paths(&path).collect();
    places.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places.iter().any(|place| place.join(program).is_file())
}

fn control_groups() -> ControlGroups {
    let mounted = Path::new("/sys/fs/cgroup");
    if mounted.join("cgroup.controllers").exists() {
        ControlGroups::Second
    } else if mounted.join("memory").exists() {
        ControlGroups::First
    } else {
        ControlGroups::Missing
    }
}

/// Free for anybody, at the nearest directory that exists.
fn free_space(state: &Path) -> u64 {
    let nearest = state.ancestors().find(|path| path.exists());
    let found = nearest.and_then(|path| rustix::fs::statvfs(path).ok());
    found.map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize))
}

/// A route of somebody else's that shares addresses with the range.
async fn collision(range: Ipv4Net, bridge: &str) -> Option<String> {
    let output = tokio::process::Command::new("ip")
        .args(["-json", "-4", "route", "show", "table", "all"])
        .output()
        .await
        .ok()?;
    let routes: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).ok()?;
    routes.iter().find_map(|route| {
        let destination = route["dst"].as_str()?;
        let device = route["dev"].as_str().unwrap_or_default();
        let shared = parse(destination)
            .is_some_and(|other| other.contains(&range) || range.contains(&other));
        (shared && device != bridge)
            .then(|| format!("used by the route {destination} dev {device}"))
    })
}

fn parse(destination: &str) -> Option<Ipv4Net> {
    destination
        .parse()
        .ok()
        .or_else(|| destination.parse::<Ipv4Addr>().ok().map(Ipv4Net::from))
}

/// Listeners on every address keep us from ours. Our own listen on the bridge alone.
fn busy_ports(egress: Egress) -> Vec<String> {
    let mut wanted = vec![(Protocol::Tcp, MIRROR_PORT)];
    if egress == Egress::Nat {
        wanted.extend([Protocol::Tcp, Protocol::Udp].map(|protocol| (protocol, NAME_SERVER_PORT)));
    }
    wanted
        .into_iter()
        .filter(|(protocol, port)| {
            protocol.tables().into_iter().any(|table| {
                // A kernel without IPv6 lacks its tables.
                let table = fs::read_to_string(table).unwrap_or_default();
                everywhere(*protocol, &table).contains(port)
            })
        })
        .map(|(protocol, port)| format!("port {port} ({protocol})"))
        .collect()
}

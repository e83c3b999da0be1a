//! One machine made by hand: a namespace on the bridge, a root file system, a bundle for runc; and how it is taken apart.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    net::Ipv4Addr,
    os::unix::fs::{OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use butler_cli::adm::recipe;
use butler_host::machine::{HostFacts, TopLevel};
use serde_json::{Value, json};

use super::CONTROL_GROUP;
use crate::local::{shell, supplies::Supplies};

/// Where containerd keeps images, below the root of a machine.
pub(super) const CONTAINERD: &str = "var/lib/containerd";
/// Where the archives of images are in a machine.
pub(super) const IMAGES: &str = "/images";
const PROGRAMS: &str = "/opt/bin";
const CNI_PLUGINS: &str = "/opt/cni/bin";
/// In the range of the machines, and nobody's.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 213, 118, 1);
const PREFIX_LENGTH: u8 = 24;

/// A control group is busy for a moment after its last process ended, and nothing tells when it no longer is.
const PAUSE: Duration = Duration::from_millis(20);
const ATTEMPTS: u32 = 250;

const DIRECTORIES: [&str; 19] = [
    "dev",
    "etc/cni/net.d",
    "etc/containerd",
    "etc/kubernetes/manifests",
    "etc/ssl",
    "images",
    "opt/bin",
    "opt/cni/bin",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr",
    "var/lib/containerd",
    "var/lib/kubelet",
    "var/log",
    "var/spool",
    "var/tmp",
];
/// What programs read of the host's `/etc`, and where it belongs.
const COPIED: [(&str, &str); 11] = [
    ("alternatives", ""),
    ("group", ""),
    ("ld.so.cache", ""),
    ("ld.so.conf", ""),
    ("ld.so.conf.d", ""),
    ("nsswitch.conf", ""),
    ("os-release", ""),
    ("passwd", ""),
    ("protocols", ""),
    ("services", ""),
    ("ssl/certs", "ssl"),
];

/// The first process: containerd, and kubelet as soon as kubeadm has written both of its files.
const INIT: &str = "#!/bin/sh
mount --make-rshared /
containerd >/var/log/containerd.log 2>&1 &
while :; do
  if [ -s /var/lib/kubelet/config.yaml ] && [ -s /var/lib/kubelet/kubeadm-flags.env ]; then
    . /var/lib/kubelet/kubeadm-flags.env
    kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf \\
      --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf $KUBELET_KUBEADM_ARGS >>/var/log/kubelet.log 2>&1
  fi
  sleep 0.1
done
";

/// Who a machine is.
pub(super) struct Machine {
    /// Also of its network namespace.
    pub(super) name: &'static str,
    /// The host's end of its pair.
    interface: &'static str,
    pub(super) address: Ipv4Addr,
    /// Addresses of its pods, known before: whoever writes the file of CNI decides.
    pub(super) pods: &'static str,
}

pub(super) const CONTROL_PLANE: Machine = Machine {
    name: "bench-hand-cp-0",
    interface: "bench-hand-0",
    address: Ipv4Addr::new(10, 213, 118, 2),
    pods: "10.244.0.0/24",
};

pub(super) const WORKER: Machine = Machine {
    name: "bench-hand-worker-0",
    interface: "bench-hand-1",
    address: Ipv4Addr::new(10, 213, 118, 3),
    pods: "10.244.1.0/24",
};

pub(super) const SECOND_WORKER: Machine = Machine {
    name: "bench-hand-worker-1",
    interface: "bench-hand-2",
    address: Ipv4Addr::new(10, 213, 118, 4),
    pods: "10.244.2.0/24",
};

impl Machine {
    /// Makes its network namespace, and joins it to the bridge.
    pub(super) async fn join_bridge(&self, bridge: &str) -> anyhow::Result<()> {
        let Self {
            name,
            interface,
            address,
            ..
        } = self;
        for line in [
            format!("ip netns add {name}"),
            format!("ip link add {interface} type veth peer name eth0 netns {name}"),
            format!("ip link set {interface} master {bridge} up"),
            format!("ip -n {name} address add {address}/{PREFIX_LENGTH} dev eth0"),
            format!("ip -n {name} link set eth0 up"),
            format!("ip -n {name} link set lo up"),
            format!("ip -n {name} route add default via {GATEWAY}"),
        ] {
            shell::run(shell::line(&line)).await?;
        }
        let forwarding = "echo 1 >/proc/sys/net/ipv4/ip_forward";
        let command = ["netns", "exec", name, "sh", "-c", forwarding];
        shell::run(shell::program("ip", command)).await.map(drop)
    }

    /// Removes its namespace with all interfaces in it.
    pub(super) fn leave_bridge(&self) -> anyhow::Result<()> {
        if Path::new("/run/netns").join(self.name).exists() {
            shell::run_now(&format!("ip netns delete {}", self.name))?;
        }
        // The kernel removes a pair some time after its namespace.
        if Path::new("/sys/class/net").join(self.interface).exists() {
            let removed = shell::run_now(&format!("ip link delete {}", self.interface));
            let is_there = Path::new("/sys/class/net").join(self.interface).exists();
            removed
                .map(drop)
                .or_else(|error| if is_there { Err(error) } else { Ok(()) })?;
        }
        Ok(())
    }
}

/// Writes the root file system and the configuration of runc.
pub(super) fn make_bundle(
    machine: &Machine,
    directory: &Path,
    supplies: &Supplies,
) -> anyhow::Result<()> {
    let facts = HostFacts::read()?;
    make_root(machine, directory, &facts, &supplies.images.sandbox)
        .with_context(|| format!("could not make the root of {}", machine.name))?;
    let configuration = configuration(machine, directory, &facts, supplies)?;
    let bytes = serde_json::to_vec(&configuration)?;
    write(&directory.join("config.json"), &bytes, 0o600)
}

fn make_root(
    machine: &Machine,
    directory: &Path,
    facts: &HostFacts,
    sandbox_image: &str,
) -> anyhow::Result<()> {
    let root = directory.join("rootfs");
    for path in DIRECTORIES {
        fs::create_dir_all(root.join(path))?;
    }
    // kubeadm and kubelet look for these, and a host may lack them.
    for path in ["upper/lib/modules", "upper/libexec/kubernetes", "work"] {
        fs::create_dir_all(directory.join("usr").join(path))?;
    }
    for (name, kind) in &facts.top_level {
        match kind {
            TopLevel::Link(target) => symlink(target, root.join(name))?,
            TopLevel::Directory => fs::create_dir(root.join(name))?,
        }
    }
    symlink("/run", root.join("var/run"))?;
    for (path, below) in COPIED {
        let source = Path::new("/etc").join(path);
        if source.exists() {
            let target = root.join("etc").join(below);
            let copied = format!("cp --archive {} {}", source.display(), target.display());
            shell::run_now(&copied)?;
        }
    }
    let Machine {
        name,
        address,
        pods,
        ..
    } = machine;
    let cni = json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": pods }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    });
    let containerd = format!(
        "version = 3\n\
         disabled_plugins = [\"io.containerd.nri.v1.nri\"]\n\
         [plugins.'io.containerd.cri.v1.images'.pinned_images]\n\
         sandbox = \"{sandbox_image}\"\n\
         [plugins.'io.containerd.cri.v1.runtime']\n\
         restrict_oom_score_adj = true\n"
    );
    for (path, text) in [
        ("etc/hostname", format!("{name}\n")),
        (
            "etc/hosts",
            format!("127.0.0.1 localhost\n{address} {name}\n"),
        ),
        ("etc/machine-id", format!("{:032x}\n", address.to_bits())),
        // CoreDNS ends without a server.
        ("etc/resolv.conf", format!("nameserver {GATEWAY}\n")),
        ("etc/containerd/config.toml", containerd),
        ("etc/cni/net.d/10-pods.conflist", cni.to_string()),
        ("init.sh", INIT.to_owned()),
    ] {
        write(&root.join(path), text.as_bytes(), 0o644)?;
    }
    Ok(())
}

fn configuration(
    machine: &Machine,
    directory: &Path,
    facts: &HostFacts,
    supplies: &Supplies,
) -> anyhow::Result<Value> {
    let capabilities = &facts.capabilities;
    Ok(json!({
        "ociVersion": "1.0.2",
        "hostname": machine.name,
        "root": { "path": directory.join("rootfs"), "readonly": false },
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "cwd": "/",
            "args": ["/bin/sh", "/init.sh"],
            "env": [
                format!("PATH={PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
                "HOME=/root",
                "KUBECONFIG=/etc/kubernetes/admin.conf",
            ],
            "noNewPrivileges": false,
            "capabilities": {
                "bounding": capabilities,
                "effective": capabilities,
                "permitted": capabilities,
            },
        },
        "mounts": mounts(directory, facts, supplies)?,
        "linux": {
            "namespaces": [
                { "type": "pid" },
                { "type": "ipc" },
                { "type": "uts" },
                { "type": "mount" },
                { "type": "cgroup" },
                { "type": "network", "path": Path::new("/run/netns").join(machine.name) },
            ],
            "cgroupsPath": format!("/{CONTROL_GROUP}/{}", machine.name),
            "rootfsPropagation": "shared",
            "devices": [{
                "path": "/dev/kmsg", "type": "c", "major": 1, "minor": 11, "fileMode": 0o644, "uid": 0, "gid": 0,
            }],
            "resources": { "devices": [{ "allow": true, "access": "rwm" }] },
        },
    }))
}

fn mounts(directory: &Path, facts: &HostFacts, supplies: &Supplies) -> anyhow::Result<Vec<Value>> {
    let mount = |destination: &str, kind: &str, options: &[&str]| json!({ "destination": destination, "type": kind, "source": kind, "options": options });
    let usr = directory.join("usr");
    let upper = format!("upperdir={}", usr.join("upper").display());
    let work = format!("workdir={}", usr.join("work").display());
    let own = ["newinstance", "ptmxmode=0666", "mode=0620"];
    let mut mounts = vec![
        mount("/proc", "proc", &[]),
        mount("/dev", "tmpfs", &["nosuid", "mode=755", "size=65536k"]),
        mount("/dev/pts", "devpts", &own),
        mount("/dev/shm", "tmpfs", &["nosuid", "nodev", "mode=1777"]),
        mount("/dev/mqueue", "mqueue", &[]),
        mount("/sys", "sysfs", &["rw"]),
        mount("/sys/fs/cgroup", "cgroup", &["rw"]),
        mount("/run", "tmpfs", &["mode=755"]),
        mount("/tmp", "tmpfs", &["mode=1777"]),
        mount("/usr", "overlay", &["lowerdir=/usr", &upper, &work]),
    ];
    let bind = |source: &Path, destination: PathBuf| json!({ "destination": destination, "type": "bind", "source": source, "options": ["rbind", "ro"] });
    for (name, kind) in &facts.top_level {
        if *kind == TopLevel::Directory {
            let path = Path::new("/").join(name);
            mounts.push(bind(&path, path.clone()));
        }
    }
    let node = supplies.programs(recipe::NODE.into_iter().chain(recipe::RUNTIME))?;
    for (files, place) in [
        (node, PROGRAMS),
        (supplies.programs(recipe::CNI)?, CNI_PLUGINS),
        (supplies.images.archives(), IMAGES),
    ] {
        mounts.extend(files.iter().map(|file| {
            bind(
                file,
                Path::new(place).join(file.file_name().unwrap_or_default()),
            )
        }));
    }
    Ok(mounts)
}

/// Writes a file with these permissions from the beginning.
pub(super) fn write(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| file.write_all(bytes));
    written.with_context(|| format!("could not write {}", path.display()))
}

/// Removes a control group with all groups in it, in every hierarchy: runc leaves those that kubelet made.
pub(super) fn remove_control_groups(group: &str) -> anyhow::Result<()> {
    let mounted = Path::new("/sys/fs/cgroup");
    let mut places = vec![mounted.join(group)];
    let hierarchies = fs::read_dir(mounted).context("could not list control groups")?;
    places.extend(hierarchies.flatten().map(|entry| entry.path().join(group)));
    for place in places {
        let mut attempt = 0;
        while let Err(error) = remove_below(&place) {
            attempt += 1;
            if attempt > ATTEMPTS {
                return Err(error).with_context(|| format!("could not remove {}", place.display()));
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

fn remove_below(group: &Path) -> io::Result<()> {
    let children = match fs::read_dir(group) {
        Ok(children) => children,
        // Files of a group without groups are among the places that are tried.
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    for child in children {
        let child = child?;
        if child.file_type()?.is_dir() {
            remove_below(&child.path())?;
        }
    }
    match fs::remove_dir(group) {
        Err(error) if is_absent(&error) => Ok(()),
        other => other,
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

//! The same without Butler: what somebody would script who knows `ip`, runc, containerd, kubeadm and Cluster API well.
//!
//! Owns: the steps and their times. It is the smaller work: Butler's own charts are not installed, manifests and
//! certificates are ready before the clock runs, and what is known beforehand (the ranges of the nodes' pods) is not asked
//! for. Must not: use what is measured on the other side, so no machine of `butler-host`.
//!
//! Nobody has the gateway's address, and the bridge has none: nothing that is sent here leaves the bridge.

mod machine;
mod tenant;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use butler_assets::Component;
use butler_cli::adm::recipe::{self, FirstMachine};
use futures::future::try_join_all;
use serde_json::json;
use tokio::process::Command;

use super::{containerd, disk, place::Place, shell, supplies::Supplies};
use crate::progress;
use machine::{CONTROL_PLANE, Machine, SECOND_WORKER, WORKER};
pub(crate) use tenant::{Images, TenantTimes};

const BRIDGE: &str = "br-bench-hand";
const CLUSTER: &str = "bench-hand";
/// Of all machines, in every hierarchy.
const CONTROL_GROUP: &str = "butler-bench-hand";
/// How many archives are imported at once, as many as Butler does.
const IMPORTS: &str = "2";
/// Names of files in a machine.
const KUBEADM_CONFIGURATION: &str = "etc/kubeadm.yaml";
const CLUSTER_API: &str = "root/cluster-api.json";
const JOIN: &str = "root/join.sh";

/// How long each step took.
pub(super) struct ClusterTimes {
    machine: Duration,
    images: Duration,
    kubeadm: Duration,
    cluster_api: Duration,
}

impl ClusterTimes {
    /// From nothing to the last Deployment.
    pub(super) fn whole(&self) -> Duration {
        self.machine + self.images + self.kubeadm + self.cluster_api
    }
}

impl fmt::Display for ClusterTimes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "by hand: machine {:.2?}, images {:.2?}, kubeadm init {:.2?}, Cluster API {:.2?}",
            self.machine, self.images, self.kubeadm, self.cluster_api
        )
    }
}

/// How long each step took, and what the machine has on the disk before it joins.
pub(super) struct WorkerTimes {
    /// From nothing to a container runtime that answers.
    pub(super) boot: Duration,
    images: Duration,
    join: Duration,
    /// Bytes.
    pub(super) disk: u64,
}

impl WorkerTimes {
    /// From nothing to a machine that has its images.
    pub(super) fn with_images(&self) -> Duration {
        self.boot + self.images
    }

    /// From nothing to a node that is Ready.
    pub(super) fn whole(&self) -> Duration {
        self.with_images() + self.join
    }
}

impl fmt::Display for WorkerTimes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "by hand: machine {:.2?}, images {:.2?}, kubeadm join → Ready {:.2?}",
            self.boot, self.images, self.join
        )
    }
}

/// A clock that tells the time since it was last asked.
struct Laps(Instant);

impl Laps {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now.duration_since(self.0);
        self.0 = now;
        lap
    }
}

/// A cluster made by hand; gone when dropped.
pub(crate) struct ByHand<'supplies> {
    directory: PathBuf,
    supplies: &'supplies Supplies,
    kubeadm_configuration: String,
    cluster_api: Vec<u8>,
}

impl<'supplies> ByHand<'supplies> {
    /// Nothing is made yet, but all texts are written.
    pub(crate) fn new(place: &Place, supplies: &'supplies Supplies) -> anyhow::Result<Self> {
        let kubeadm_configuration = recipe::kubeadm_configuration(&FirstMachine {
            cluster: CLUSTER.parse()?,
            version: supplies.kubernetes.clone(),
            name: CONTROL_PLANE.name.parse()?,
            address: CONTROL_PLANE.address,
        })?;
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": supplies.cluster_api });
        Ok(Self {
            directory: place.by_hand(),
            supplies,
            kubeadm_configuration,
            cluster_api: serde_json::to_vec(&list)?,
        })
    }

    /// Makes a management cluster, and tells how long it took.
    pub(super) async fn make_cluster(&self) -> anyhow::Result<ClusterTimes> {
        let mut laps = Laps::start();
        make_bridge().await?;
        self.start(&CONTROL_PLANE, None).await?;
        let machine = laps.lap();
        self.import(&CONTROL_PLANE).await?;
        let images = laps.lap();
        self.init().await?;
        let kubeadm = laps.lap();
        self.give(&CONTROL_PLANE, CLUSTER_API, &self.cluster_api)?;
        for command in [
            format!("kubectl apply --server-side -f /{CLUSTER_API}"),
            "kubectl wait deployments --all --all-namespaces --for=condition=Available --timeout=10m"
                .to_owned(),
        ] {
            self.run_in(&CONTROL_PLANE, &command).await?;
        }
        Ok(ClusterTimes {
            machine,
            images,
            kubeadm,
            cluster_api: laps.lap(),
        })
    }

    /// Adds a worker to the cluster, and tells how long it took.
    pub(super) async fn add_worker(&self) -> anyhow::Result<WorkerTimes> {
        let mut laps = Laps::start();
        self.start(&WORKER, None).await?;
        let boot = laps.lap();
        self.import(&WORKER).await?;
        let images = laps.lap();
        let disk = disk::own_bytes(&self.machine_directory(&WORKER)).await?;

        let mut laps = Laps::start();
        self.join(&[&WORKER]).await?;
        Ok(WorkerTimes {
            boot,
            images,
            join: laps.lap(),
            disk,
        })
    }

    /// Makes the machine of the control plane one.
    async fn init(&self) -> anyhow::Result<()> {
        self.give(
            &CONTROL_PLANE,
            KUBEADM_CONFIGURATION,
            self.kubeadm_configuration.as_bytes(),
        )?;
        let init = format!("kubeadm init --skip-token-print --config /{KUBEADM_CONFIGURATION}");
        self.run_in(&CONTROL_PLANE, &init).await.map(drop)
    }

    /// Makes all of these machines nodes at once, and waits until they are Ready.
    async fn join(&self, workers: &[&Machine]) -> anyhow::Result<()> {
        let created = "kubeadm token create --print-join-command";
        let command = self.run_in(&CONTROL_PLANE, created).await?;
        let joining = workers
            .iter()
            .map(|worker| self.join_one(worker, command.trim()));
        try_join_all(joining).await?;
        let mut members = vec![&CONTROL_PLANE];
        members.extend(workers);
        for machine in &members {
            for peer in members.iter().filter(|peer| peer.name != machine.name) {
                let route = format!(
                    "ip -n {} route add {} via {}",
                    machine.name, peer.pods, peer.address
                );
                shell::run(shell::line(&route)).await?;
            }
        }
        let nodes: Vec<String> = workers
            .iter()
            .map(|worker| format!("node/{}", worker.name))
            .collect();
        let ready = format!(
            "kubectl wait {} --for=condition=Ready --timeout=10m",
            nodes.join(" ")
        );
        self.run_in(&CONTROL_PLANE, &ready).await.map(drop)
    }

    async fn join_one(&self, worker: &Machine, command: &str) -> anyhow::Result<()> {
        let join = format!(
            "{command} --node-name {} --ignore-preflight-errors SystemVerification\n",
            worker.name
        );
        // A file, so that nobody sees the token among the processes or in an error.
        self.give(worker, JOIN, join.as_bytes())?;
        self.run_in(worker, &format!("sh /{JOIN}")).await.map(drop)
    }

    /// Removes all of it.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        clean(&self.directory)
    }

    /// From nothing to a container runtime that answers, with images in it if some are given.
    async fn start(&self, machine: &Machine, images: Option<&Images>) -> anyhow::Result<()> {
        machine.join_bridge(BRIDGE).await?;
        let directory = self.machine_directory(machine);
        machine::make_bundle(machine, &directory, self.supplies)?;
        if let Some(images) = images {
            images.give(&directory.join("rootfs")).await?;
        }
        let log_path = directory.join("console.log");
        let log = fs::File::create(&log_path).context("could not write the console")?;
        let pid_file = directory.join("pid");
        let mut command = self.runc();
        command
            .args(["run", "--detach", "--bundle"])
            .arg(&directory)
            .arg("--pid-file")
            .arg(&pid_file)
            .arg(machine.name)
            .stdout(log.try_clone()?)
            .stderr(log);
        // What it starts keeps its output: waiting for the end of that would be waiting for the machine's.
        let status = command.status().await.context("could not run runc")?;
        anyhow::ensure!(
            status.success(),
            "runc run ended with {status}: {}",
            fs::read_to_string(&log_path).unwrap_or_default().trim()
        );
        let pid = fs::read_to_string(&pid_file)?.trim().parse()?;
        containerd::answers(self.supplies.program(Component::Ctr)?, pid).await
    }

    async fn import(&self, machine: &Machine) -> anyhow::Result<()> {
        let importing = format!(
            "ls {images}/* | xargs -n 1 -P {IMPORTS} ctr --namespace k8s.io images import",
            images = machine::IMAGES
        );
        let mut command = self.exec(machine);
        command.args(["sh", "-c", &importing]);
        shell::run(command).await.map(drop)
    }

    /// Writes a file into a machine; it may hold secrets.
    fn give(&self, machine: &Machine, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.machine_directory(machine).join("rootfs").join(path);
        machine::write(&path, bytes, 0o600)
    }

    async fn run_in(&self, machine: &Machine, words: &str) -> anyhow::Result<String> {
        let mut command = self.exec(machine);
        command.args(words.split_whitespace());
        shell::run(command).await
    }

    fn exec(&self, machine: &Machine) -> Command {
        let mut command = self.runc();
        command.args(["exec", machine.name]);
        command
    }

    fn runc(&self) -> Command {
        let mut command = shell::program("runc", ["--root"]);
        command.arg(runc_root(&self.directory));
        command
    }

    fn machine_directory(&self, machine: &Machine) -> PathBuf {
        self.directory.join(machine.name)
    }
}

impl Drop for ByHand<'_> {
    fn drop(&mut self) {
        if let Err(error) = clean(&self.directory) {
            progress(&format!(
                "what was made by hand is not all removed: {error:#}"
            ));
        }
    }
}

async fn make_bridge() -> anyhow::Result<()> {
    for line in [
        format!("ip link add {BRIDGE} type bridge"),
        format!("ip link set {BRIDGE} up"),
    ] {
        shell::run(shell::line(&line)).await?;
    }
    Ok(())
}

/// Removes what an earlier run has left.
pub(super) fn remove_leftovers(place: &Place) -> anyhow::Result<()> {
    clean(&place.by_hand())
}

fn runc_root(directory: &Path) -> PathBuf {
    directory.join("runc")
}

/// Removes all of it, as much as there is.
fn clean(directory: &Path) -> anyhow::Result<()> {
    let runc_root = runc_root(directory);
    for machine in [CONTROL_PLANE, WORKER, SECOND_WORKER] {
        if runc_root.join(machine.name).exists() {
            shell::run_now(&format!(
                "runc --root {} delete --force {}",
                runc_root.display(),
                machine.name
            ))?;
        }
        machine.leave_bridge()?;
    }
    if Path::new("/sys/class/net").join(BRIDGE).exists() {
        shell::run_now(&format!("ip link delete {BRIDGE}"))?;
    }
    machine::remove_control_groups(CONTROL_GROUP)?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("could not remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

//! The host's side of a management cluster: the network, the first machine, and its API server.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use butler_api::{butler::provider_config::Provider, name::MachineName, provider_id};
use butler_host::{
    cloud_config::MetaData,
    host::{Host, MachineState, Seed},
    images::{Library, Mirror, MirrorError},
    init::UserDataStage,
    machine::{DiskContents, MachineSpec},
};
use butler_runtime::task;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Run,
    prepare::{self, Images, Parts},
};
use crate::{
    adm::{
        error::Error,
        installation::{MIRROR_PORT, give_to_caller, write_private},
        kubeadm::{self, ClusterPlan, NodePlan},
    },
    output::progress::{Outcome, Running},
};

/// The administrator's kubeconfig, as kubeadm writes it.
const ADMIN: &str = "/etc/kubernetes/admin.conf";
/// How often a machine that has no API server yet is asked again; nothing could tell us.
const GLANCE: Duration = Duration::from_millis(200);
/// How many lines of a console an error repeats.
const CONSOLE_LINES: usize = 25;

/// Makes the bridge and what guards it.
pub(super) async fn network(run: &Run, host: &Host) -> anyhow::Result<Outcome> {
    let step = run
        .progress
        .begin(format!("Network {}", run.installation.range));
    host.up().await?;
    step.end(Outcome::Done);
    Ok(Outcome::Unchanged)
}

/// The mirror while nobody else serves it.
pub(super) struct Serving {
    stop: DropGuard,
    served: JoinHandle<Result<(), MirrorError>>,
}

impl Serving {
    /// Ends it, so that the host process can listen there.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        drop(self.stop);
        self.served.await??;
        Ok(())
    }
}

/// Serves images to the first machine until the host process does.
pub(super) async fn mirror(run: &Run) -> anyhow::Result<Option<Serving>> {
    if super::host_process_runs(&run.installation, &run.places).await? {
        return Ok(None);
    }
    let address = SocketAddr::from((run.installation.host_address(), MIRROR_PORT));
    let library = Arc::new(Library::open(run.places.images())?);
    let mirror = Mirror::bind(address, library).await?;
    let stop = CancellationToken::new();
    let served = task::spawn("mirror", mirror.serve(stop.clone()));
    Ok(Some(Serving {
        stop: stop.drop_guard(),
        served,
    }))
}

/// Makes and starts the first machine, and all others that were running before.
pub(super) async fn first(
    run: &Run,
    host: &Host,
    parts: &Parts,
    images: &Images,
    store: &Path,
) -> anyhow::Result<Outcome> {
    let name = run.installation.first_machine()?;
    let step = run.progress.begin(format!("Machine {name}"));
    let found = host.get(&name).await?;
    if let Some(found) = &found {
        let runs = matches!(found.state, MachineState::Running { .. });
        let stage = host.user_data_stage(&name).await?;
        if runs && stage != Some(UserDataStage::Failed) {
            step.end(Outcome::Unchanged);
            return Ok(Outcome::Unchanged);
        }
        if stage == Some(UserDataStage::Succeeded) {
            // As after the host was started anew; what it was made of then is what it is made of.
            host.start(&name).await?;
            return others(host, step).await;
        }
        // It failed, or was interrupted before there was a cluster: nothing is lost with it.
        host.delete(&name).await?;
    }
    let installation = &run.installation;
    let mut spec = MachineSpec {
        name: name.clone(),
        id: installation.first_machine_id.clone(),
        hostname: name.to_string(),
        cpu_millicores: u64::from(installation.cpus) * 1000,
        memory_bytes: u64::from(installation.memory_mib) << 20,
        address: installation.on_bridge(installation.first_address())?,
        gateway: Some(installation.host_address()),
        init: Vec::new(),
        binds: Vec::new(),
        disk: DiskContents::default(),
    };
    prepare::node_profile(run, parts, images, store).apply(&mut spec);
    host.create(spec).await?;
    let node = NodePlan {
        name: name.clone(),
        address: Some(installation.first_address()),
        provider_id: provider_id::of_instance(
            Provider::Local,
            installation.first_machine_id.as_str(),
        ),
    };
    let cluster = ClusterPlan {
        name: installation.name.clone(),
        version: installation.kubernetes_version.clone(),
        pods: crate::adm::installation::PODS.parse()?,
        services: crate::adm::installation::SERVICES.parse()?,
    };
    let seed = Seed {
        user_data: kubeadm::first_machine(&cluster, &node)?,
        meta_data: MetaData::new(installation.first_machine_id.as_str(), name.as_str()),
    };
    host.deliver(&name, &seed).await?;
    host.start(&name).await?;
    others(host, step).await
}

/// Starts all other machines that were running before.
async fn others(host: &Host, step: Running) -> anyhow::Result<Outcome> {
    for (other, error) in host.recover().await? {
        step.detail(&format!("{other} could not be started: {error}"));
    }
    step.end(Outcome::Done);
    Ok(Outcome::Done)
}

/// Waits for the API server, writes the kubeconfig, and gives a client.
pub(super) async fn api(run: &Run, host: &Host) -> anyhow::Result<Client> {
    let name = run.installation.first_machine()?;
    let step = run.progress.begin(format!(
        "Kubernetes {}",
        run.installation.kubernetes_version
    ));
    let kubeconfig = loop {
        if let Some(kubeconfig) = administrator(run, host, &name, &step).await? {
            break kubeconfig;
        }
        if run.patience().is_zero() {
            return Err(Error::Patience {
                waited_for: "the API server".to_owned(),
                patience: run.whole,
                advice: format!("\"butleradm machine logs {name}\" tells what the machine does"),
            }
            .into());
        }
        tokio::time::sleep(GLANCE).await;
    };
    let text = serde_saphyr::to_string(&kubeconfig)?;
    write_private(run.places.kubeconfig(), text.as_bytes())?;
    give_to_caller(run.places.kubeconfig())?;
    let client = client(kubeconfig).await?;
    step.detail("waiting for the API server");
    while client
        .request_text(http::Request::get("/readyz").body(Vec::new())?)
        .await
        .is_err()
    {
        user_data_is_fine(host, &name).await?;
        tokio::time::sleep(GLANCE).await;
    }
    user_data_ends(run, host, &name).await?;
    step.end(Outcome::Done);
    Ok(client)
}

/// A client with the administrator's rights.
pub(crate) async fn client(kubeconfig: Kubeconfig) -> anyhow::Result<Client> {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("could not use the administrator's kubeconfig")?;
    config.connect_timeout = Some(Duration::from_secs(5));
    Ok(Client::try_from(config)?)
}

/// The administrator's kubeconfig, under the installation's name, once kubeadm has written it.
async fn administrator(
    run: &Run,
    host: &Host,
    name: &MachineName,
    step: &Running,
) -> anyhow::Result<Option<Kubeconfig>> {
    user_data_is_fine(host, name).await?;
    let printed = host.exec(name, &["cat", ADMIN]).await?;
    if !printed.success() {
        step.detail("waiting for kubeadm");
        return Ok(None);
    }
    // kubeadm may be in the middle of writing it.
    let Ok(mut kubeconfig) = Kubeconfig::from_yaml(&String::from_utf8_lossy(&printed.stdout))
    else {
        return Ok(None);
    };
    let called = run.installation.name.as_str();
    for cluster in &mut kubeconfig.clusters {
        called.clone_into(&mut cluster.name);
    }
    for user in &mut kubeconfig.auth_infos {
        user.name = format!("{called}-admin");
    }
    for context in &mut kubeconfig.contexts {
        called.clone_into(&mut context.name);
        if let Some(context) = &mut context.context {
            called.clone_into(&mut context.cluster);
            context.user = Some(format!("{called}-admin"));
        }
    }
    kubeconfig.current_context = Some(called.to_owned());
    Ok(Some(kubeconfig))
}

/// Complains if the machine could not do what it was told.
async fn user_data_is_fine(host: &Host, name: &MachineName) -> anyhow::Result<bool> {
    match host.user_data_stage(name).await? {
        Some(UserDataStage::Failed) => Err(Error::UserData {
            machine: name.clone(),
            console: host.logs(name, Some(CONSOLE_LINES)).await?,
        }
        .into()),
        state => Ok(state == Some(UserDataStage::Succeeded)),
    }
}

async fn user_data_ends(run: &Run, host: &Host, name: &MachineName) -> anyhow::Result<()> {
    while !user_data_is_fine(host, name).await? && !run.patience().is_zero() {
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}

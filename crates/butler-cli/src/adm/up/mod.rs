//! `butleradm up`: this host becomes a management cluster.
//!
//! Owns: the order of the steps. Each step looks at what is there and does what is missing, so that a run that was interrupted
//! anywhere is completed by the next, and a run with nothing to do says so.

mod charts;
mod cluster;
mod data_store;
mod machine;
mod platform;
mod prepare;
mod process;
mod settings;
mod workers;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use butler_assets::{Resolver, Settings as AssetSettings};
use butler_host::host::Host;

pub(crate) use cluster::{is_of_the_platform, node_is_ready, pod_is_fine};
pub(crate) use data_store::store_is_ready;
pub(crate) use machine::client;
pub(crate) use platform::NAMESPACE;
pub use prepare::{CNI, NODE, RUNTIME};
pub(crate) use settings::{Arguments, EgressChoice};

use super::{
    Global,
    doctor::{self, Level},
    error::Error,
    host_process,
    installation::{Installation, Places},
};
use crate::output::progress::{Outcome, Progress, seconds};

/// What every step may use.
pub(crate) struct Run {
    installation: Installation,
    places: Places,
    resolver: Resolver,
    progress: Progress,
    butler: std::path::PathBuf,
    charts: std::path::PathBuf,
    deadline: Instant,
    whole: Duration,
}

impl Run {
    /// What is left of the time that the whole may take.
    fn patience(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Makes the management cluster, or what is missing of it. Gives what to tell at the end.
pub(crate) async fn up(arguments: &Arguments, global: &Global) -> anyhow::Result<String> {
    let began = Instant::now();
    let name = global.installation();
    let places = global.places()?;
    let lock = if arguments.dry_run {
        None
    } else {
        super::as_root()?;
        Some(places.lock()?)
    };
    let recorded = places.read()?;
    let installation = settings::wished(arguments, &name, recorded.as_ref())?;
    if arguments.dry_run {
        return Ok(settings::describe(
            &installation,
            &places,
            recorded.is_some(),
        ));
    }
    let run = Run {
        butler: arguments.butler()?,
        charts: arguments.charts()?,
        installation,
        places,
        resolver: Resolver::new(AssetSettings::from_env()?),
        progress: Progress::on_stderr(global.verbose),
        deadline: began.checked_add(arguments.timeout).unwrap_or(began),
        whole: arguments.timeout,
    };
    let whole = Box::pin(steps(&run, recorded.is_some()));
    let outcome = tokio::time::timeout(arguments.timeout, whole)
        .await
        .unwrap_or_else(|_| {
            Err(Error::Patience {
                waited_for: "the management cluster".to_owned(),
                patience: arguments.timeout,
                advice: "run it again, it goes on where it was; --timeout gives it longer"
                    .to_owned(),
            }
            .into())
        })?;
    drop(lock);
    Ok(farewell(&run, &global.flags(), outcome, began.elapsed()))
}

async fn steps(run: &Run, known: bool) -> anyhow::Result<Outcome> {
    let Run {
        installation,
        places,
        progress,
        ..
    } = run;
    if !known {
        let step = progress.begin("Looking at this host");
        let bridge = super::installation::bridge(&installation.name)?;
        let wish = doctor::Wish {
            range: installation.range,
            state: places.root(),
            bridge: bridge.as_str(),
            egress: installation.egress,
        };
        let findings = doctor::examine(wish).await;
        if findings.iter().any(|finding| finding.level == Level::Fail) {
            return Err(Error::Unfit {
                report: doctor::report(&findings),
            }
            .into());
        }
        step.end(Outcome::Done);
    }
    let parts = prepare::assets(run).await?;
    let images = prepare::images(run).await?;
    let host = Host::open(installation.host_config(places)?).context("could not open this host")?;
    places.write(installation)?;
    prepare::keep_binary(run)?;
    let mut changed = Vec::new();
    changed.push(machine::network(run, &host).await?);
    let store = prepare::image_store(run, &parts, &images).await?;
    let mirror = machine::mirror(run).await?;
    changed.push(machine::first(run, &host, &parts, &images, &store).await?);
    let client = machine::api(run, &host).await?;
    // None of these needs another: pods of the latter two start as soon as the first has made their network.
    let (network, cluster_api, charts) = tokio::try_join!(
        Box::pin(cluster::pod_network(run, &host, &client)),
        Box::pin(cluster::cluster_api(run, &client)),
        Box::pin(charts::charts(run, &client, &parts, &images)),
    )?;
    changed.extend([network, cluster_api, charts]);
    if let Some(mirror) = mirror {
        mirror.end().await?;
    }
    let node = prepare::node_profile(run, &parts, &images, &store);
    let machines = async {
        let process = process::host_process(run, &client, &images.build, node).await?;
        let objects = workers::objects(run, &client).await?;
        let workers = workers::workers(run, &host, &client).await?;
        anyhow::Ok([process, objects, workers])
    };
    let (machines, store) = tokio::try_join!(
        Box::pin(machines),
        Box::pin(data_store::data_store(run, &client, &parts, &images)),
    )?;
    changed.extend(machines);
    changed.push(store);
    Box::pin(cluster::ready(run, &host, &client)).await?;
    let anything = changed.contains(&Outcome::Done);
    Ok(if anything {
        Outcome::Done
    } else {
        Outcome::Unchanged
    })
}

/// What to do next.
fn farewell(run: &Run, flags: &str, outcome: Outcome, elapsed: Duration) -> String {
    let name = &run.installation.name;
    let kubeconfig = run.places.kubeconfig().display();
    let first = match outcome {
        Outcome::Done => format!("{name} is up after {}.", seconds(elapsed)),
        Outcome::Unchanged => format!("{name} is already up."),
    };
    format!(
        "{first}\n\n  \
         export KUBECONFIG={kubeconfig}\n  \
         kubectl get nodes\n  \
         butleradm{flags} status\n  \
         butleradm{flags} machine list\n\n\
         Machines are made by MachineRequest objects; \"butleradm{flags} down\" removes everything.\n"
    )
}

/// Whether the host process runs as wished.
pub(crate) async fn host_process_runs(
    installation: &Installation,
    places: &Places,
) -> Result<bool, Error> {
    Ok(host_process::state(installation, places, None).await? == host_process::Kept::Running)
}

//! The objects that machines are made by, and the workers of the management cluster.

mod plan;
mod ticket;

use butler_api::{
    butler::machine_request::{MachinePhase, MachineRequest},
    name::MachineName,
};
use butler_host::{host::Host, init::UserDataStage};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams},
    runtime::wait::await_condition,
};

use self::plan::Found;
use super::{
    Run,
    cluster::webhooks_answer,
    platform::{self, NAMESPACE},
};
use crate::{
    adm::{
        apply::{apply, missing, within},
        error::Error,
        versions,
    },
    output::progress::Outcome,
};

/// Applies what Butler needs to know of this host, and the first machine.
pub(super) async fn objects(run: &Run, client: &Client) -> anyhow::Result<Outcome> {
    let step = run.progress.begin("Provider, addresses, settings");
    let first = run.installation.first_machine()?;
    let requests = Api::<MachineRequest>::namespaced(client.clone(), NAMESPACE);
    let known = requests
        .get_opt(first.as_str())
        .await
        .map_err(Error::api("read the first machine's request"))?
        .is_some();
    let mut objects = platform::objects(&run.installation);
    objects.push(platform::first_machine(&run.installation, &first));
    // What is there may have been changed by whoever runs the platform.
    let missing = missing(client, &objects).await?;
    webhooks_answer(run, client, &missing, &step).await?;
    apply(client, &missing).await?;
    versions::tell(client, &run.places, &run.installation.kubernetes_version).await?;
    running(run, &requests, &first).await?;
    let outcome = if known {
        Outcome::Unchanged
    } else {
        Outcome::Done
    };
    step.end(outcome);
    Ok(outcome)
}

/// Waits until a machine runs, or says why it never will.
async fn running(
    run: &Run,
    requests: &Api<MachineRequest>,
    name: &MachineName,
) -> anyhow::Result<()> {
    let phase = |request: Option<&MachineRequest>| {
        request.and_then(|request| request.status.as_ref()?.phase)
    };
    let decided = await_condition(
        requests.clone(),
        name.as_str(),
        move |request: Option<&MachineRequest>| {
            matches!(
                phase(request),
                Some(MachinePhase::Running | MachinePhase::Failed)
            )
        },
    );
    let advice =
        format!("kubectl --namespace {NAMESPACE} describe machinerequest {name} tells why");
    within(run.patience(), &format!("machine {name}"), &advice, decided).await?;
    let request = requests
        .get(name.as_str())
        .await
        .map_err(Error::api(format!("read machine {name}")))?;
    let status = request.status.unwrap_or_default();
    if status.phase == Some(MachinePhase::Failed) {
        let message = status.failure_message.unwrap_or_default();
        anyhow::bail!("machine {name} could not be made: {message}");
    }
    Ok(())
}

/// Makes workers that are missing or failed, and removes those that are too many.
pub(super) async fn workers(run: &Run, host: &Host, client: &Client) -> anyhow::Result<Outcome> {
    let requests = Api::<MachineRequest>::namespaced(client.clone(), NAMESPACE);
    let found = found(run, host, client, &requests).await?;
    let wished = (0..run.installation.workers)
        .map(|number| run.installation.worker(number).map(|name| name.to_string()))
        .collect::<Result<Vec<_>, _>>()?;
    if wished.is_empty() && found.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    let step = run.progress.begin(format!("Workers: {}", wished.len()));
    let plan = plan::plan(&wished, &found);
    for name in &plan.remove {
        step.detail(&format!("removing {name}"));
        remove(run, client, &requests, name).await?;
    }
    if !(plan.make.is_empty() && plan.tell.is_empty()) {
        let ticket = ticket::ticket(run, client).await?;
        for name in plan.make.iter().chain(&plan.tell) {
            ticket::tell(client, &name.parse()?, &ticket).await?;
        }
    }
    for name in &plan.make {
        let request = platform::worker(&run.installation, &name.parse()?);
        apply(client, &[request]).await?;
    }
    for name in &wished {
        step.detail(name);
        running(run, &requests, &name.parse()?).await?;
    }
    let outcome = if plan.is_empty() {
        Outcome::Unchanged
    } else {
        Outcome::Done
    };
    step.end(outcome);
    Ok(outcome)
}

/// The workers that somebody asked for, and how far they are.
async fn found(
    run: &Run,
    host: &Host,
    client: &Client,
    requests: &Api<MachineRequest>,
) -> anyhow::Result<Vec<Found>> {
    let labels = format!(
        "{}={}",
        butler_api::keys::labels::CLUSTER,
        run.installation.name
    );
    let listed = requests
        .list(&ListParams::default().labels(&labels))
        .await
        .map_err(Error::api("list the machines of the management cluster"))?;
    let nodes = Api::<Node>::all(client.clone())
        .list_metadata(&ListParams::default())
        .await
        .map_err(Error::api("list the nodes of the management cluster"))?;
    let prefix = format!("{}-worker-", run.installation.name);
    let mut found = Vec::new();
    for name in listed.items.iter().map(ResourceExt::name_any) {
        if name.starts_with(&prefix) {
            found.push(Found {
                has_node: nodes.items.iter().any(|node| node.name_any() == name),
                stage: stage(host, &name.parse()?).await?,
                name,
            });
        }
    }
    Ok(found)
}

/// How far a machine is with what it was told; nothing also if there is no machine yet.
async fn stage(host: &Host, name: &MachineName) -> anyhow::Result<Option<UserDataStage>> {
    match host.user_data_stage(name).await {
        Err(butler_host::host::Error::NotFound { .. }) => Ok(None),
        other => Ok(other?),
    }
}

/// Removes a worker: its machine first, then its node.
async fn remove(
    run: &Run,
    client: &Client,
    requests: &Api<MachineRequest>,
    name: &str,
) -> anyhow::Result<()> {
    let parameters = DeleteParams::default();
    requests
        .delete(name, &parameters)
        .await
        .map_err(Error::api(format!("delete machine {name}")))?;
    let gone = await_condition(
        requests.clone(),
        name,
        |request: Option<&MachineRequest>| request.is_none(),
    );
    within(
        run.patience(),
        &format!("the end of machine {name}"),
        "look at the log of the host process",
        gone,
    )
    .await?;
    let nodes = Api::<Node>::all(client.clone());
    match nodes.delete(name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api(format!("delete node {name}"))(error).into()),
    }
}

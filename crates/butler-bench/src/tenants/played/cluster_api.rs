//! Cluster API with its kubeadm bootstrap provider, whose nodes are ready as soon as their machines run.

use butler_api::{
    cluster_api::{
        butler_cluster::ButlerCluster,
        butler_machine::{ButlerMachine, ButlerMachineTemplate},
        cluster::Cluster,
        machine::Machine,
        machine_group::{MachineDeployment, MachineSet},
        steward_control_plane::StewardControlPlane,
    },
    keys::{labels, secret_keys, values},
};
use butler_runtime::object::Kind;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{Stage, condition, is_true, name_of, namespace_of, owner, says, text};

/// What a Cluster says when its infrastructure is there, and when its control plane is.
const INFRASTRUCTURE: &str = "/status/initialization/infrastructureProvisioned";
const CONTROL_PLANE: &str = "/status/initialization/controlPlaneInitialized";

/// Plays on.
pub(super) async fn play(stage: &Stage) -> anyhow::Result<()> {
    tokio::try_join!(
        Box::pin(stage.attend(Kind::of::<Cluster>(), |seen| keep(stage, seen))),
        Box::pin(stage.attend(Kind::of::<ButlerCluster>(), |seen| take_up(stage, seen))),
        Box::pin(stage.attend(Kind::of::<StewardControlPlane>(), |seen| {
            initialize(stage, seen)
        })),
        Box::pin(stage.attend(Kind::of::<MachineDeployment>(), |seen| make(stage, seen))),
        Box::pin(stage.attend(Kind::of::<ButlerMachine>(), |seen| join(stage, seen))),
        // One by one: what is counted first must be written first.
        Box::pin(stage.attend_to(1, Kind::of::<Machine>(), |seen| follow(stage, seen))),
    )?;
    Ok(())
}

/// Takes possession of what a Cluster names, and lets its machines boot when all of it is there.
async fn keep(stage: &Stage, cluster: Value) -> anyhow::Result<()> {
    let (kind, namespace) = (Kind::of::<Cluster>(), namespace_of(&cluster));
    if stage.first(&cluster, "kept") {
        let name = name_of(&cluster);
        let possessed = json!({ "metadata": {
            "labels": { labels::CLUSTER_API_CLUSTER: name },
            "ownerReferences": [owner(&kind, &cluster)],
        } });
        let (infrastructure, control_plane) = (
            Kind::of::<ButlerCluster>(),
            Kind::of::<StewardControlPlane>(),
        );
        stage
            .patch(&infrastructure, namespace, name, possessed.clone())
            .await?;
        stage
            .patch(&control_plane, namespace, name, possessed)
            .await?;
    }
    if is_there(&cluster) && stage.first(&cluster, "machines boot") {
        let machines = stage.api(&Kind::of::<Machine>(), namespace);
        for machine in machines.list(&ListParams::default()).await?.items {
            give_data(stage, &serde_json::to_value(machine)?).await?;
        }
    }
    Ok(())
}

/// Whether machines of a Cluster can join.
fn is_there(cluster: &Value) -> bool {
    is_true(cluster, INFRASTRUCTURE) && is_true(cluster, CONTROL_PLANE)
}

/// Passes on what the infrastructure says.
async fn take_up(stage: &Stage, infrastructure: Value) -> anyhow::Result<()> {
    let is_provisioned = is_true(&infrastructure, "/status/initialization/provisioned");
    if !is_provisioned || !stage.first(&infrastructure, "taken up") {
        return Ok(());
    }
    let kind = Kind::of::<Cluster>();
    let (namespace, name) = (namespace_of(&infrastructure), name_of(&infrastructure));
    let endpoint = &infrastructure["spec"]["controlPlaneEndpoint"];
    let endpoint = json!({ "spec": { "controlPlaneEndpoint": endpoint } });
    stage.patch(&kind, namespace, name, endpoint).await?;
    let status = json!({
        "initialization": { "infrastructureProvisioned": true },
        "conditions": [condition("InfrastructureReady", true, "Ready", "")],
    });
    stage.tell(&kind, namespace, name, status).await
}

/// Passes on what the control plane says.
async fn initialize(stage: &Stage, control_plane: Value) -> anyhow::Result<()> {
    if !is_true(&control_plane, CONTROL_PLANE) || !stage.first(&control_plane, "initialized") {
        return Ok(());
    }
    let (namespace, name) = (namespace_of(&control_plane), name_of(&control_plane));
    let status = json!({ "initialization": { "controlPlaneInitialized": true } });
    let kind = Kind::of::<Cluster>();
    stage.tell(&kind, namespace, name, status).await
}

/// Makes the machines of a pool.
async fn make(stage: &Stage, deployment: Value) -> anyhow::Result<()> {
    if !stage.first(&deployment, "made") {
        return Ok(());
    }
    let kind = Kind::of::<MachineDeployment>();
    let sets = Kind::of::<MachineSet>();
    let (namespace, name) = (namespace_of(&deployment), name_of(&deployment));
    let spec = &deployment["spec"];
    let set = json!({
        "metadata": {
            "name": format!("{name}-1"),
            "labels": spec["template"]["metadata"]["labels"],
            "ownerReferences": [owner(&kind, &deployment)],
        },
        "spec": {
            "clusterName": spec["clusterName"], "replicas": spec["replicas"],
            "selector": spec["selector"], "template": spec["template"],
        },
    });
    stage.create(&sets, namespace, set).await?;
    let set = stage.get(&sets, namespace, &format!("{name}-1")).await?;
    let count = spec["replicas"].as_u64().unwrap_or_default();
    let count = usize::try_from(count)?;
    // Before there is any, so that nothing is written later than what counts more.
    tell_counts(stage, &deployment, count, 0).await?;
    for number in 0..count {
        machine(stage, &set, &format!("{name}-1-{number}")).await?;
    }
    Ok(())
}

async fn machine(stage: &Stage, set: &Value, name: &str) -> anyhow::Result<()> {
    let (kind, namespace) = (Kind::of::<Machine>(), namespace_of(set));
    let template = &set["spec"]["template"];
    let reference = &template["spec"]["infrastructureRef"];
    let shape = Kind::of::<ButlerMachineTemplate>();
    let shape = stage.get(&shape, namespace, text(reference, "/name"));
    let shape = shape.await?["spec"]["template"]["spec"].take();
    let mut found = template["metadata"]["labels"].clone();
    found[labels::CLUSTER_API_MACHINE_SET] = name_of(set).into();
    let mut spec = template["spec"].clone();
    for pointer in ["/infrastructureRef", "/bootstrap/configRef"] {
        // What is made from a template has its kind without that word.
        if let Some(reference) = spec.pointer_mut(pointer) {
            let kind = text(reference, "/kind").trim_end_matches("Template");
            let kind = kind.to_owned();
            reference["kind"] = kind.into();
            reference["name"] = name.into();
        }
    }
    let body = json!({
        "metadata": {
            "name": name, "labels": found,
            "ownerReferences": [owner(&Kind::of::<MachineSet>(), set)],
        },
        "spec": spec,
    });
    stage.create(&kind, namespace, body).await?;
    let machine = stage.get(&kind, namespace, name).await?;
    let body = json!({
        "metadata": {
            "name": name, "labels": found, "ownerReferences": [owner(&kind, &machine)],
        },
        "spec": shape,
    });
    let infrastructure = Kind::of::<ButlerMachine>();
    stage.create(&infrastructure, namespace, body).await
}

/// Passes on what the infrastructure of a machine says; its node is ready a moment later.
async fn join(stage: &Stage, infrastructure: Value) -> anyhow::Result<()> {
    let is_provisioned = is_true(&infrastructure, "/status/initialization/provisioned");
    if !is_provisioned || !stage.first(&infrastructure, "joined") {
        return Ok(());
    }
    let kind = Kind::of::<Machine>();
    let (namespace, name) = (namespace_of(&infrastructure), name_of(&infrastructure));
    let identity = json!({ "spec": { "providerID": infrastructure["spec"]["providerID"] } });
    stage.patch(&kind, namespace, name, identity).await?;
    let mut conditions = vec![
        condition("InfrastructureReady", true, "Ready", ""),
        condition("BootstrapConfigReady", true, "Ready", ""),
    ];
    let provisioned = json!({
        "initialization": { "infrastructureProvisioned": true, "bootstrapDataSecretCreated": true },
        "addresses": infrastructure["status"]["addresses"],
        "conditions": conditions,
    });
    stage.tell(&kind, namespace, name, provisioned).await?;
    conditions.extend([
        condition("NodeReady", true, "NodeReady", ""),
        condition("Ready", true, "Ready", ""),
    ]);
    let ready = json!({ "nodeRef": { "name": name }, "conditions": conditions });
    stage.tell(&kind, namespace, name, ready).await
}

/// Gives a machine what to boot with once it can join, and counts it when it has.
async fn follow(stage: &Stage, machine: Value) -> anyhow::Result<()> {
    let namespace = namespace_of(&machine);
    if text(&machine, "/spec/bootstrap/dataSecretName").is_empty() {
        let of = text(&machine, "/spec/clusterName");
        let cluster = stage.get(&Kind::of::<Cluster>(), namespace, of).await?;
        if is_there(&cluster) {
            give_data(stage, &machine).await?;
        }
    }
    if says(&machine, "Ready") && stage.first(&machine, "counted") {
        let found = &machine["metadata"]["labels"];
        let pool = found[labels::CLUSTER_API_MACHINE_DEPLOYMENT].as_str();
        let kind = Kind::of::<MachineDeployment>();
        let pool = stage.get(&kind, namespace, pool.unwrap_or_default());
        count_machines(stage, &pool.await?).await?;
    }
    Ok(())
}

async fn give_data(stage: &Stage, machine: &Value) -> anyhow::Result<()> {
    if !stage.first(machine, "data") {
        return Ok(());
    }
    let (namespace, name) = (namespace_of(machine), name_of(machine));
    let secret = json!({
        "metadata": {
            "name": name,
            "labels": { labels::CLUSTER_API_CLUSTER: machine["spec"]["clusterName"] },
        },
        "type": values::SECRET_KIND_CLUSTER_API,
        "stringData": { secret_keys::VALUE: "#cloud-config\n" },
    });
    stage
        .create(&Kind::of::<Secret>(), namespace, secret)
        .await?;
    let named = json!({ "spec": { "bootstrap": { "dataSecretName": name } } });
    let kind = Kind::of::<Machine>();
    stage.patch(&kind, namespace, name, named).await
}

/// Says how many machines of a pool there are, and how many are ready.
async fn count_machines(stage: &Stage, deployment: &Value) -> anyhow::Result<()> {
    let (namespace, name) = (namespace_of(deployment), name_of(deployment));
    let machines = stage.api(&Kind::of::<Machine>(), namespace);
    let own = format!("{}={name}", labels::CLUSTER_API_MACHINE_DEPLOYMENT);
    let machines = machines.list(&ListParams::default().labels(&own)).await?;
    let ready = machines
        .items
        .iter()
        .filter(|machine| says(&machine.data, "Ready"));
    let (count, ready) = (machines.items.len(), ready.count());
    tell_counts(stage, deployment, count, ready).await
}

async fn tell_counts(
    stage: &Stage,
    deployment: &Value,
    count: usize,
    ready: usize,
) -> anyhow::Result<()> {
    let status = json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": count, "upToDateReplicas": count,
        "readyReplicas": ready, "availableReplicas": ready,
    });
    let (namespace, name) = (namespace_of(deployment), name_of(deployment));
    let kind = Kind::of::<MachineDeployment>();
    stage.tell(&kind, namespace, name, status).await
}

//! The host process, the objects it works by, and the machines it makes.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use butler_api::{
    butler::{
        machine_request::{MachinePhase, MachineRequest},
        provider_config::Provider,
    },
    name::MachineName,
    provider_id,
};
use butler_host::node::NodeProfile;
use butler_pki::public_key_digest;
use butler_provider::local::LocalConfiguration;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams},
    runtime::wait::await_condition,
};
use rand::distr::{Alphanumeric, SampleString as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;

use super::{
    Run,
    platform::{self, NAMESPACE},
};
use crate::{
    adm::{
        apply::{FIELD_MANAGER, apply, missing, within},
        error::Error,
        host_process::{self, HostProcess, Kept},
        installation::{MIRROR_PORT, write_private},
        kubeadm::{self, API_SERVER_PORT, NodePlan, Ticket},
    },
    output::progress::Outcome,
};

/// The host process' own identity in the cluster, from the chart.
const TOKEN_SECRET: &str = "butler-provider-local-token";
/// How long the host process may take until it serves images, and how often it is looked at.
const PROCESS_PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(100);
/// How long a worker may take from its making to its joining.
const TOKEN_HOURS: i64 = 1;

/// What stands for a machine's own identity in user data that is written before the machine is known.
const INSTANCE: &str = "{{ ds.meta_data.instance_id }}";

/// Starts the host process with an identity of its own.
pub(super) async fn host_process(
    run: &Run,
    client: &Client,
    build: &str,
    node: NodeProfile,
) -> anyhow::Result<Outcome> {
    let step = run.progress.begin("Host process");
    let kubeconfig = identity(run, client).await?;
    let path = run.places.host_kubeconfig();
    if std::fs::read(&path).ok().as_deref() != Some(kubeconfig.as_bytes()) {
        write_private(&path, kubeconfig.as_bytes())?;
    }
    let wished = HostProcess {
        program: run.places.butler(),
        arguments: arguments(run),
        build: build.to_owned(),
        configuration: format!("{}{}", configure(run, node)?, fingerprint(&kubeconfig)),
    };
    let outcome = match host_process::state(&run.installation, &run.places, Some(&wished)).await? {
        Kept::Running => Outcome::Unchanged,
        Kept::Other | Kept::Stopped => {
            host_process::start(&run.installation, &run.places, &wished).await?;
            answers(run).await?;
            Outcome::Done
        }
    };
    step.end(outcome);
    Ok(outcome)
}

/// Waits until the process serves images: from then on it works.
async fn answers(run: &Run) -> anyhow::Result<()> {
    let mirror = (run.installation.host_address(), MIRROR_PORT);
    let began = Instant::now();
    while TcpStream::connect(mirror).await.is_err() {
        if began.elapsed() > PROCESS_PATIENCE {
            let log = host_process::tail(&run.places.host_log());
            return Err(Error::HostProcess { log }.into());
        }
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}

fn arguments(run: &Run) -> Vec<String> {
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    vec![
        "provider".to_owned(),
        "local".to_owned(),
        flag("kubeconfig", &run.places.host_kubeconfig()),
        flag("configuration", &run.places.host_configuration()),
    ]
}

/// Tells two identities apart without repeating them.
fn fingerprint(kubeconfig: &str) -> String {
    let digest = Sha256::digest(kubeconfig);
    digest
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

/// Writes down what the process needs to know, and gives it: another configuration needs another process.
fn configure(run: &Run, node: NodeProfile) -> anyhow::Result<String> {
    let host = run.installation.host_config(&run.places)?;
    let configuration = LocalConfiguration {
        cluster: host.cluster,
        state_directory: host.state_directory,
        network: host.network,
        node,
        images: run.places.images(),
        pool_namespace: NAMESPACE.to_owned(),
        pool: platform::LOCAL.to_owned(),
    };
    let text = serde_json::to_string_pretty(&configuration)?;
    write_private(&run.places.host_configuration(), text.as_bytes())?;
    Ok(text)
}

/// A kubeconfig for the account of the host process.
async fn identity(run: &Run, client: &Client) -> anyhow::Result<String> {
    let secrets = Api::<Secret>::namespaced(client.clone(), NAMESPACE);
    let filled = |secret: Option<&Secret>| {
        secret
            .and_then(|secret| secret.data.as_ref())
            .is_some_and(|data| data.contains_key("token"))
    };
    let waiting = await_condition(secrets.clone(), TOKEN_SECRET, filled);
    within(
        Duration::from_mins(1),
        "the token of the host process",
        "look at the controller manager's log",
        waiting,
    )
    .await?;
    let secret = secrets
        .get(TOKEN_SECRET)
        .await
        .map_err(Error::api("read the token of the host process"))?;
    let data = secret.data.unwrap_or_default();
    let text = |key: &str| {
        data.get(key)
            .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
            .unwrap_or_default()
    };
    let name = run.installation.name.as_str();
    let authority = data
        .get("ca.crt")
        .map(|bytes| json!(bytes))
        .unwrap_or_default();
    let server = format!(
        "https://{}:{API_SERVER_PORT}",
        run.installation.first_address()
    );
    Ok(serde_saphyr::to_string(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{ "name": name, "cluster": { "server": server, "certificate-authority-data": authority } }],
        "users": [{ "name": "butler-provider-local", "user": { "token": text("token") } }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": "butler-provider-local" } }],
    }))?)
}

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
    apply(client, &missing(client, &objects).await?).await?;
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

/// Makes workers that are missing, and removes those that are too many.
pub(super) async fn workers(run: &Run, client: &Client) -> anyhow::Result<Outcome> {
    let requests = Api::<MachineRequest>::namespaced(client.clone(), NAMESPACE);
    let labels = format!(
        "{}={}",
        butler_api::keys::labels::CLUSTER,
        run.installation.name
    );
    let found = requests
        .list(&ListParams::default().labels(&labels))
        .await
        .map_err(Error::api("list the machines of the management cluster"))?;
    let found: Vec<String> = found.items.iter().map(ResourceExt::name_any).collect();
    let wished = (0..run.installation.workers)
        .map(|number| run.installation.worker(number))
        .collect::<Result<Vec<_>, _>>()?;
    let prefix = format!("{}-worker-", run.installation.name);
    let surplus: Vec<&String> = found
        .iter()
        .filter(|name| name.starts_with(&prefix))
        .filter(|name| !wished.iter().any(|wished| wished.as_str() == *name))
        .collect();
    let absent: Vec<&MachineName> = wished
        .iter()
        .filter(|name| !found.iter().any(|found| found == name.as_str()))
        .collect();
    if wished.is_empty() && surplus.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    let step = run.progress.begin(format!("Workers: {}", wished.len()));
    for name in &surplus {
        step.detail(&format!("removing {name}"));
        remove(run, client, &requests, name).await?;
    }
    if !absent.is_empty() {
        let ticket = ticket(run, client).await?;
        for name in &absent {
            tell(client, name, &ticket).await?;
            apply(client, &[platform::worker(&run.installation, name)]).await?;
        }
    }
    for name in &wished {
        step.detail(name.as_str());
        running(run, &requests, name).await?;
    }
    let outcome = if absent.is_empty() && surplus.is_empty() {
        Outcome::Unchanged
    } else {
        Outcome::Done
    };
    step.end(outcome);
    Ok(outcome)
}

/// Removes a worker: its machine first, then its node.
async fn remove(
    run: &Run,
    client: &Client,
    requests: &Api<MachineRequest>,
    name: &str,
) -> anyhow::Result<()> {
    let parameters = kube::api::DeleteParams::default();
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
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(client.clone());
    match nodes.delete(name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api(format!("delete node {name}"))(error).into()),
    }
}

/// Lets machines join for a while.
async fn ticket(run: &Run, client: &Client) -> anyhow::Result<Ticket> {
    let kubeconfig = kube::config::Kubeconfig::read_from(run.places.kubeconfig())?;
    let cluster = kubeconfig
        .clusters
        .first()
        .and_then(|cluster| cluster.cluster.clone())
        .unwrap_or_default();
    let authority = cluster.certificate_authority_data.unwrap_or_default();
    let authority = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, authority)?;
    let (id, secret) = (random(6), random(16));
    let expiration = Timestamp::now() + SignedDuration::from_hours(TOKEN_HOURS);
    let fields = [
        ("token-id", id.clone()),
        ("token-secret", secret.clone()),
        (
            "expiration",
            expiration.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        ),
        ("usage-bootstrap-authentication", "true".to_owned()),
        ("usage-bootstrap-signing", "true".to_owned()),
        (
            "auth-extra-groups",
            "system:bootstrappers:kubeadm:default-node-token".to_owned(),
        ),
        (
            "description",
            "Workers of the management cluster.".to_owned(),
        ),
    ];
    let name = format!("bootstrap-token-{id}");
    write_secret(
        client,
        "kube-system",
        &name,
        "bootstrap.kubernetes.io/token",
        fields.map(|(key, value)| (key, value.into_bytes())),
    )
    .await?;
    Ok(Ticket {
        server: format!("{}:{API_SERVER_PORT}", run.installation.first_address()),
        token: format!("{id}.{secret}"),
        authority: public_key_digest(&String::from_utf8_lossy(&authority))?,
    })
}

/// Letters and digits as bootstrap tokens have them.
fn random(length: usize) -> String {
    Alphanumeric
        .sample_string(&mut rand::rng(), length)
        .to_ascii_lowercase()
}

/// Writes the user data of a worker.
async fn tell(client: &Client, name: &MachineName, ticket: &Ticket) -> anyhow::Result<()> {
    let node = NodePlan {
        name: name.clone(),
        address: None,
        provider_id: provider_id::of_instance(Provider::Local, INSTANCE),
    };
    let user_data = kubeadm::joining_machine(ticket, &node)?;
    let secret = platform::user_data_secret(name);
    write_secret(client, NAMESPACE, &secret, "Opaque", [("value", user_data)]).await
}

async fn write_secret<const FIELDS: usize>(
    client: &Client,
    namespace: &str,
    name: &str,
    kind: &str,
    fields: [(&str, Vec<u8>); FIELDS],
) -> anyhow::Result<()> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        data: Some(
            fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), ByteString(value)))
                .collect::<BTreeMap<_, _>>(),
        ),
        ..Secret::default()
    };
    Api::<Secret>::namespaced(client.clone(), namespace)
        .patch(
            name,
            &PatchParams::apply(FIELD_MANAGER).force(),
            &Patch::Apply(&secret),
        )
        .await
        .map_err(Error::api(format!("write Secret {namespace}/{name}")))?;
    Ok(())
}

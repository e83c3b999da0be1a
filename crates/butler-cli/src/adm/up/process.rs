//! The host process: its identity, its configuration, and that it runs.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use butler_host::node::NodeProfile;
use butler_provider::local::LocalConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, runtime::wait::await_condition};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;

use super::{
    Run,
    platform::{self, NAMESPACE},
};
use crate::{
    adm::{
        apply::within,
        error::Error,
        host_process::{self, HostProcess, Kept},
        installation::{MIRROR_PORT, write_private},
        kubeadm::API_SERVER_PORT,
    },
    output::progress::Outcome,
};

/// The host process' own identity in the cluster, from the chart.
const TOKEN_SECRET: &str = "butler-provider-local-token";
/// How long the host process may take until it serves images, and how often it is looked at.
const PROCESS_PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(100);

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
        node_version: run.installation.kubernetes_version.clone(),
        further_nodes: run.places.further_nodes(),
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

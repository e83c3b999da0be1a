//! When an API server says that it is ready, asked as its administrator would ask it.

use std::time::{Duration, Instant};

use anyhow::Context;
use butler_api::keys::{names, secret_keys};
use butler_testkit::try_eventually;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::{sleep, timeout};

use crate::local::shell::PATIENCE;

/// Between two questions: nothing tells when an API server is ready. Asking is work for who is asked, so it is not asked
/// as often as possible.
const PAUSE: Duration = Duration::from_millis(25);
/// How long one question may take. Nobody answers at an address that leads nowhere yet.
const QUESTION: Duration = Duration::from_millis(500);

/// The way to one API server.
pub(crate) struct Door {
    client: Client,
}

impl Door {
    /// Where a kubeconfig leads.
    pub(crate) async fn of(kubeconfig: &str) -> anyhow::Result<Self> {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.connect_timeout = Some(QUESTION);
        // We ask again ourselves, and at once.
        config.default_retry = false;
        Ok(Self {
            client: Client::try_from(config)?,
        })
    }

    /// Where the administrator's kubeconfig of a hosted control plane leads, as soon as Steward has written it: through the
    /// Service.
    pub(crate) async fn of_control_plane(
        secrets: &Api<Secret>,
        name: &str,
    ) -> anyhow::Result<Self> {
        let name = format!("{name}{}", names::ADMIN_KUBECONFIG_SUFFIX);
        let found = try_eventually(secrets, &name, "has a kubeconfig", PATIENCE, |found| {
            found.is_some_and(|found| kubeconfig(found).is_some())
        });
        let found = found.await?;
        let ByteString(bytes) = kubeconfig(&found).context("the kubeconfig is gone")?;
        Self::of(std::str::from_utf8(bytes).context("the kubeconfig is no text")?).await
    }

    /// A client that goes that way.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Waits until `/readyz` says yes, and tells when that was.
    pub(crate) async fn opens(&self) -> anyhow::Result<Instant> {
        let mut last = String::new();
        let asking = async {
            loop {
                match timeout(QUESTION, self.ask()).await {
                    Ok(Ok(())) => return Instant::now(),
                    Ok(Err(problem)) => last = format!("{problem:#}"),
                    Err(_elapsed) => last = String::from("nobody answers"),
                }
                sleep(PAUSE).await;
            }
        };
        let opened = timeout(PATIENCE, asking).await;
        opened.with_context(|| format!("an API server does not become ready: {last}"))
    }

    async fn ask(&self) -> anyhow::Result<()> {
        let question = http::Request::get("/readyz").body(Vec::new())?;
        self.client.request_text(question).await?;
        Ok(())
    }
}

fn kubeconfig(secret: &Secret) -> Option<&ByteString> {
    secret.data.as_ref()?.get(secret_keys::ADMIN_CONF)
}

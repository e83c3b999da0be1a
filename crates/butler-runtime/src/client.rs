//! Owns how a component reaches the API server: which configuration, which timeouts, and the name
//! it gives itself. Clients for tenant clusters are built here too, and kept by [`crate::remote`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::connection;

const KUBECONFIG_VARIABLE: &str = "KUBECONFIG";
const IN_CLUSTER_VARIABLE: &str = "KUBERNETES_SERVICE_HOST";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the 295 seconds after which kube gives up a silent watch by itself, so that this is
/// only the last resort against a peer that vanished. Passes and elections have shorter deadlines
/// of their own.
const READ_TIMEOUT: Duration = Duration::from_secs(320);
/// About as long as API servers keep a connection that nobody uses.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The API server cannot be reached by configuration.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing says where the API server is.
    #[error("no Kubernetes configuration found; tried {}. Pass --kubeconfig", tried.join(", "))]
    NotFound {
        /// Where we looked.
        tried: Vec<String>,
    },
    /// A kubeconfig cannot be used.
    #[error("cannot use the kubeconfig from {origin}")]
    Kubeconfig {
        /// Who named the file, and which file.
        origin: String,
        /// What is wrong with it.
        #[source]
        source: KubeconfigError,
    },
    /// This runs in a pod whose service account cannot be used.
    #[error("cannot use the service account of this pod (is its token mounted?)")]
    InCluster(#[source] InClusterError),
    /// The name of the component cannot stand in a header.
    #[error("{0:?} cannot be sent as a user agent; use printable ASCII letters")]
    UserAgent(String),
    /// The configuration does not make a client.
    #[error("cannot make a client for {server}")]
    Build {
        /// The address of the API server.
        server: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Who is calling: the name in user agents, audit logs and managed fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    name: String,
    user_agent: HeaderValue,
}

impl Component {
    /// A component such as `butler-controller` in a version such as `0.1.0`.
    pub fn new(name: &str, version: &str) -> Result<Self, ClientError> {
        let user_agent = format!("{name}/{version}");
        let user_agent = HeaderValue::from_str(&user_agent)
            .map_err(|_| ClientError::UserAgent(user_agent.clone()))?;
        Ok(Self {
            name: name.to_owned(),
            user_agent,
        })
    }

    /// The name, which is also the field manager.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user agent, `name/version`.
    pub fn user_agent(&self) -> &HeaderValue {
        &self.user_agent
    }
}

/// Makes aws-lc-rs the cryptography of the process. Calling it again changes nothing.
pub fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // The only failure is that another thread was quicker, with the same provider.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
}

/// Finds the configuration: the given file, else the files of `KUBECONFIG`, else the service
/// account of the pod, else `~/.kube/config`.
///
/// A file that was named but cannot be used is an error; the next place is not tried, or a
/// component would work on another cluster than it was told to.
pub async fn configuration(kubeconfig: Option<&Path>) -> Result<kube::Config, ClientError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = kubeconfig {
        return from_file(path, "--kubeconfig").await;
    }
    if let Some(paths) = variable(KUBECONFIG_VARIABLE) {
        let origin = format!("{KUBECONFIG_VARIABLE}={}", paths.to_string_lossy());
        let read = Kubeconfig::from_env().and_then(|found| found.ok_or(KubeconfigError::FindPath));
        return from_kubeconfig(read, origin).await;
    }
    if variable(IN_CLUSTER_VARIABLE).is_some() {
        return kube::Config::incluster().map_err(ClientError::InCluster);
    }
    let home = variable("HOME").map(|home| PathBuf::from(home).join(".kube").join("config"));
    match home {
        Some(path) if path.exists() => from_file(&path, "the home directory").await,
        _ => Err(ClientError::NotFound {
            tried: vec![
                "--kubeconfig (not given)".to_owned(),
                format!("{KUBECONFIG_VARIABLE} (not set)"),
                format!("the pod's service account ({IN_CLUSTER_VARIABLE} is not set)"),
                home.map_or_else(
                    || "~/.kube/config (HOME is not set)".to_owned(),
                    |path| format!("{} (does not exist)", path.display()),
                ),
            ],
        }),
    }
}

/// Whether [`configuration`] takes the service account of the pod this runs in.
pub fn runs_in_cluster(kubeconfig: Option<&Path>) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    kubeconfig.is_none() && !is_set(KUBECONFIG_VARIABLE) && is_set(IN_CLUSTER_VARIABLE)
}

async fn from_file(path: &Path, named_by: &str) -> Result<kube::Config, ClientError> {
    from_kubeconfig(
        Kubeconfig::read_from(path),
        format!("{named_by} ({})", path.display()),
    )
    .await
}

async fn from_kubeconfig(
    read: Result<Kubeconfig, KubeconfigError>,
    origin: String,
) -> Result<kube::Config, ClientError> {
    let config = match read {
        Ok(read) => kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await,
        Err(source) => Err(source),
    };
    config.map_err(|source| ClientError::Kubeconfig { origin, source })
}

/// A client that calls itself by the component's name.
pub fn client(config: kube::Config, component: &Component) -> Result<kube::Client, ClientError> {
    let timeouts = Timeouts {
        read: READ_TIMEOUT,
        idle: IDLE_TIMEOUT,
    };
    client_with(config, component, timeouts)
}

/// For how long a connection may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// While an answer is awaited.
    pub(crate) read: Duration,
    /// While nobody uses it, before it is closed.
    pub(crate) idle: Duration,
}

pub(crate) fn client_with(
    mut config: kube::Config,
    component: &Component,
    timeouts: Timeouts,
) -> Result<kube::Client, ClientError> {
    install_crypto();
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.write_timeout = Some(WRITE_TIMEOUT);
    config.read_timeout = Some(timeouts.read);
    // Without this the idle time of a pooled connection counts against the next answer.
    config.reset_reader_on_write = true;
    // kube appends these headers, so one of the same name must not be there already.
    config.headers.retain(|(name, _)| name != USER_AGENT);
    config
        .headers
        .push((USER_AGENT, component.user_agent().clone()));
    let server = config.cluster_url.to_string();
    connection::client(config, timeouts.idle).map_err(|source| ClientError::Build {
        server,
        source: Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_known_by_name_and_version() {
        let component = Component::new("butler-controller", "0.1.0").expect("valid");
        assert_eq!(component.name(), "butler-controller");
        assert_eq!(component.user_agent(), "butler-controller/0.1.0");
    }

    #[test]
    fn a_name_that_breaks_the_header_is_refused() {
        let error = Component::new("butler\r\nx: y", "1").expect_err("line breaks");
        assert!(matches!(error, ClientError::UserAgent(_)));
    }

    #[tokio::test]
    async fn a_named_file_that_is_missing_is_an_error_with_its_path() {
        let error = configuration(Some(Path::new("/nowhere/kubeconfig")))
            .await
            .expect_err("there is no such file");
        assert_eq!(
            error.to_string(),
            "cannot use the kubeconfig from --kubeconfig (/nowhere/kubeconfig)"
        );
    }
}

//! The flags of `butler tunnel server`.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use butler_runtime::{
    bind_address::BindAddress,
    client::{self, ClientError, Component},
};

use super::{ProxySettings, ServerSettings};
use crate::{
    authentication::{Authenticator, CertificatePolicy, TokenReviewer, TokenVerifier},
    destination::Destination,
    keep_alive::KeepAlive,
    manifests::names,
    process,
    tls::{ClientCertificates, IdentityFiles, ServerTls},
};

/// The name of the process in user agents.
const COMPONENT: &str = "butler-tunnel-server";

/// Flags of `butler tunnel server`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The Unix socket where the API server asks for connections
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "proxy_bind_address"
    )]
    pub socket: Option<PathBuf>,
    /// Where the API server asks for connections over the network, by TLS with certificates on both sides
    #[arg(long, value_name = "ADDRESS", requires_all = ["proxy_client_ca_file", "proxy_client_common_name"])]
    pub proxy_bind_address: Option<BindAddress>,
    /// The authority of the API server's client certificate
    #[arg(long, value_name = "FILE", requires = "proxy_bind_address")]
    pub proxy_client_ca_file: Option<PathBuf>,
    /// The common name in the API server's client certificate
    #[arg(long, value_name = "NAME", requires = "proxy_bind_address")]
    pub proxy_client_common_name: Option<String>,
    /// Where agents dial in
    #[arg(long, value_name = "ADDRESS", default_value = ":8132")]
    pub agent_bind_address: BindAddress,
    /// The certificate that is shown to agents
    #[arg(long, value_name = "FILE")]
    pub cert_file: PathBuf,
    /// The private key of that certificate
    #[arg(long, value_name = "FILE")]
    pub key_file: PathBuf,
    /// The kubeconfig of the API server that judges the tokens of agents; without it agents need certificates
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "agent_client_ca_file"
    )]
    pub kubeconfig: Option<PathBuf>,
    /// The service account of agents
    #[arg(long, value_name = "NAMESPACE/NAME", default_value_t = names::agent_service_account())]
    pub agent_service_account: String,
    /// The audience for which agents have their tokens
    #[arg(long, value_name = "AUDIENCE", default_value = names::AUDIENCE)]
    pub agent_audience: String,
    /// The authority of agents that have a client certificate
    #[arg(long, value_name = "FILE")]
    pub agent_client_ca_file: Option<PathBuf>,
    /// The common name that client certificates of agents must have
    #[arg(long, value_name = "NAME", requires = "agent_client_ca_file")]
    pub agent_client_common_name: Option<String>,
    /// The organization that client certificates of agents must have
    #[arg(long, value_name = "NAME", requires = "agent_client_ca_file")]
    pub agent_client_organization: Option<String>,
    /// The API server that proxies in the tenant (butler tcp-proxy --through-tunnel) are led to; without it they are not let in
    #[arg(long, value_name = "HOST:PORT")]
    pub api_server: Option<Destination>,
    /// What this server is called; without it, by the host
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub server_name: Option<String>,
    /// How many servers there are behind the address that agents dial
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub server_count: usize,
    /// How many connections may go through this server at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 4096)]
    pub max_streams: usize,
    /// How often agents are asked whether they are still there
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = process::duration)]
    pub keep_alive_interval: Duration,
    /// How often agents show their tokens again
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = process::duration)]
    pub reauthentication_interval: Duration,
    /// How long connections are still made after SIGTERM, for an API server that ends later
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = process::duration)]
    pub shutdown_delay: Duration,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "ADDRESS", default_value = ":8134")]
    pub health_probe_bind_address: BindAddress,
    /// Where /metrics is served
    #[arg(long, value_name = "ADDRESS", default_value = ":8133")]
    pub metrics_bind_address: BindAddress,
}

/// Flags that do not make a server.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentsError {
    /// Agents could not connect.
    #[error("--agent-bind-address is 0, so no agent could connect; write an address such as :8132")]
    NoAgentAddress,
    /// The service account has no namespace.
    #[error("--agent-service-account is {0:?}; write NAMESPACE/NAME")]
    ServiceAccount(String),
    /// Every certificate of the authority would do.
    #[error(
        "--agent-client-ca-file lets in everybody whom that authority knows; \
         add --agent-client-common-name or --agent-client-organization"
    )]
    AnyCertificate,
}

impl Arguments {
    /// Whether these flags make a server, as far as they alone can tell.
    pub(crate) fn check(&self) -> Result<(), ArgumentsError> {
        self.agent_address()?;
        self.agent_certificates()?;
        self.agent_user().map(|_| ())
    }

    fn agent_address(&self) -> Result<SocketAddr, ArgumentsError> {
        let address = self.agent_bind_address.address();
        address.ok_or(ArgumentsError::NoAgentAddress)
    }

    /// Who judges tokens, if agents may have tokens.
    pub(crate) async fn verifier(
        &self,
        version: &str,
    ) -> Result<Option<kube::Client>, ClientError> {
        let Some(kubeconfig) = &self.kubeconfig else {
            return Ok(None);
        };
        let configuration = client::configuration(Some(kubeconfig)).await?;
        let component = Component::new(COMPONENT, version)?;
        client::client(configuration, &component).map(Some)
    }

    /// The settings these flags mean; tokens are judged through `reviews`.
    pub(crate) fn settings(
        self,
        reviews: Option<kube::Client>,
        seed: u64,
    ) -> Result<ServerSettings, ArgumentsError> {
        let certificates = self.agent_certificates()?;
        let tokens = match reviews {
            Some(client) => Some(self.reviewer(client)?),
            None => None,
        };
        let clients = match (&self.agent_client_ca_file, &tokens) {
            (None, _) => ClientCertificates::NotAsked,
            (Some(authority), Some(_)) => ClientCertificates::Welcome(authority.clone()),
            (Some(authority), None) => ClientCertificates::Required(authority.clone()),
        };
        let name = self.server_name.clone().unwrap_or_else(process::host_name);
        Ok(ServerSettings {
            id: format!("{name}-{seed:016x}"),
            count: self.server_count.max(1),
            agent_address: self.agent_address()?,
            agent_tls: ServerTls::new(self.identity(), clients),
            authenticator: Authenticator {
                certificates,
                tokens,
            },
            proxy: self.proxy(),
            socket: self.socket,
            api_server: self.api_server,
            keep_alive: KeepAlive {
                interval: self.keep_alive_interval,
                ..KeepAlive::default()
            },
            reauthentication_interval: self.reauthentication_interval,
            max_streams: self.max_streams,
            shutdown_delay: self.shutdown_delay,
        })
    }

    fn identity(&self) -> IdentityFiles {
        IdentityFiles {
            certificate: self.cert_file.clone(),
            key: self.key_file.clone(),
        }
    }

    fn agent_certificates(&self) -> Result<Option<CertificatePolicy>, ArgumentsError> {
        if self.agent_client_ca_file.is_none() {
            return Ok(None);
        }
        let policy = CertificatePolicy {
            common_name: self.agent_client_common_name.clone(),
            organization: self.agent_client_organization.clone(),
        };
        if !policy.names_somebody() {
            return Err(ArgumentsError::AnyCertificate);
        }
        Ok(Some(policy))
    }

    /// The user that the service account of agents is.
    fn agent_user(&self) -> Result<String, ArgumentsError> {
        let account = &self.agent_service_account;
        let (namespace, name) = process::namespaced(account)
            .ok_or_else(|| ArgumentsError::ServiceAccount(account.clone()))?;
        Ok(format!("system:serviceaccount:{namespace}:{name}"))
    }

    fn reviewer(&self, client: kube::Client) -> Result<Arc<dyn TokenVerifier>, ArgumentsError> {
        let reviewer = TokenReviewer::new(client, self.agent_audience.clone(), self.agent_user()?);
        Ok(Arc::new(reviewer))
    }

    fn proxy(&self) -> Option<ProxySettings> {
        let address = self.proxy_bind_address?.address()?;
        let authority = self.proxy_client_ca_file.clone()?;
        Some(ProxySettings {
            address,
            tls: ServerTls::new(self.identity(), ClientCertificates::Required(authority)),
            client: CertificatePolicy {
                common_name: self.proxy_client_common_name.clone(),
                organization: None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(flags: &[&str]) -> Result<Arguments, clap::Error> {
        let own = ["server", "--cert-file=c", "--key-file=k"];
        Line::try_parse_from(own.iter().chain(flags)).map(|line| line.arguments)
    }

    #[test]
    fn a_server_needs_a_side_for_the_api_server_and_a_judge_of_agents() {
        assert!(parse(&["--socket=s", "--kubeconfig=k"]).is_ok());
        let error = parse(&["--kubeconfig=k"]).expect_err("nobody could ask for connections");
        assert!(error.to_string().contains("--socket"), "{error}");
        let error = parse(&["--socket=s"]).expect_err("everybody could be an agent");
        assert!(error.to_string().contains("--kubeconfig"), "{error}");
    }

    #[test]
    fn a_proxy_on_the_network_names_its_one_client() {
        let error = parse(&["--proxy-bind-address=:8131", "--kubeconfig=k"]).expect_err("open");
        assert!(
            error.to_string().contains("--proxy-client-common-name"),
            "{error}"
        );
    }

    #[test]
    fn an_authority_alone_is_no_policy() {
        let arguments = parse(&["--socket=s", "--agent-client-ca-file=ca"]).unwrap();
        let error = arguments.settings(None, 1).err().expect("anybody would do");
        assert!(matches!(error, ArgumentsError::AnyCertificate), "{error}");
    }

    #[test]
    fn every_start_is_another_server() {
        let flags = [
            "--socket=s",
            "--agent-client-ca-file=ca",
            "--agent-client-common-name=a",
        ];
        let id = |seed| parse(&flags).unwrap().settings(None, seed).ok().unwrap().id;
        assert_ne!(id(1), id(2));
    }
}

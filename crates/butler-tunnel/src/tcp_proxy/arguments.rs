//! The flags of `butler tcp-proxy`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use butler_runtime::{
    bind_address::BindAddress,
    client::{self, ClientError, Component},
};

use super::{Target, TcpProxySettings, endpoints::ServiceName};
use crate::{destination::Destination, manifests::names, process, tls::ClientTls};

/// Flags of `butler tcp-proxy`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Where the API server is reached
    #[arg(long, value_name = "HOST:PORT")]
    pub target: Destination,
    /// Whether --target is a server of the reverse tunnel that leads on to the API server
    #[arg(long, requires = "ca_file")]
    pub through_tunnel: bool,
    /// The authority of that server's certificate
    #[arg(long, value_name = "FILE", requires = "through_tunnel")]
    pub ca_file: Option<PathBuf>,
    /// Where pods connect
    #[arg(long, value_name = "ADDRESS", default_value = ":6443")]
    pub listen_address: BindAddress,
    /// The Service of these proxies: the Service kubernetes leads to those of it that are ready; without it, it is left alone
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub service: Option<String>,
    /// The kubeconfig by which that is done; without it, the service account of the pod
    #[arg(long, value_name = "FILE", requires = "service")]
    pub kubeconfig: Option<PathBuf>,
    /// How long the target may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = process::duration)]
    pub dial_timeout: Duration,
    /// How many connections may be open at a time; further ones wait
    #[arg(long, value_name = "NUMBER", default_value_t = 4096)]
    pub max_connections: usize,
}

/// Flags that do not make a proxy.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentsError {
    /// Pods could not connect.
    #[error("--listen-address is 0, so no pod could connect; write an address such as :6443")]
    NoAddress,
    /// Nobody could connect.
    #[error("--max-connections is 0; write how many connections may be open, such as 4096")]
    NoConnections,
    /// The Service has no namespace.
    #[error("--service is {0:?}; write NAMESPACE/NAME")]
    Service(String),
}

impl Arguments {
    /// The Service of the proxies, if the Service `kubernetes` shall lead to them.
    pub(super) fn service(&self) -> Result<Option<ServiceName>, ArgumentsError> {
        let Some(text) = &self.service else {
            return Ok(None);
        };
        let (namespace, name) =
            process::namespaced(text).ok_or_else(|| ArgumentsError::Service(text.clone()))?;
        Ok(Some(ServiceName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }))
    }

    /// The API server that knows the Services.
    pub(super) async fn client(&self, version: &str) -> Result<kube::Client, ClientError> {
        let configuration = client::configuration(self.kubeconfig.as_deref()).await?;
        client::client(configuration, &Component::new(names::TCP_PROXY, version)?)
    }

    fn address(&self) -> Result<SocketAddr, ArgumentsError> {
        let address = self.listen_address.address();
        address.ok_or(ArgumentsError::NoAddress)
    }

    /// The settings these flags mean.
    pub(super) fn settings(self) -> Result<TcpProxySettings, ArgumentsError> {
        let address = self.address()?;
        if self.max_connections == 0 {
            return Err(ArgumentsError::NoConnections);
        }
        let target = match self.ca_file.filter(|_| self.through_tunnel) {
            Some(authority) => Target::ThroughTunnel {
                server: self.target,
                tls: ClientTls::of_passage(authority),
            },
            None => Target::Direct(self.target),
        };
        Ok(TcpProxySettings {
            address,
            target,
            dial_timeout: self.dial_timeout,
            max_connections: self.max_connections,
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
        let own = ["tcp-proxy", "--target=shop.example.com:6443"];
        Line::try_parse_from(own.iter().chain(flags)).map(|line| line.arguments)
    }

    #[test]
    fn a_proxy_needs_to_know_where_the_api_server_is_and_nothing_else() {
        let settings = parse(&[]).unwrap().settings().unwrap();
        assert!(matches!(settings.target, Target::Direct(_)));
        assert_eq!(settings.address.port(), 6443);
        let error = Line::try_parse_from(["tcp-proxy"]).err().expect("no way");
        assert!(error.to_string().contains("--target"), "{error}");
    }

    #[test]
    fn a_server_of_the_tunnel_is_trusted_by_its_authority_alone() {
        let error = parse(&["--through-tunnel"]).expect_err("anybody could be the server");
        assert!(error.to_string().contains("--ca-file"), "{error}");
        let arguments = parse(&["--through-tunnel", "--ca-file=ca.crt"]).unwrap();
        let settings = arguments.settings().unwrap();
        assert!(matches!(settings.target, Target::ThroughTunnel { .. }));
    }

    #[test]
    fn flags_that_make_no_proxy_are_told_with_what_to_write() {
        for (flag, words) in [
            ("--listen-address=0", "such as :6443"),
            ("--max-connections=0", "such as 4096"),
        ] {
            let error = parse(&[flag]).unwrap().settings().expect_err(flag);
            assert!(error.to_string().contains(words), "{error}");
        }
        let error = parse(&["--service=proxy"]).unwrap().service().unwrap_err();
        assert!(error.to_string().contains("NAMESPACE/NAME"), "{error}");
    }
}

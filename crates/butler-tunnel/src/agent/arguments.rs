//! The flags of `butler tunnel agent`.

use std::{path::PathBuf, time::Duration};

use butler_runtime::{backoff::Backoff, bind_address::BindAddress};
use ipnet::IpNet;

use super::AgentSettings;
use crate::{
    destination::{Destination, DestinationPolicy},
    keep_alive::KeepAlive,
    process,
    tls::{ClientTls, IdentityFiles},
};

/// How long an agent waits after failures: short, as its absence is felt at once.
const BACKOFF: Backoff = Backoff {
    shortest: Duration::from_millis(200),
    longest: Duration::from_secs(15),
};

/// Flags of `butler tunnel agent`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The address of the tunnel's servers
    #[arg(long, value_name = "HOST:PORT")]
    pub server: Destination,
    /// The name in the servers' certificate, if it is not the host of --server
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// The authority of the servers' certificate
    #[arg(long, value_name = "FILE")]
    pub ca_file: PathBuf,
    /// The token that is shown to servers; read anew for each connection
    #[arg(long, value_name = "FILE", required_unless_present = "cert_file")]
    pub token_file: Option<PathBuf>,
    /// The client certificate that is shown to servers
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,
    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,
    /// What this agent is called in logs; without it, by the host
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub agent_name: Option<String>,
    /// A range that may be reached although it is loopback or link-local; repeat it for more
    #[arg(long, value_name = "RANGE", value_delimiter = ',')]
    pub allow_destination: Vec<IpNet>,
    /// How long a destination may take to answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = process::duration)]
    pub dial_timeout: Duration,
    /// How many connections each server may have through this agent at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 1024)]
    pub max_streams: usize,
    /// How often servers are asked whether they are still there
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = process::duration)]
    pub keep_alive_interval: Duration,
    /// How often an agent with all servers looks for one that was started later
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = process::duration)]
    pub discovery_interval: Duration,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "ADDRESS", default_value = ":8134")]
    pub health_probe_bind_address: BindAddress,
    /// Where /metrics is served
    #[arg(long, value_name = "ADDRESS", default_value = ":8133")]
    pub metrics_bind_address: BindAddress,
}

/// Flags that do not make an agent.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentsError {
    /// Looking for servers without a pause would be an attack on them.
    #[error("--discovery-interval is zero; write a duration such as 30s")]
    NoInterval,
}

impl Arguments {
    /// Whether these flags make an agent.
    pub(crate) fn check(&self) -> Result<(), ArgumentsError> {
        if self.discovery_interval.is_zero() {
            return Err(ArgumentsError::NoInterval);
        }
        Ok(())
    }

    /// The settings these flags mean.
    pub(crate) fn settings(self) -> Result<AgentSettings, ArgumentsError> {
        self.check()?;
        let identity = self.cert_file.zip(self.key_file);
        let identity = identity.map(|(certificate, key)| IdentityFiles { certificate, key });
        Ok(AgentSettings {
            server: self.server,
            server_name: self.server_name,
            tls: ClientTls::new(self.ca_file, identity),
            token_file: self.token_file,
            name: self.agent_name.unwrap_or_else(process::host_name),
            policy: DestinationPolicy {
                allowed: self.allow_destination,
            },
            dial_timeout: self.dial_timeout,
            max_streams: self.max_streams,
            keep_alive: KeepAlive {
                interval: self.keep_alive_interval,
                ..KeepAlive::default()
            },
            discovery_interval: self.discovery_interval,
            backoff: BACKOFF,
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
        let own = ["agent", "--server=tenant.example:8132", "--ca-file=ca"];
        Line::try_parse_from(own.iter().chain(flags)).map(|line| line.arguments)
    }

    #[test]
    fn an_agent_shows_a_token_or_a_certificate() {
        assert!(parse(&["--token-file=t"]).is_ok());
        assert!(parse(&["--cert-file=c", "--key-file=k"]).is_ok());
        let error = parse(&[]).expect_err("nothing to show");
        assert!(error.to_string().contains("--token-file"), "{error}");
    }

    #[test]
    fn a_closed_range_is_opened_by_name() {
        let flags = [
            "--token-file=t",
            "--allow-destination=127.0.0.0/8,169.254.20.10/32",
        ];
        let settings = parse(&flags).unwrap().settings().unwrap();
        assert!(settings.policy.permits("127.0.0.1".parse().unwrap()));
        assert!(!settings.policy.permits("169.254.169.254".parse().unwrap()));
    }
}

//! `butler tunnel`: the two processes.

use butler_runtime::{
    client::{self, ClientError},
    metrics::Metrics,
    serve::{ReadyChecks, ServeError},
    shutdown::Shutdown,
};
use clap::{Parser, Subcommand};

use crate::{
    agent::{self, Agent},
    metrics::TunnelMetrics,
    process,
    server::{self, Server, ServerError},
};

/// The two ends of the tunnel.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Be the end beside an API server
    #[command(after_help = "Examples:\n  \
        butler tunnel server --socket /run/butler-tunnel/tunnel.sock --cert-file apiserver.crt --key-file apiserver.key \\\n    \
        --kubeconfig tunnel-server.conf")]
    Server(Box<server::Arguments>),
    /// Be the end in a tenant cluster
    #[command(after_help = "Examples:\n  \
        butler tunnel agent --server tenant.example:8132 --ca-file ca.crt --token-file token")]
    Agent(Box<agent::Arguments>),
}

/// A command line of `butler tunnel`.
#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    end: Command,
}

/// Whether an end of the tunnel begins with these arguments of `butler`, as far as they alone can tell.
pub(crate) fn is_understood(arguments: &[String]) -> bool {
    // The first one takes the place of the program's name.
    Line::try_parse_from(arguments).is_ok_and(|line| match line.end {
        Command::Server(arguments) => arguments.check().is_ok(),
        Command::Agent(arguments) => arguments.check().is_ok(),
    })
}

/// Why a process ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The flags of a server do not make one.
    #[error("the tunnel server cannot begin")]
    ServerArguments(#[from] server::ArgumentsError),
    /// The flags of an agent do not make one.
    #[error("the tunnel agent cannot begin")]
    AgentArguments(#[from] agent::ArgumentsError),
    /// The API server that judges tokens cannot be found.
    #[error("tokens of agents cannot be judged")]
    Client(#[from] ClientError),
    /// The server's ports cannot be opened.
    #[error("the tunnel server cannot begin")]
    Server(#[from] ServerError),
    /// Probes cannot be served.
    #[error("probes cannot be served")]
    Probes(#[from] ServeError),
}

/// Runs an end of the tunnel until the shutdown.
pub async fn run(command: Command, version: &str, shutdown: Shutdown) -> Result<(), RunError> {
    client::install_crypto();
    match command {
        Command::Server(arguments) => run_server(*arguments, version, shutdown).await,
        Command::Agent(arguments) => run_agent(*arguments, shutdown).await,
    }
}

async fn run_server(
    arguments: server::Arguments,
    version: &str,
    shutdown: Shutdown,
) -> Result<(), RunError> {
    let health = arguments.health_probe_bind_address.address();
    let numbers = arguments.metrics_bind_address.address();
    let verifier = arguments.verifier(version).await?;
    let settings = arguments.settings(verifier, process::seed())?;
    let metrics = Metrics::new();
    let tunnel_metrics = TunnelMetrics::register(&metrics, "agents");
    let server = Server::bind(settings, tunnel_metrics).await?;
    // Without agents the API server works all the same, so their number is no matter of readiness.
    let checks = ReadyChecks::new();
    let _probes = process::serve_probes(health, numbers, checks, metrics, &shutdown).await?;
    server.run(shutdown).await;
    Ok(())
}

async fn run_agent(arguments: agent::Arguments, shutdown: Shutdown) -> Result<(), RunError> {
    let health = arguments.health_probe_bind_address.address();
    let numbers = arguments.metrics_bind_address.address();
    let metrics = Metrics::new();
    let tunnel_metrics = TunnelMetrics::register(&metrics, "servers");
    let agent = Agent::new(arguments.settings()?, tunnel_metrics, process::seed());
    let checks = ReadyChecks::new();
    let standing = agent.standing();
    checks.register("servers", move || {
        let standing = *standing.borrow();
        if standing.connected > 0 {
            Ok(())
        } else {
            Err("connected to no server".to_owned())
        }
    });
    let _probes = process::serve_probes(health, numbers, checks, metrics, &shutdown).await?;
    agent.run(shutdown).await;
    Ok(())
}

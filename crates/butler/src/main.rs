//! The `butler` binary: every component, one executable.

use std::process::ExitCode;

use butler_host::init::InitConfig;
use butler_provider::local::process;
use butler_runtime::{
    shutdown::Shutdown,
    telemetry::{self, LogSettings},
};
use clap::{Parser, Subcommand};

/// Butler: Kubernetes as a service, on your infrastructure.
#[derive(Parser)]
#[command(
    version,
    about,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    component: Component,
}

#[derive(Subcommand)]
enum Component {
    /// Run the controllers of the management cluster
    #[command(after_help = "Examples:\n  \
        butler controller                                      in the management cluster\n  \
        butler controller --kubeconfig k --leader-elect=false  on your own machine")]
    Controller(butler_controller::run::Arguments),
    /// Make machines and load balancers that the management cluster asks for
    #[command(subcommand, subcommand_required = true, arg_required_else_help = true)]
    Provider(Provider),
    /// Carry connections of hosted API servers into tenant clusters
    #[command(subcommand, subcommand_required = true, arg_required_else_help = true)]
    Tunnel(butler_tunnel::Command),
    /// Stand in for a hosted API server inside of its tenant cluster
    #[command(after_help = "Examples:\n  \
        butler tcp-proxy --target shop.example.com:6443                  to an API server that answers by itself\n  \
        butler tcp-proxy --target shop.konnectivity.example.com:443 --through-tunnel --ca-file ca.crt \\\n    \
        --service kube-system/steward-tcp-proxy")]
    TcpProxy(butler_tunnel::tcp_proxy::Arguments),
    /// Host the control planes of tenants
    #[command(after_help = "Examples:\n  \
        butler steward                                      in the management cluster\n  \
        butler steward --kubeconfig k --leader-elect=false  on your own machine")]
    Steward(Box<steward::run::Arguments>),
    /// Prepare the etcd of the chart steward-etcd
    #[command(
        name = "steward-etcd",
        subcommand,
        subcommand_required = true,
        arg_required_else_help = true
    )]
    StewardEtcd(steward::own_etcd::Command),
    /// Be the first process of a machine
    #[command(hide = true)]
    Init,
}

#[derive(Subcommand)]
enum Provider {
    /// Make machines on this host; needs root, runc and iproute2
    #[command(after_help = "Examples:\n  \
        butler provider local --kubeconfig k --configuration /var/lib/butler/butler-local/provider.json")]
    Local(process::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().component {
        // It has a runtime of its own, with one thread: there is one such process in every machine.
        Component::Init => butler_host::init::run(&InitConfig::default()).map_err(Into::into),
        component => run(component),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(component: Component) -> anyhow::Result<()> {
    telemetry::init(&LogSettings::from_environment()?)?;
    let shutdown = Shutdown::on_signals()?;
    let version = env!("CARGO_PKG_VERSION");
    match component {
        Component::Controller(arguments) => {
            Box::pin(butler_controller::run::run(arguments, version, shutdown)).await?;
        }
        Component::Provider(Provider::Local(arguments)) => {
            Box::pin(process::run(arguments, version, shutdown)).await?;
        }
        Component::Tunnel(command) => {
            Box::pin(butler_tunnel::run(command, version, shutdown)).await?;
        }
        Component::TcpProxy(arguments) => {
            Box::pin(butler_tunnel::tcp_proxy::run(arguments, version, shutdown)).await?;
        }
        Component::Steward(arguments) => {
            Box::pin(steward::run::run(*arguments, version, shutdown)).await?;
        }
        Component::StewardEtcd(command) => {
            Box::pin(steward::own_etcd::run(command, version, shutdown)).await?;
        }
        Component::Init => {}
    }
    Ok(())
}

#[expect(
    clippy::print_stderr,
    reason = "the last words of a process go to its terminal, whatever the log says"
)]
fn complain(error: &anyhow::Error) {
    eprintln!("butler: {error:#}");
}

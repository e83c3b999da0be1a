//! What this crate asks of the host.

use std::{collections::BTreeSet, error::Error, future::Future, io, net::Ipv4Addr, time::Duration};

use butler_api::name::MachineName;
use butler_host::{
    firewall::ServedPorts,
    host::{self, Host, Machine, MachineState},
    network::PodNetwork,
};
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A machine of this host, as far as the network of a cluster is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalMachine {
    /// Its name.
    pub name: MachineName,
    /// Who it is: the UID by which its node may call itself.
    pub id: String,
    /// On the bridge.
    pub address: Ipv4Addr,
    /// Number of the first process, if it runs. Another number is another life, which has forgotten what it was told.
    pub life: Option<u32>,
    /// Addresses of Services that were put on it, whether it runs or not. Addresses of which the machine serves ports itself,
    /// such as that of an API server, are somebody else's and not among them.
    pub service_addresses: BTreeSet<Ipv4Addr>,
}

impl LocalMachine {
    /// Whether its first process runs.
    pub const fn is_running(&self) -> bool {
        self.life.is_some()
    }
}

/// What changes about the addresses of Services on a machine. The others on it stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressChange {
    /// Goes, from whatever is left of the machine.
    pub take_off: BTreeSet<Ipv4Addr>,
    /// Comes, and is announced to the neighbours. Ports of the machine itself do not answer there.
    pub put_on: BTreeSet<Ipv4Addr>,
}

impl AddressChange {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.take_off.is_empty() && self.put_on.is_empty()
    }
}

/// What the kube-proxy of a machine says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyAnswer {
    /// What it told the kernel is in step with the cluster.
    InStep,
    /// It says so, but nothing in the kernel shows it: it has just begun, or tells the kernel by other means than nftables.
    Unproven,
    /// It is not, or its node is about to go.
    Behind,
    /// Nothing: it does not run, or cannot be reached.
    Nothing,
}

/// The hands on the host's machines. Every call may be cut off and made again.
pub trait Hands: Send + Sync + 'static {
    /// What can go wrong.
    type Error: Error + Send + Sync + 'static;

    /// All machines of the host, as they are.
    fn machines(&self) -> impl Future<Output = Result<Vec<LocalMachine>, Self::Error>> + Send;

    /// Tells a running machine about pods: routes, masquerading, and the configuration for its own pods once it has a range.
    fn set_pod_network(
        &self,
        machine: &MachineName,
        network: &PodNetwork,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes addresses off a machine and puts others on it. Addresses can also be taken off a machine that does not run, since
    /// its kernel would still answer for them; one that is gone is well.
    fn change_service_addresses(
        &self,
        machine: &MachineName,
        change: &AddressChange,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Asks the kube-proxy of a machine, which has this address, whether it works.
    fn ask_kube_proxy(
        &self,
        machine: &MachineName,
        address: Ipv4Addr,
    ) -> impl Future<Output = ProxyAnswer> + Send;

    /// Tells that a machine came, went, started or ended. What exactly, [`Hands::machines`] shows.
    fn changes(&self) -> BoxStream<'static, ()>;
}

/// How long to wait before machines are watched again after that failed.
const WATCH_AGAIN: Duration = Duration::from_secs(1);
/// Where kube-proxy says how it is, unless its configuration has it elsewhere.
const PROXY_PORT: u16 = 10256;
/// How long its answer is waited for.
const PROXY_PATIENCE: Duration = Duration::from_secs(2);
/// As much of the answer as is read: the machine is a tenant's, and may say what it likes.
const STATUS_LINE: u64 = 64;

impl Hands for Host {
    type Error = host::Error;

    async fn machines(&self) -> Result<Vec<LocalMachine>, host::Error> {
        let mut machines = Vec::new();
        for Machine {
            name, state, spec, ..
        } in self.list().await?
        {
            // One that was half made has no address and serves nothing.
            let Some(spec) = spec else { continue };
            let addresses = match self.service_addresses(&name).await {
                // Somebody deleted it meanwhile.
                Err(host::Error::NotFound { .. }) => continue,
                other => other?,
            };
            let own = addresses
                .into_iter()
                .filter(|(_, ports)| *ports == ServedPorts::default());
            machines.push(LocalMachine {
                name,
                id: spec.id.to_string(),
                address: spec.address.addr(),
                life: match state {
                    MachineState::Running { pid } => Some(pid),
                    MachineState::Stopped | MachineState::Broken { .. } => None,
                },
                service_addresses: own.map(|(address, _)| address).collect(),
            });
        }
        Ok(machines)
    }

    async fn set_pod_network(
        &self,
        machine: &MachineName,
        network: &PodNetwork,
    ) -> Result<(), host::Error> {
        Self::set_pod_network(self, machine, network).await
    }

    async fn change_service_addresses(
        &self,
        machine: &MachineName,
        change: &AddressChange,
    ) -> Result<(), host::Error> {
        // Nothing of the machine itself answers there: the ports of the Service lead on to pods before.
        let put_on = change
            .put_on
            .iter()
            .map(|address| (*address, ServedPorts::default()))
            .collect();
        match Self::change_service_addresses(self, machine, &change.take_off, &put_on).await {
            Err(host::Error::NotFound { .. }) if put_on.is_empty() => Ok(()),
            other => other,
        }
    }

    async fn ask_kube_proxy(&self, machine: &MachineName, address: Ipv4Addr) -> ProxyAnswer {
        let asking = status_line(address);
        let answer = match tokio::time::timeout(PROXY_PATIENCE, asking).await {
            Ok(Ok(line)) => judged(&line),
            // Why it does not answer matters to nobody here; that it does not is acted upon.
            Ok(Err(_)) | Err(_) => ProxyAnswer::Nothing,
        };
        // It also says that it is in step before it has told the kernel anything.
        if answer == ProxyAnswer::InStep && !self.has_service_rules(machine).await {
            return ProxyAnswer::Unproven;
        }
        answer
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let watching = (self.watch_machines(), self.starts());
        stream::unfold(watching, |(mut machines, mut starts)| async {
            tokio::select! {
                ended = machines.next() => {
                    if let Err(error) = ended {
                        tracing::warn!(%error, "could not watch the machines; it is tried again");
                        tokio::time::sleep(WATCH_AGAIN).await;
                    }
                }
                // The sender lives as long as the host, of which the watch has a clone.
                _ = starts.changed() => {}
            }
            Some(((), (machines, starts)))
        })
        .boxed()
    }
}

/// The first bytes of what kube-proxy answers.
async fn status_line(address: Ipv4Addr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((address, PROXY_PORT)).await?;
    let question = format!(
        "GET /healthz HTTP/1.1\r\nHost: {address}:{PROXY_PORT}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(question.as_bytes()).await?;
    let mut line = Vec::new();
    stream.take(STATUS_LINE).read_to_end(&mut line).await?;
    Ok(line)
}

fn judged(line: &[u8]) -> ProxyAnswer {
    let text = String::from_utf8_lossy(line);
    let mut words = text.split_ascii_whitespace();
    let version = words.next().unwrap_or_default();
    match words.next() {
        _ if !version.starts_with("HTTP/") => ProxyAnswer::Nothing,
        Some("200") => ProxyAnswer::InStep,
        Some(_) => ProxyAnswer::Behind,
        None => ProxyAnswer::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn kube_proxy_works_if_it_says_so_and_whoever_else_answers_is_none() {
        let answers = [
            ("HTTP/1.1 200 OK\r\nContent-Type: app", ProxyAnswer::InStep),
            ("HTTP/1.1 503 Service Unavailable\r\n", ProxyAnswer::Behind),
            ("SSH-2.0-OpenSSH_9.6 200", ProxyAnswer::Nothing),
            ("HTTP/1.1", ProxyAnswer::Nothing),
            ("", ProxyAnswer::Nothing),
        ];
        for (line, expected) in answers {
            assert_eq!(judged(line.as_bytes()), expected, "{line}");
        }
        assert_eq!(judged(&[0xff, 0xfe]), ProxyAnswer::Nothing);
    }
}

//! The proxy in a tenant, on loopback: straight to an API server, and through a server of the tunnel.

use std::{net::SocketAddr, time::Duration};

use butler_runtime::shutdown::Shutdown;
use butler_tunnel::{
    tcp_proxy::{Target, TcpProxy, TcpProxySettings},
    tls::ClientTls,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::kit::{self, Office, PATIENCE, any_port, echo};

/// A proxy that leads there, until it is dropped.
struct Running {
    address: SocketAddr,
    shutdown: Shutdown,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

fn proxy(target: Target) -> Running {
    let settings = TcpProxySettings {
        address: any_port(),
        target,
        dial_timeout: Duration::from_secs(5),
        max_connections: 16,
    };
    let proxy = TcpProxy::bind(settings).unwrap();
    let address = proxy.address();
    let shutdown = Shutdown::new();
    butler_runtime::task::spawn("tcp-proxy", proxy.run(shutdown.clone()));
    Running { address, shutdown }
}

fn direct(address: SocketAddr) -> Target {
    Target::Direct(address.to_string().parse().unwrap())
}

fn through(office: &Office, server: SocketAddr) -> Target {
    Target::ThroughTunnel {
        server: server.to_string().parse().unwrap(),
        tls: ClientTls::of_passage(office.authority()),
    }
}

/// Says something, ends its half, and hears all that comes back.
async fn say(address: SocketAddr, words: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(words).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let heard = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    // A connection that is not led on may end in a reset.
    drop(heard.expect("an end in time"));
    answer
}

#[tokio::test]
async fn a_pod_speaks_with_its_api_server_as_if_nobody_stood_between() {
    let proxy = proxy(direct(echo().await));
    let words = vec![b'x'; 1 << 20];
    assert_eq!(say(proxy.address, &words).await.len(), words.len());
}

#[tokio::test]
async fn a_pod_reaches_an_api_server_that_only_the_tunnel_leads_to() {
    let office = Office::new();
    let mut settings = office.server_settings();
    settings.api_server = Some(echo().await.to_string().parse().unwrap());
    let server = kit::serve(settings).await;
    let proxy = proxy(through(&office, server.agent_address));
    assert_eq!(say(proxy.address, b"hello").await, b"hello");
    // Agents use the same port, and are not disturbed.
    let agent = kit::join(office.agent_settings(server.agent_address));
    agent.is_connected_to(1).await;
}

#[tokio::test]
async fn a_tunnel_that_was_not_told_to_leads_nobody_to_its_api_server() {
    let office = Office::new();
    let server = kit::serve(office.server_settings()).await;
    let proxy = proxy(through(&office, server.agent_address));
    assert_eq!(say(proxy.address, b"hello").await, b"");
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_taken_for_the_tunnel() {
    let office = Office::new();
    let mut settings = office.server_settings();
    settings.api_server = Some(echo().await.to_string().parse().unwrap());
    let server = kit::serve(settings).await;
    let proxy = proxy(through(&Office::new(), server.agent_address));
    assert_eq!(say(proxy.address, b"hello").await, b"");
}

#[tokio::test]
async fn a_probe_does_not_trouble_the_api_server() {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let proxy = proxy(direct(listener.local_addr().unwrap()));
    assert_eq!(say(proxy.address, b"").await, b"");
    // The first who comes is the one who speaks.
    let speaker = say(proxy.address, b"hello");
    let listening = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        heard
    };
    let (_, heard) = tokio::join!(speaker, listening);
    assert_eq!(heard, b"hello");
}

#[tokio::test]
async fn two_proxies_share_the_port_of_one_node() {
    let target = echo().await;
    let first = proxy(direct(target));
    let settings = TcpProxySettings {
        address: first.address,
        target: direct(target),
        dial_timeout: Duration::from_secs(5),
        max_connections: 16,
    };
    let second = TcpProxy::bind(settings).expect("room for two");
    assert_eq!(second.address(), first.address);
}

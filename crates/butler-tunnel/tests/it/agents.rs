//! Agents and servers that come and go.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use butler_testkit::process::until;
use butler_tunnel::Failure;
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
};

use crate::kit::{self, Office, PATIENCE, any_port, connect, echo, echoes, tunnel};

#[tokio::test]
async fn an_agent_comes_back_when_its_server_was_killed() {
    let office = Office::new();
    let (mut server, agent) = tunnel(&office).await;
    let address = server.agent_address;
    let echo = echo().await;
    let mut stream = connect(&server.socket, echo).await.unwrap();
    assert!(echoes(&mut stream, b"before").await);
    server.process.kill();
    agent.is_connected_to(0).await;
    agent.has_streams(0).await;

    let mut settings = office.server_settings();
    settings.agent_address = address;
    // The port is free as soon as the old threads have ended.
    let again = until(PATIENCE, async || {
        TcpListener::bind(address).await.ok().map(drop)
    });
    again.await.expect("the port is free");
    let server = kit::serve(settings).await;
    agent.is_connected_to(1).await;
    let mut stream = connect(&server.socket, echo).await.unwrap();
    assert!(echoes(&mut stream, b"after").await);
}

#[tokio::test]
async fn another_agent_takes_over_when_one_is_killed() {
    let office = Office::new();
    let (server, mut first) = tunnel(&office).await;
    let echo = echo().await;
    let mut stream = connect(&server.socket, echo).await.unwrap();
    assert!(echoes(&mut stream, b"by the first").await);
    let second = kit::join(office.agent_settings(server.agent_address));
    server.process.is_connected_to(2).await;

    first.kill();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(rest, b"", "its streams end");
    for _ in 0..10 {
        let mut stream = connect(&server.socket, echo).await.expect("never refused");
        assert!(echoes(&mut stream, b"by the second").await);
    }
    server.process.is_connected_to(1).await;
    assert_eq!(second.metrics.connections(), 1);
}

#[tokio::test]
async fn streams_are_spread_over_agents() {
    let office = Office::new();
    let server = kit::serve(office.server_settings()).await;
    let agents = [(); 3].map(|()| kit::join(office.agent_settings(server.agent_address)));
    server.process.is_connected_to(3).await;
    let echo = echo().await;
    let mut streams = Vec::new();
    for _ in 0..12 {
        streams.push(connect(&server.socket, echo).await.unwrap());
    }
    for agent in &agents {
        agent.has_streams(4).await;
    }
    // The one that has the fewest is next, whoever's turn it is.
    streams.drain(..6).for_each(drop);
    server.process.has_streams(6).await;
    for _ in 0..6 {
        streams.push(connect(&server.socket, echo).await.unwrap());
    }
    for agent in &agents {
        agent.has_streams(4).await;
    }
}

#[tokio::test]
async fn a_connection_waits_for_an_agent_that_is_about_to_come() {
    let office = Office::new();
    let server = kit::serve(office.server_settings()).await;
    let echo = echo().await;
    let early = connect(&server.socket, echo);
    let agent = kit::join(office.agent_settings(server.agent_address));
    let mut stream = early.await.expect("it waits");
    assert!(echoes(&mut stream, b"patience").await);
    drop(agent);
}

#[tokio::test]
async fn without_any_agent_the_api_server_is_told_so() {
    let office = Office::new();
    let server = kit::serve(office.server_settings()).await;
    let error = connect(&server.socket, "10.0.0.1:443").await.unwrap_err();
    assert_eq!(
        error,
        "HTTP/1.1 503 no agent of the tunnel is connected; do its pods run in the tenant cluster?"
    );
    assert_eq!(server.process.metrics.failures(Failure::NoAgent), 1);
}

#[tokio::test]
async fn an_agent_that_is_asked_to_end_finishes_its_streams() {
    let office = Office::new();
    let (server, mut leaving) = tunnel(&office).await;
    let echo = echo().await;
    let mut old = connect(&server.socket, echo).await.unwrap();
    assert!(echoes(&mut old, b"before").await);
    let staying = kit::join(office.agent_settings(server.agent_address));
    server.process.is_connected_to(2).await;

    leaving.shutdown.begin();
    for number in 1..=10 {
        let mut new = connect(&server.socket, echo).await.expect("never refused");
        assert!(echoes(&mut new, b"new").await, "{number}");
        assert!(echoes(&mut old, b"still there").await, "{number}");
    }
    assert_eq!(leaving.metrics.streams_open(), 1, "no new ones");
    drop(old);
    leaving.has_ended().await;
    server.process.is_connected_to(1).await;
    assert_eq!(staying.metrics.connections(), 1);
}

#[tokio::test]
async fn a_server_that_is_asked_to_end_finishes_its_streams() {
    let office = Office::new();
    let (mut server, _agent) = tunnel(&office).await;
    let mut stream = connect(&server.socket, echo().await).await.unwrap();
    assert!(echoes(&mut stream, b"before").await);
    server.process.shutdown.begin();
    let gone = until(PATIENCE, async || (!server.socket.exists()).then_some(()));
    gone.await.expect("nobody can ask any more");
    assert!(echoes(&mut stream, b"after").await);
    drop(stream);
    server.process.has_ended().await;
}

/// What stands before several servers: each connection goes to the next one, and nobody can choose.
struct Service {
    address: SocketAddr,
    backends: Arc<Mutex<Vec<SocketAddr>>>,
    connections: Arc<AtomicUsize>,
}

impl Service {
    async fn new(backends: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind(any_port()).await.unwrap();
        let service = Self {
            address: listener.local_addr().unwrap(),
            backends: Arc::new(Mutex::new(backends)),
            connections: Arc::default(),
        };
        let (backends, connections) = (
            Arc::clone(&service.backends),
            Arc::clone(&service.connections),
        );
        butler_runtime::task::spawn("service", async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let number = connections.fetch_add(1, Ordering::SeqCst);
                let backend = {
                    let backends = backends.lock().unwrap();
                    backends[number % backends.len()]
                };
                butler_runtime::task::spawn("forward", async move {
                    if let Ok(mut far) = TcpStream::connect(backend).await {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        service
    }
}

#[tokio::test]
async fn an_agent_connects_to_every_server_behind_one_address() {
    let office = Office::new();
    let replica = || {
        let mut settings = office.server_settings();
        settings.count = 3;
        kit::serve(settings)
    };
    let servers = [replica().await, replica().await, replica().await];
    let service = Service::new(servers.iter().map(|server| server.agent_address).collect()).await;
    let agents = [(); 2].map(|()| kit::join(office.agent_settings(service.address)));
    for agent in &agents {
        agent.is_connected_to(3).await;
    }
    let echo = echo().await;
    for server in &servers {
        server.process.is_connected_to(2).await;
        let mut stream = connect(&server.socket, echo).await.unwrap();
        assert!(echoes(&mut stream, b"by any of them").await);
    }
    // Agents that have all of them do not go on dialling.
    assert!(service.connections.load(Ordering::SeqCst) < 40);
}

#[tokio::test]
async fn an_agent_finds_a_server_that_was_started_later() {
    let office = Office::new();
    let old = kit::serve(office.server_settings()).await;
    let service = Service::new(vec![old.agent_address]).await;
    let mut settings = office.agent_settings(service.address);
    settings.discovery_interval = Duration::from_millis(50);
    let agent = kit::join(settings);
    agent.is_connected_to(1).await;

    // A rollout: the new one comes before the old one goes, and both say that there is one of them.
    let new = kit::serve(office.server_settings()).await;
    service.backends.lock().unwrap().push(new.agent_address);
    new.process.is_connected_to(1).await;
    assert_eq!(
        old.process.metrics.connections(),
        1,
        "the old one is not left"
    );
    let refusals = old.process.metrics.refusals() + new.process.metrics.refusals();
    assert_eq!(refusals, 0, "to look for servers is no offence");
}

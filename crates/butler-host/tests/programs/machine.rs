//! What the tests run inside of machines.
//!
//! `init` is the first process; `listen PORT WORDS` answers every connection with words, `mirror PORT` with the caller's
//! address; `connect ADDRESS:PORT` prints what it was answered, and tries until it is; `reach ADDRESS:PORT` tries once and
//! prints what came of it, and so does `ask ADDRESS:PORT` over UDP; `make STATE CLUSTER BRIDGE ADDRESS SPECIFICATION` makes and starts a
//! machine, on the host. Called `containerd` or `kubelet`, it stands in for them: it opens the socket, or waits to be ended.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixListener,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use butler_host::{
    host::{Host, HostConfig},
    init::{self, InitConfig},
    machine::MachineSpec,
    network::NetworkSpec,
};

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let called = Path::new(words[0])
        .file_name()
        .and_then(|name| name.to_str());
    let done = match (called, &words[1..]) {
        (Some("containerd"), _) => stand_in_for_containerd(),
        (Some("kubelet"), _) => stand_in_for_kubelet(),
        (_, ["init"]) => init::run(&InitConfig::default()).map_err(io::Error::other),
        (_, ["make", directory, cluster, bridge, address, spec]) => {
            make([directory, cluster, bridge, address], spec)
        }
        (_, ["listen", port, answer]) => listen(port, Some(answer)),
        (_, ["mirror", port]) => listen(port, None),
        (_, ["connect", address]) => connect(address),
        (_, ["reach", address]) => reach(address),
        (_, ["ask", address]) => ask(address),
        _ => Err(io::Error::other(
            "init | make … | listen PORT WORDS | mirror PORT | connect ADDRESS:PORT | reach ADDRESS:PORT | ask ADDRESS:PORT",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// A process of its own on the host, which can be killed.
fn make([directory, cluster, bridge, address]: [&str; 4], spec: &str) -> io::Result<()> {
    let spec: MachineSpec = serde_json::from_str(spec)?;
    let config = HostConfig {
        state_directory: directory.into(),
        cluster: cluster.parse().map_err(io::Error::other)?,
        network: NetworkSpec::new(
            bridge.parse().map_err(io::Error::other)?,
            address.parse().map_err(io::Error::other)?,
        ),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let host = Host::open(config).map_err(io::Error::other)?;
        let name = host.create(spec).await.map_err(io::Error::other)?.name;
        host.start(&name).await.map_err(io::Error::other)?;
        Ok(())
    })
}

fn listen(port: &str, answer: Option<&str>) -> io::Result<()> {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}"))?;
    loop {
        let (mut connection, caller) = listener.accept()?;
        let mirrored = caller.ip().to_string();
        // A caller that is gone already concerns nobody else.
        let _ = connection.write_all(answer.unwrap_or(&mirrored).as_bytes());
    }
}

/// Once, and not for long.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);

fn reach(address: &str) -> io::Result<()> {
    let address = address.parse().map_err(io::Error::other)?;
    let answer = TcpStream::connect_timeout(&address, SHORT_PATIENCE).and_then(|mut connection| {
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    });
    tell(answer)
}

fn ask(address: &str) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(SHORT_PATIENCE))?;
    socket.send(b"?")?;
    let mut answer = [0; 512];
    tell(
        socket
            .recv(&mut answer)
            .map(|length| String::from_utf8_lossy(&answer[..length]).into_owned()),
    )
}

/// The answer, or in a word why there is none.
fn tell(answer: io::Result<String>) -> io::Result<()> {
    let words = answer.or_else(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => Ok("refused".to_owned()),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            Ok("unreachable".to_owned())
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Ok("silence".to_owned()),
        _ => Err(error),
    })?;
    io::stdout().write_all(words.as_bytes())
}

/// The other machine may not listen yet.
fn connect(address: &str) -> io::Result<()> {
    let begin = Instant::now();
    let mut connection = loop {
        match TcpStream::connect(address) {
            Err(_) if begin.elapsed() < PATIENCE => std::thread::yield_now(),
            other => break other?,
        }
    };
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    io::stdout().write_all(answer.as_bytes())
}

fn stand_in_for_containerd() -> io::Result<()> {
    let socket = Path::new("/run/containerd/containerd.sock");
    fs::create_dir_all(socket.parent().unwrap_or(socket))?;
    let _ = fs::remove_file(socket);
    for connection in UnixListener::bind(socket)?.incoming() {
        drop(connection?);
    }
    Ok(())
}

/// Its arguments are seen in `/proc`.
fn stand_in_for_kubelet() -> io::Result<()> {
    loop {
        std::thread::park();
    }
}

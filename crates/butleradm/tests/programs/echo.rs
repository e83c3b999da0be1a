//! A program for pods of tests: `echo serve PORT` answers each request with the name of its pod; `echo fetch HOST:PORT…` asks
//! each and prints what it answers; `echo reach HOST:PORT` says whether a connection can be made; `echo show FILE…` prints what
//! is in each; `echo guard PORT DIRECTORY` answers an API server over TLS.

mod guard;

use std::{
    env,
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream, ToSocketAddrs as _},
    process::ExitCode,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("serve") => serve(&arguments[1]),
        Some("fetch") => arguments[1..].iter().try_for_each(|place| fetch(place)),
        Some("reach") => connect(&arguments[1]).map(drop),
        Some("show") => arguments[1..].iter().try_for_each(|file| show(file)),
        Some("guard") => guard::serve(&arguments[1], &arguments[2]),
        _ => Err(io::Error::other(
            "serve PORT, fetch HOST:PORT…, reach HOST:PORT, show FILE… or guard PORT DIRECTORY",
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

fn serve(port: &str) -> io::Result<()> {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}"))?;
    let name = own_name()?;
    say(&format!("{name} serves on port {port}"))?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        // Who hangs up at once, as a probe does, is no trouble of ours.
        drop(stream.write_all(format!("{name}\n").as_bytes()));
    }
    Ok(())
}

/// The name of the pod.
fn own_name() -> io::Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    Ok(name.trim().to_owned())
}

/// A line of the pod's log.
fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

fn connect(place: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("no address");
    for address in place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn fetch(place: &str) -> io::Result<()> {
    let mut stream = connect(place)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    io::stdout().write_all(answer.as_bytes())
}

fn show(file: &str) -> io::Result<()> {
    io::stdout().write_all(&std::fs::read(file)?)
}

//! What the tests run inside of machines.
//!
//! `listen PORT WORDS` answers every connection with words; `connect ADDRESS:PORT` prints what it was answered.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::ExitCode,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["listen", port, answer] => listen(port, answer),
        ["connect", address] => connect(address),
        _ => Err(io::Error::other("listen PORT WORDS | connect ADDRESS:PORT")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn listen(port: &str, answer: &str) -> io::Result<()> {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}"))?;
    for connection in listener.incoming() {
        connection?.write_all(answer.as_bytes())?;
    }
    Ok(())
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

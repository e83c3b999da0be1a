//! A download mirror on the loopback address that counts what it serves and can break off.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use butler_assets::Digest;

/// A mirror with files; it serves until the test process ends.
pub(crate) struct Mirror {
    pub(crate) base: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    requests: Vec<Request>,
    /// How many bytes of a body are sent before the connection breaks.
    break_after: Option<usize>,
    /// How many responses still break.
    breaks_left: usize,
}

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) from: Option<usize>,
    pub(crate) sent: usize,
}

impl Mirror {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let served = Arc::clone(&state);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // A client that goes away is its own business.
                drop(answer(connection, &served));
            }
        });
        Self { base, state }
    }

    /// An address on which nothing listens.
    pub(crate) fn nowhere() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    pub(crate) fn serve(&self, path: &str, content: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.files.insert(format!("/{path}"), content.to_vec());
    }

    /// Serves a file and, beside it, its checksum.
    pub(crate) fn publish(&self, path: &str, content: &[u8]) {
        self.serve(path, content);
        self.serve(
            &format!("{path}.sha256"),
            Digest::of(content).as_hex().as_bytes(),
        );
    }

    /// The next `times` large responses end after `bytes`.
    pub(crate) fn break_off(&self, bytes: usize, times: usize) {
        let mut state = self.state.lock().unwrap();
        state.break_after = Some(bytes);
        state.breaks_left = times;
    }

    /// What was asked for, without the checksum files.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let state = self.state.lock().unwrap();
        let is_checksum =
            |request: &&Request| request.path.contains("sha256") || request.path.contains("SHA256");
        state
            .requests
            .iter()
            .filter(|request| !is_checksum(request))
            .cloned()
            .collect()
    }
}

fn answer(mut connection: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut from = None;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse::<usize>().ok();
        }
    }
    let mut state = state.lock().unwrap();
    let Some(file) = state.files.get(&path).cloned() else {
        return connection.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    let (status, rest) = match from {
        Some(from) if from < file.len() => ("206 Partial Content", &file[from..]),
        Some(_) => ("416 Range Not Satisfiable", &file[..0]),
        None => ("200 OK", &file[..]),
    };
    let mut sent = rest.len();
    if let Some(limit) = state
        .break_after
        .filter(|limit| *limit < sent && state.breaks_left > 0)
    {
        sent = limit;
        state.breaks_left -= 1;
    }
    state.requests.push(Request { path, from, sent });
    drop(state);
    let length = rest.len();
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    connection.write_all(&rest[..sent])
}

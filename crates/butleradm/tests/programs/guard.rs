//! Answers an API server over TLS: as a validating webhook, and as an API of its own beside the API server's.
//!
//! Only as much of HTTP as an API server speaks to such a program: one request for each connection.

use std::{
    io::{self, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};

/// Objects with this label are refused, whatever its value.
const FORBIDDEN: &str = "story.example/forbidden";
/// The API of its own.
const GROUP_VERSION: &str = "story.example/v1";
/// How long a client may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// No review of a test is larger.
const LARGEST_BODY: u64 = 1 << 20;

/// What was asked.
struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
}

/// Serves on a port, with `tls.crt` and `tls.key` of a directory.
pub(crate) fn serve(port: &str, directory: &str) -> io::Result<()> {
    let settings = Arc::new(settings(Path::new(directory))?);
    let listener = TcpListener::bind(format!("0.0.0.0:{port}"))?;
    let name = super::own_name()?;
    super::say(&format!("{name} guards on port {port}"))?;
    for stream in listener.incoming() {
        let (stream, settings, name) = (stream?, Arc::clone(&settings), name.clone());
        std::thread::spawn(move || {
            // A probe hangs up before it has said anything: that is no trouble of ours.
            if let Err(error) = converse(stream, settings, &name) {
                drop(super::say(&format!("a conversation ended early: {error}")));
            }
        });
    }
    Ok(())
}

fn settings(directory: &Path) -> io::Result<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(directory.join("tls.crt"))
        .and_then(std::iter::Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(directory.join("tls.key")).map_err(io::Error::other)?;
    ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(io::Error::other)
}

fn converse(stream: TcpStream, settings: Arc<ServerConfig>, name: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let connection = ServerConnection::new(settings).map_err(io::Error::other)?;
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let request = read(&mut reader)?;
    let (status, answer) = answer(&request, name);
    super::say(&format!("{} {}: {status}", request.method, request.path))?;
    let body = answer.to_string();
    let stream = reader.get_mut();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn read(reader: &mut impl io::BufRead) -> io::Result<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines.first().map_or("", String::as_str).split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    let length = lines
        .iter()
        .filter_map(|line| line.split_once(':'))
        .find(|(header, _)| header.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, length)| length.trim().parse().ok())
        .unwrap_or(0_u64);
    let mut body = Vec::new();
    reader
        .take(length.min(LARGEST_BODY))
        .read_to_end(&mut body)?;
    Ok(Request { method, path, body })
}

fn answer(request: &Request, name: &str) -> (&'static str, Value) {
    let path = request.path.split('?').next().unwrap_or_default();
    let own = path
        .strip_prefix("/apis/")
        .and_then(|path| path.strip_prefix(GROUP_VERSION));
    match (request.method.as_str(), own) {
        ("POST", None) => ("200 OK", review(&request.body)),
        ("GET", Some("")) => ("200 OK", discovery()),
        ("GET", Some("/greetings/guard")) => {
            let greeting = json!({
                "apiVersion": GROUP_VERSION,
                "kind": "Greeting",
                "metadata": { "name": "guard" },
                "pod": name,
            });
            ("200 OK", greeting)
        }
        _ => {
            let nothing = json!({
                "apiVersion": "v1",
                "kind": "Status",
                "status": "Failure",
                "reason": "NotFound",
                "code": 404,
            });
            ("404 Not Found", nothing)
        }
    }
}

/// What the API is made of, as an API server asks before it believes in it.
fn discovery() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": GROUP_VERSION,
        "resources": [{
            "name": "greetings",
            "singularName": "greeting",
            "namespaced": false,
            "kind": "Greeting",
            "verbs": ["get"],
        }],
    })
}

fn review(body: &[u8]) -> Value {
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let request = &asked["request"];
    let allowed = request["object"]["metadata"]["labels"]
        .get(FORBIDDEN)
        .is_none();
    let mut response = json!({ "uid": request["uid"], "allowed": allowed });
    if !allowed {
        response["status"] =
            json!({ "code": 403, "message": "the guard lets nothing forbidden in" });
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

//! A registry that can only be read, over HTTP: what containerd asks of a mirror.

use std::{io, net::SocketAddr, os::unix::fs::FileExt as _, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderValue, Method, Request, Response, StatusCode, header},
};
use futures::stream;
use serde_json::json;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    Library,
    library::{Found, Source},
    route::{Route, range, registry, route},
};

/// How much is read at once.
const CHUNK: u64 = 256 * 1024;
/// How long downloads may go on when the mirror is to end.
const GRACE: Duration = Duration::from_secs(3);
const API_VERSION: &str = "docker-distribution-api-version";
const CONTENT_DIGEST: &str = "docker-content-digest";

/// A mirror that listens.
#[derive(Debug)]
pub struct Mirror {
    listener: TcpListener,
    address: SocketAddr,
    library: Arc<Library>,
}

/// Why there is no mirror.
#[derive(Debug, Error)]
pub enum MirrorError {
    /// The address cannot be had.
    #[error(
        "the mirror of images cannot listen on {address}; end the program that has the port, or choose another address"
    )]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// It listened, and does no more.
    #[error("the mirror of images on {address} has ended")]
    Serve {
        /// Where it listened.
        address: SocketAddr,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
}

impl Mirror {
    /// Listens on an address. It must be one that only machines reach: anybody who reaches it may read every image.
    pub async fn bind(address: SocketAddr, library: Arc<Library>) -> Result<Self, MirrorError> {
        let failed = |source| MirrorError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            library,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until it is told to end.
    pub async fn serve(self, stop: CancellationToken) -> Result<(), MirrorError> {
        let router = Router::new().fallback(answer).with_state(self.library);
        let served = axum::serve(self.listener, router)
            .with_graceful_shutdown(stop.clone().cancelled_owned());
        let address = self.address;
        tokio::select! {
            served = served => served.map_err(|source| MirrorError::Serve { address, source }),
            () = async {
                stop.cancelled().await;
                tokio::time::sleep(GRACE).await;
            } => Ok(()),
        }
    }
}

async fn answer(State(library): State<Arc<Library>>, request: Request<Body>) -> Response<Body> {
    let route = route(request.uri().path());
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return refusal(
            StatusCode::METHOD_NOT_ALLOWED,
            "UNSUPPORTED",
            "this registry can only be read",
        );
    }
    let registry = registry(request.uri().query().unwrap_or_default());
    let unknown = match &route {
        Route::Base => return base(),
        Route::Unknown => {
            return refusal(
                StatusCode::NOT_FOUND,
                "UNSUPPORTED",
                "this registry has manifests and blobs, and nothing else",
            );
        }
        Route::Manifest { .. } => "MANIFEST_UNKNOWN",
        Route::Blob { .. } => "BLOB_UNKNOWN",
    };
    // Looking means listing a directory, and sometimes reading an archive's table of contents.
    let found = tokio::task::spawn_blocking(move || match route {
        Route::Manifest { name, reference } => {
            library.manifest(registry.as_deref(), &name, &reference)
        }
        Route::Blob { digest } => library.blob(&digest),
        Route::Base | Route::Unknown => Ok(None),
    })
    .await;
    match found {
        Ok(Ok(Some(found))) => {
            let wanted = request.headers().get(header::RANGE);
            let wanted = wanted.and_then(|value| value.to_str().ok());
            content(found, request.method() == Method::HEAD, wanted)
        }
        Ok(Ok(None)) => refusal(
            StatusCode::NOT_FOUND,
            unknown,
            "no archive of this host has it",
        ),
        Ok(Err(error)) => {
            tracing::warn!(error = %error, "the library of images cannot be used");
            broken()
        }
        Err(error) => {
            tracing::warn!(error = %error, "a request for an image was given up");
            broken()
        }
    }
}

fn base() -> Response<Body> {
    let mut response = Response::new(Body::from("{}"));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, json_type());
    headers.insert(API_VERSION, HeaderValue::from_static("registry/2.0"));
    response
}

fn content(found: Found, head: bool, wanted: Option<&str>) -> Response<Body> {
    let size = match &found.source {
        Source::File(_, position) => position.size,
        Source::Memory(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
    };
    let Ok(part) = range(wanted, size) else {
        return refusal(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "SIZE_INVALID",
            "it has no such bytes",
        );
    };
    let (from, count) = part.unwrap_or((0, size));
    let body = if head {
        Body::empty()
    } else {
        bytes(found.source, from, count)
    };
    let mut response = Response::new(body);
    let mut set = |name: &'static str, value: String| {
        // A media type or digest of an archive may hold anything.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    };
    set("content-type", found.media_type);
    set(CONTENT_DIGEST, found.digest);
    set("content-length", count.to_string());
    set("accept-ranges", "bytes".to_owned());
    if part.is_some() {
        set(
            "content-range",
            format!("bytes {from}-{}/{size}", from + count - 1),
        );
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}

/// Reads while it sends: a layer may have hundreds of megabytes.
fn bytes(source: Source, from: u64, count: u64) -> Body {
    match source {
        Source::Memory(bytes) => {
            let start = usize::try_from(from).unwrap_or(usize::MAX);
            let length = usize::try_from(count).unwrap_or(usize::MAX);
            let part = bytes.get(start..).unwrap_or_default();
            Body::from(part[..part.len().min(length)].to_vec())
        }
        Source::File(file, position) => {
            let begin = (position.offset + from, count);
            Body::from_stream(stream::try_unfold(begin, move |(offset, left)| {
                let file = Arc::clone(&file);
                async move {
                    if left == 0 {
                        return Ok(None);
                    }
                    let length = left.min(CHUNK);
                    let size = usize::try_from(length).map_err(io::Error::other)?;
                    let read = tokio::task::spawn_blocking(move || {
                        let mut buffer = vec![0; size];
                        file.read_exact_at(&mut buffer, offset).map(|()| buffer)
                    });
                    let buffer = read.await.map_err(io::Error::other)??;
                    io::Result::Ok(Some((buffer, (offset + length, left - length))))
                }
            }))
        }
    }
}

fn broken() -> Response<Body> {
    refusal(
        StatusCode::INTERNAL_SERVER_ERROR,
        "UNKNOWN",
        "the host cannot read its images; its log says why",
    )
}

/// An error as the specification of registries wants it.
fn refusal(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    let body = json!({"errors": [{"code": code, "message": message}]}).to_string();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, json_type());
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn json_type() -> HeaderValue {
    HeaderValue::from_static("application/json")
}

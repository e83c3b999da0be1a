//! The mirror, as a client of a registry sees it. It listens on the loopback interface.

use std::{path::Path, sync::Arc};

use butler_assets::oci::{Archive, EXECUTABLE, Image};
use butler_host::images::{Library, Mirror, MirrorError};
use pretty_assertions::assert_eq;
use reqwest::{Client, Method, Response, StatusCode, header};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const REFERENCE: &str = "registry.k8s.io/coredns/coredns:v1.14.2";

fn archive(path: &Path, content: &str) -> Archive {
    let mut image = Image::new(REFERENCE);
    image.text(content, "/coredns", EXECUTABLE).unwrap();
    image.write_archive(path).unwrap()
}

struct Served {
    directory: tempfile::TempDir,
    base: String,
    stop: CancellationToken,
    serving: JoinSet<Result<(), MirrorError>>,
}

impl Served {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let library = Arc::new(Library::open(directory.path()).unwrap());
        let mirror = Mirror::bind("127.0.0.1:0".parse().unwrap(), library)
            .await
            .unwrap();
        let base = format!("http://{}", mirror.address());
        let stop = CancellationToken::new();
        let mut serving = JoinSet::new();
        serving.spawn(mirror.serve(stop.clone()));
        Self {
            directory,
            base,
            stop,
            serving,
        }
    }

    async fn ask(&self, method: Method, path: &str, range: Option<&str>) -> Response {
        let mut request = Client::new().request(method, format!("{}{path}", self.base));
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        request.send().await.unwrap()
    }

    async fn get(&self, path: &str) -> Response {
        self.ask(Method::GET, path, None).await
    }
}

fn head<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers()[name].to_str().unwrap()
}

#[tokio::test]
async fn an_image_is_pulled_as_from_its_own_registry() {
    let mut served = Served::new().await;
    assert_eq!(served.get("/v2/").await.status(), StatusCode::OK);
    let tag = "/v2/coredns/coredns/manifests/v1.14.2?ns=registry.k8s.io";
    assert_eq!(served.get(tag).await.status(), StatusCode::NOT_FOUND);

    // A user adds it while the mirror runs.
    let made = archive(&served.directory.path().join("coredns.tar"), "program");
    let looked = served.ask(Method::HEAD, tag, None).await;
    assert_eq!(looked.status(), StatusCode::OK);
    let digest = format!("sha256:{}", made.manifest);
    assert_eq!(head(&looked, "docker-content-digest"), digest);
    let length: usize = head(&looked, "content-length").parse().unwrap();

    let manifest = served
        .get(&format!(
            "/v2/coredns/coredns/manifests/{digest}?ns=registry.k8s.io"
        ))
        .await;
    assert_eq!(
        head(&manifest, "content-type"),
        "application/vnd.oci.image.manifest.v1+json"
    );
    let bytes = manifest.bytes().await.unwrap();
    assert_eq!(bytes.len(), length);
    assert_eq!(butler_assets::Digest::of(&bytes), made.manifest);

    let layer = format!("/v2/coredns/coredns/blobs/sha256:{}", made.layer);
    let whole = served.get(&layer).await.bytes().await.unwrap();
    assert_eq!(butler_assets::Digest::of(&whole), made.layer);
    let rest = served.ask(Method::GET, &layer, Some("bytes=100-")).await;
    assert_eq!(rest.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(
        head(&rest, "content-range"),
        format!("bytes 100-{}/{}", whole.len() - 1, whole.len())
    );
    assert_eq!(rest.bytes().await.unwrap(), whole[100..]);
    let beyond = served
        .ask(Method::GET, &layer, Some("bytes=99999999-"))
        .await;
    assert_eq!(beyond.status(), StatusCode::RANGE_NOT_SATISFIABLE);

    served.stop.cancel();
    served.serving.join_next().await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn what_is_not_there_or_not_allowed_is_told_as_registries_do() {
    let served = Served::new().await;
    archive(&served.directory.path().join("coredns.tar"), "program");
    let absent = "0".repeat(64);
    for (method, path, status, code) in [
        (
            Method::GET,
            "/v2/coredns/coredns/manifests/v9?ns=registry.k8s.io".to_owned(),
            StatusCode::NOT_FOUND,
            "MANIFEST_UNKNOWN",
        ),
        (
            Method::GET,
            "/v2/coredns/coredns/manifests/v1.14.2?ns=docker.io".to_owned(),
            StatusCode::NOT_FOUND,
            "MANIFEST_UNKNOWN",
        ),
        (
            Method::GET,
            format!("/v2/coredns/coredns/blobs/sha256:{absent}"),
            StatusCode::NOT_FOUND,
            "BLOB_UNKNOWN",
        ),
        (
            Method::PUT,
            "/v2/coredns/coredns/manifests/v1.14.2".to_owned(),
            StatusCode::METHOD_NOT_ALLOWED,
            "UNSUPPORTED",
        ),
        (
            Method::POST,
            "/v2/coredns/coredns/blobs/uploads/".to_owned(),
            StatusCode::METHOD_NOT_ALLOWED,
            "UNSUPPORTED",
        ),
        (
            Method::GET,
            "/etc/passwd".to_owned(),
            StatusCode::NOT_FOUND,
            "UNSUPPORTED",
        ),
    ] {
        let answer = served.ask(method, &path, None).await;
        assert_eq!(answer.status(), status, "{path}");
        let body: serde_json::Value =
            serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(body["errors"][0]["code"], code, "{path}");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_told() {
    let served = Served::new().await;
    let library = Arc::new(Library::open(served.directory.path()).unwrap());
    let address = served.base["http://".len()..].parse().unwrap();
    let error = Mirror::bind(address, library).await.unwrap_err();
    assert!(error.to_string().contains("has the port"), "{error}");
}

//! Downloads a published file with its checksum, continuing what an earlier try began.
//!
//! A place that cannot be reached is remembered for the life of the process, so that twenty assets do not wait twenty
//! times for the same closed network.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::header::RANGE;
use reqwest::{Client, Response, StatusCode};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;

use crate::asset::Asset;
use crate::cache::Store;
use crate::catalog::DownloadRecipe;
use crate::digest::{Digest, length, stated_digest};
use crate::error::{Error, chain};
use crate::lock;
use crate::progress::{Event, Progress};
use crate::settings::{MIRROR, Source};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a connection may be silent before the try counts as interrupted.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How often an interrupted download is continued before another source is tried.
const TRIES: u32 = 5;
const PAUSE_BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// No project's checksum file is nearly this large; a web page in its place may be.
const CHECKSUM_FILE_LIMIT: usize = 1024 * 1024;

/// Mirror bases that could not be reached, and why.
static UNREACHABLE: LazyLock<Mutex<BTreeMap<String, String>>> = LazyLock::new(Mutex::default);

/// Why there is no download.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another source may help.
    Unavailable(String),
    /// The place could not be reached before, which was told then.
    KnownUnreachable(String),
    /// No other source may be asked.
    Fatal(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// A published file that is in the blobs now.
#[derive(Debug)]
pub(crate) struct Artifact {
    pub(crate) url: String,
    pub(crate) checksum: Digest,
    pub(crate) path: PathBuf,
}

/// Downloads over one shared connection pool.
#[derive(Debug, Default)]
pub(crate) struct Downloader {
    client: OnceLock<Result<Client, String>>,
}

/// One file on its way into the cache.
struct Transfer<'a> {
    client: &'a Client,
    store: &'a Store,
    progress: &'a dyn Progress,
    asset: &'a Asset,
    url: String,
    expected: Digest,
}

/// How one try ended.
enum Try {
    Complete,
    /// The connection broke; what arrived is kept.
    Interrupted(String),
}

impl Downloader {
    /// Brings the published file of an asset into the blobs, verified.
    pub(crate) async fn fetch(
        &self,
        store: &Store,
        asset: &Asset,
        base: &str,
        recipe: &DownloadRecipe,
        progress: &dyn Progress,
    ) -> Result<Artifact, Failure> {
        if let Some(reason) = remembered().get(base) {
            return Err(Failure::KnownUnreachable(reason.clone()));
        }
        let result = self.fetch_from(store, asset, base, recipe, progress).await;
        match result {
            Err(Broken::Unreachable(reason)) => {
                let first = remembered().insert(base.to_owned(), reason.clone());
                Err(match first {
                    None => Failure::Unavailable(reason),
                    Some(_) => Failure::KnownUnreachable(reason),
                })
            }
            Err(Broken::Other(failure)) => Err(failure),
            Ok(artifact) => Ok(artifact),
        }
    }

    async fn fetch_from(
        &self,
        store: &Store,
        asset: &Asset,
        base: &str,
        recipe: &DownloadRecipe,
        progress: &dyn Progress,
    ) -> Result<Artifact, Broken> {
        let client = self
            .client
            .get_or_init(client)
            .as_ref()
            .map_err(|reason| Failure::Unavailable(reason.clone()))?;
        let url = format!("{base}/{}", recipe.path);
        let checksum_url = format!("{base}/{}", recipe.checksum);
        let expected =
            stated_checksum(client, base, &checksum_url, file_name(&recipe.path)).await?;
        let transfer = Transfer {
            client,
            store,
            progress,
            asset,
            url,
            expected,
        };
        let path = transfer.run(base).await?;
        Ok(Artifact {
            url: transfer.url,
            checksum: transfer.expected,
            path,
        })
    }
}

/// A failure, apart when it is about the place and not about the file.
enum Broken {
    Unreachable(String),
    Other(Failure),
}

impl<T: Into<Failure>> From<T> for Broken {
    fn from(failure: T) -> Self {
        Self::Other(failure.into())
    }
}

impl Transfer<'_> {
    async fn run(&self, base: &str) -> Result<PathBuf, Broken> {
        // Several components share one archive: the first brings it, the others find it.
        let purpose = format!("download-{}", self.expected);
        let _lock = lock::acquire(&self.store.lock_file(&purpose)?, || {
            self.progress.report(
                self.asset,
                Event::Waiting {
                    reason: "another download of the same file",
                },
            );
        })
        .await?;
        if let Some(path) = self.store.existing_blob(&self.expected) {
            return Ok(path);
        }
        let partial = self.store.partial(&self.expected)?;
        let mut resumed = partial.exists();
        loop {
            self.complete(base, &partial).await?;
            let (actual, _) = digest_of(&partial).await?;
            if actual == self.expected {
                return Ok(self.store.adopt_verified(&partial, &self.expected)?);
            }
            remove(&partial).await?;
            if !resumed {
                return Err(Error::ChecksumMismatch {
                    asset: Box::new(self.asset.clone()),
                    url: self.url.clone(),
                    expected: self.expected.clone(),
                    actual,
                }
                .into());
            }
            // The beginning from an earlier run may be the bad part: once more, from nothing.
            resumed = false;
        }
    }

    /// Tries until the file is whole.
    async fn complete(&self, base: &str, partial: &Path) -> Result<(), Broken> {
        let mut last = String::new();
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(PAUSE_BETWEEN_TRIES * attempt).await;
            }
            match self.attempt(base, partial).await? {
                Try::Complete => return Ok(()),
                Try::Interrupted(reason) => last = reason,
            }
        }
        Err(Failure::Unavailable(format!(
            "{} broke off {TRIES} times ({last}); what arrived is kept and continued next time",
            self.url
        ))
        .into())
    }

    async fn attempt(&self, base: &str, partial: &Path) -> Result<Try, Broken> {
        let (digest, have) = if partial.exists() {
            digest_of(partial).await?
        } else {
            (Digest::of(&[]), 0)
        };
        if digest == self.expected {
            return Ok(Try::Complete);
        }
        let mut request = self.client.get(&self.url);
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Err(unreachable(base, &error)),
            Err(error) => return Ok(Try::Interrupted(chain(&error))),
        };
        if have > 0 && response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            // There is nothing after what we have, and what we have is wrong.
            remove(partial).await?;
            return Ok(Try::Interrupted(
                "the server has less than was kept".to_owned(),
            ));
        }
        let response = successful(response, &self.url)?;
        let continues = response.status() == StatusCode::PARTIAL_CONTENT;
        let start = if continues { have } else { 0 };
        self.progress.report(
            self.asset,
            Event::Started {
                source: Source::Download,
                from: &self.url,
                size: response.content_length().map(|rest| rest + start),
            },
        );
        self.receive(response, partial, start).await
    }

    async fn receive(
        &self,
        mut response: Response,
        partial: &Path,
        start: u64,
    ) -> Result<Try, Broken> {
        let failed = || Error::cache("write", partial);
        let mut options = OpenOptions::new();
        options.create(true);
        if start > 0 {
            options.append(true);
        } else {
            options.write(true).truncate(true);
        }
        let mut file: File = options.open(partial).await.map_err(failed())?;
        let mut received = start;
        let outcome = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    file.write_all(&chunk).await.map_err(failed())?;
                    received += length(chunk.len());
                    self.progress
                        .report(self.asset, Event::Advanced { bytes: received });
                }
                Ok(None) => break Try::Complete,
                Err(error) => break Try::Interrupted(chain(&error)),
            }
        };
        file.flush().await.map_err(failed())?;
        Ok(outcome)
    }
}

async fn stated_checksum(
    client: &Client,
    base: &str,
    url: &str,
    file_name: &str,
) -> Result<Digest, Broken> {
    let response = match client.get(url).send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() => return Err(unreachable(base, &error)),
        Err(error) => return Err(Failure::Unavailable(format!("{url}: {}", chain(&error))).into()),
    };
    let mut response = successful(response, url)?;
    let mut text = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if text.len() + chunk.len() <= CHECKSUM_FILE_LIMIT => {
                text.extend_from_slice(&chunk);
            }
            Ok(Some(_)) => {
                return Err(Failure::Unavailable(format!(
                    "{url} is too large for a checksum file"
                ))
                .into());
            }
            Ok(None) => break,
            Err(error) => {
                return Err(Failure::Unavailable(format!("{url}: {}", chain(&error))).into());
            }
        }
    }
    stated_digest(&String::from_utf8_lossy(&text), file_name).ok_or_else(|| {
        Failure::Unavailable(format!("{url} states no SHA-256 for {file_name}")).into()
    })
}

fn successful(response: Response, url: &str) -> Result<Response, Failure> {
    if response.status().is_success() {
        Ok(response)
    } else {
        Err(Failure::Unavailable(format!(
            "{url} answered {}",
            response.status()
        )))
    }
}

/// Only the last cause is told: what is above it repeats the address.
fn unreachable(base: &str, error: &reqwest::Error) -> Broken {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Broken::Unreachable(format!(
        "{base} cannot be reached ({cause}); if there is a mirror, name it with {MIRROR}"
    ))
}

/// The client for every download. `reqwest` takes the process's cryptography if one is installed, and its own
/// aws-lc-rs otherwise, so nothing needs to be installed here.
fn client() -> Result<Client, String> {
    Client::builder()
        .user_agent(concat!("butler-assets/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .build()
        .map_err(|error| format!("no HTTP client can be made: {}", chain(&error)))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn remembered() -> std::sync::MutexGuard<'static, BTreeMap<String, String>> {
    UNREACHABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn digest_of(path: &Path) -> Result<(Digest, u64), Error> {
    let file = path.to_owned();
    tokio::task::spawn_blocking(move || Digest::of_file(&file))
        .await
        .unwrap_or_else(|error| Err(std::io::Error::other(error)))
        .map_err(Error::cache("read", path))
}

async fn remove(path: &Path) -> Result<(), Error> {
    tokio::fs::remove_file(path)
        .await
        .map_err(Error::cache("remove", path))
}

//! One asset on its way: directory, cache, download, build, in this order.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::archive::extract_member;
use crate::asset::Asset;
use crate::cache::{Cached, Entry, Lookup, Origin};
use crate::catalog::{DownloadRecipe, Recipe};
use crate::digest::Digest;
use crate::download::Failure;
use crate::error::{Attempt, Error};
use crate::go::Module;
use crate::lock;
use crate::progress::{Event, Progress};
use crate::resolver::Resolver;
use crate::settings::{ASSETS_DIR, OFFLINE, Source};

/// How often a build tells that time passes.
const TICK: Duration = Duration::from_secs(5);

/// The search for one asset, with what was tried so far.
pub(crate) struct Search<'a> {
    resolver: &'a Resolver,
    asset: &'a Asset,
    recipe: Recipe,
    progress: &'a dyn Progress,
    started: Instant,
    attempts: Vec<Attempt>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        resolver: &'a Resolver,
        asset: &'a Asset,
        recipe: Recipe,
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            resolver,
            asset,
            recipe,
            progress,
            started: Instant::now(),
            attempts: Vec::new(),
        }
    }

    /// Tries every allowed source.
    pub(crate) async fn run(mut self) -> Result<PathBuf, Error> {
        if self.allows(Source::Directory)
            && let Some(path) = self.directory()?
        {
            return Ok(path);
        }
        if let Some(path) = self.cache()? {
            return Ok(path);
        }
        if self.allows(Source::Download) || self.allows(Source::Build) {
            let key = self.resolver.store.key(self.asset);
            let _lock = self.lock(&key, "another process that prepares it").await?;
            // Whoever held the lock before may have made it.
            self.attempts
                .retain(|attempt| attempt.source != Source::Cache);
            if let Some(path) = self.cache()? {
                return Ok(path);
            }
            if self.allows(Source::Download)
                && let Some(path) = self.download().await?
            {
                return Ok(path);
            }
            if self.allows(Source::Build)
                && let Some(path) = self.build().await?
            {
                return Ok(path);
            }
        }
        Err(Error::Unavailable {
            asset: Box::new(self.asset.clone()),
            attempts: self.attempts,
        })
    }

    fn allows(&self, source: Source) -> bool {
        self.resolver.settings.sources.allows(source)
    }

    fn directory(&mut self) -> Result<Option<PathBuf>, Error> {
        let Some(directory) = &self.resolver.settings.directory else {
            self.note(
                Source::Directory,
                format!("none is given; {ASSETS_DIR} can name one"),
            );
            return Ok(None);
        };
        let candidates = [
            directory
                .join(self.asset.version.as_str())
                .join(&self.recipe.binary),
            directory.join(&self.recipe.binary),
        ];
        let Some(path) = candidates.iter().find(|path| path.exists()) else {
            let [versioned, plain] = candidates.map(|path| path.display().to_string());
            self.note(
                Source::Directory,
                format!("there is neither {versioned} nor {plain}"),
            );
            return Ok(None);
        };
        let refused = || Error::NotExecutable {
            asset: Box::new(self.asset.clone()),
            path: path.clone(),
        };
        let metadata = path.metadata().map_err(|_| refused())?;
        if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
            return Err(refused());
        }
        let absolute = std::path::absolute(path).map_err(|_| refused())?;
        self.finished(Source::Directory, metadata.len());
        Ok(Some(absolute))
    }

    fn cache(&mut self) -> Result<Option<PathBuf>, Error> {
        if !self.allows(Source::Cache) {
            return Ok(None);
        }
        let fingerprint = self.module().ok().map(|module| module.fingerprint);
        let binary = &self.recipe.binary;
        match self
            .resolver
            .store
            .find(self.asset, binary, fingerprint.as_ref())?
        {
            Lookup::Found(Cached { path, size }) => {
                self.finished(Source::Cache, size);
                Ok(Some(path))
            }
            Lookup::Missing(reason) => {
                self.note(Source::Cache, reason);
                Ok(None)
            }
        }
    }

    async fn download(&mut self) -> Result<Option<PathBuf>, Error> {
        if self.resolver.settings.offline {
            self.tried(
                Source::Download,
                format!("not tried, because {OFFLINE} is set"),
            );
            return Ok(None);
        }
        let Some(recipe) = self.recipe.download.clone() else {
            self.tried(
                Source::Download,
                "the project publishes no binaries with checksums".to_owned(),
            );
            return Ok(None);
        };
        match self.fetch(&recipe).await {
            Ok((path, size)) => {
                self.finished(Source::Download, size);
                Ok(Some(path))
            }
            Err(Failure::Fatal(error)) => Err(error),
            Err(Failure::Unavailable(reason)) => {
                self.tried(Source::Download, reason);
                Ok(None)
            }
            Err(Failure::KnownUnreachable(reason)) => {
                self.note(Source::Download, reason);
                Ok(None)
            }
        }
    }

    async fn fetch(&self, recipe: &DownloadRecipe) -> Result<(PathBuf, u64), Failure> {
        let resolver = self.resolver;
        let base = resolver
            .settings
            .mirror
            .base(&self.recipe.group, &recipe.mirror);
        let artifact = resolver
            .downloader
            .fetch(&resolver.store, self.asset, base, recipe, self.progress)
            .await?;
        let (digest, size) = match &recipe.member {
            None => {
                let path = artifact.path.clone();
                let size = std::fs::metadata(&path).map_err(Error::cache("look at", &path))?;
                (artifact.checksum.clone(), size.len())
            }
            Some(member) => {
                self.unpack(artifact.path, member.clone(), &artifact.url)
                    .await?
            }
        };
        let origin = Origin::Download {
            url: artifact.url,
            checksum: artifact.checksum,
        };
        Ok((self.record(digest, size, origin)?, size))
    }

    async fn unpack(
        &self,
        archive: PathBuf,
        member: String,
        url: &str,
    ) -> Result<(Digest, u64), Failure> {
        let store = self.resolver.store.clone();
        let file = store.work(self.asset)?.join(&self.recipe.binary);
        let url = url.to_owned();
        let unpacked = blocking(&self.resolver.settings.cache, move || {
            if let Err(error) = extract_member(&archive, &member, &file) {
                return Ok(Err(format!("{url} cannot be unpacked: {error}")));
            }
            store.adopt(&file).map(Ok)
        })
        .await?;
        unpacked.map_err(Failure::Unavailable)
    }

    async fn build(&mut self) -> Result<Option<PathBuf>, Error> {
        let resolver = self.resolver;
        let module = match self.module() {
            Ok(module) => module,
            Err(reason) => {
                self.tried(Source::Build, reason);
                return Ok(None);
            }
        };
        let _turn = resolver.builds.acquire().await;
        // The same between processes.
        let folder = format!("build-{}", self.recipe.build.folder);
        let _lock = self
            .lock(&folder, "another build of the same module")
            .await?;
        // Waiting for others is not a part of the time it took.
        self.started = Instant::now();
        let directory = resolver.store.work(self.asset)?;
        let output = directory.join(&self.recipe.binary);
        self.progress.report(
            self.asset,
            Event::Started {
                source: Source::Build,
                from: &self.recipe.build.package,
                size: None,
            },
        );
        let on_line = |text: &str| self.progress.report(self.asset, Event::Step { text });
        let (settings, platform) = (&resolver.settings, resolver.platform);
        let built = module.build(settings, &self.recipe.build, platform, &output, on_line);
        let go = match self.ticking(built).await {
            Ok(go) => go,
            Err(reason) => {
                self.tried(Source::Build, reason);
                return Ok(None);
            }
        };
        let store = resolver.store.clone();
        let (digest, size) =
            blocking(&resolver.settings.cache, move || store.adopt(&output)).await?;
        let origin = Origin::Build {
            fingerprint: module.fingerprint,
            go,
        };
        let path = self.record(digest, size, origin)?;
        self.finished(Source::Build, size);
        Ok(Some(path))
    }

    /// Waits for a build and lets everybody know that time passes.
    async fn ticking<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(TICK, &mut work).await {
                Ok(result) => return result,
                Err(_) => self.progress.report(self.asset, Event::Ticked),
            }
        }
    }

    fn module(&self) -> Result<Module, String> {
        let resolver = self.resolver;
        Module::find(
            &resolver.settings,
            self.asset,
            &self.recipe.build,
            resolver.platform,
        )
    }

    fn record(&self, digest: Digest, size: u64, origin: Origin) -> Result<PathBuf, Error> {
        let entry = Entry {
            digest,
            size,
            origin,
        };
        self.resolver
            .store
            .record(self.asset, &self.recipe.binary, &entry)
    }

    async fn lock(&self, purpose: &str, reason: &str) -> Result<lock::Lock, Error> {
        let path = self.resolver.store.lock_file(purpose)?;
        lock::acquire(&path, || {
            self.progress.report(self.asset, Event::Waiting { reason });
        })
        .await
    }

    /// Notes and tells why a source did not help.
    fn tried(&mut self, source: Source, reason: String) {
        let text = &reason;
        self.progress.report(
            self.asset,
            Event::Skipped {
                source,
                reason: text,
            },
        );
        self.note(source, reason);
    }

    /// Notes why a source did not help, for the error if none does.
    fn note(&mut self, source: Source, reason: String) {
        self.attempts.push(Attempt { source, reason });
    }

    fn finished(&self, source: Source, size: u64) {
        let elapsed: Duration = self.started.elapsed();
        self.progress.report(
            self.asset,
            Event::Finished {
                source,
                size,
                elapsed,
            },
        );
    }
}

/// Does long file work beside the runtime's threads.
pub(crate) async fn blocking<T: Send + 'static>(
    cache: &Path,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::cache("work on", cache)(std::io::Error::other(error))))
}

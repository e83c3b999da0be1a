//! A cache, a catalogue and Go modules for one test, and a progress that remembers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use butler_assets::{
    Asset, Catalog, Component, Event, Progress, Resolver, Settings, Source, Sources,
};
use tempfile::TempDir;

/// Where the raw binary of the tests is published.
pub(crate) const RAW_PATH: &str = "release/v1.0.0/kube-apiserver";
/// Where the archive of the tests is published.
pub(crate) const ARCHIVE_PATH: &str = "containerd/v1.0.0/containerd-1.0.0.tar.gz";

const CATALOG: &str = r#"
[groups.kubernetes]
folder = "hello-{version}"
module = "hello.example"
default = "1.0.0"
versions = ["1.0.0", "2.0.0"]
linker-flags = ["-X main.version={version}"]
[groups.kubernetes.download]
mirror = "http://127.0.0.1:9"
path = "release/v{version}/{binary}"
checksum = "release/v{version}/{binary}.sha256"

[groups.containerd]
folder = "containerd"
module = "containerd.example"
default = "1.0.0"
versions = ["1.0.0"]
[groups.containerd.download]
mirror = "http://127.0.0.1:9"
path = "containerd/v{version}/containerd-{version}.tar.gz"
checksum = "containerd/v{version}/SHA256SUMS"
member = "bin/{binary}"

[components.kube-apiserver]
group = "kubernetes"
package = "hello.example"

[components.containerd]
group = "containerd"
package = "containerd.example"

[components.ctr]
group = "containerd"
package = "containerd.example"
"#;

/// Everything one test needs; gone afterwards.
pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) settings: Settings,
}

impl Fixture {
    /// Only the given sources, an empty cache, and no Go modules.
    pub(crate) fn new(sources: &[Source]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::with_cache(directory.path().join("cache"));
        settings.sources = sources.iter().copied().collect::<Sources>();
        Self {
            directory,
            settings,
        }
    }

    pub(crate) fn with_mirror(mut self, base: &str) -> Self {
        self.settings.mirror = base.parse().unwrap();
        self
    }

    /// Two versions of a module whose program prints the version that was stamped into it.
    pub(crate) fn with_modules(mut self) -> Self {
        let deps = self.directory.path().join("deps");
        for version in ["1.0.0", "2.0.0"] {
            let folder = deps.join(format!("hello-{version}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("go.mod"), "module hello.example\n\ngo 1.24\n").unwrap();
            let program =
                "package main\n\nvar version string\n\nfunc main() { println(version) }\n";
            fs::write(folder.join("main.go"), program).unwrap();
        }
        self.settings.deps = Some(deps);
        self
    }

    pub(crate) fn deps(&self, version: &str) -> PathBuf {
        self.directory.path().join(format!("deps/hello-{version}"))
    }

    /// A resolver of its own, as another process would have.
    pub(crate) fn resolver(&self) -> Resolver {
        Resolver::with_catalog(self.settings.clone(), Catalog::parse(CATALOG).unwrap())
    }
}

/// The API server of the test catalogue.
pub(crate) fn apiserver(version: &str) -> Asset {
    Asset::kubernetes(Component::KubeApiserver, version).unwrap()
}

/// What a program prints. Go's `println` writes to standard error.
pub(crate) fn printed_by(program: &Path) -> String {
    let output = Command::new(program).output().unwrap();
    String::from_utf8(output.stderr).unwrap().trim().to_owned()
}

/// Writes a file that can be run.
pub(crate) fn write_executable(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Remembers the events, without the small steps.
#[derive(Default)]
pub(crate) struct Recorder {
    events: Mutex<Vec<String>>,
}

impl Recorder {
    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

impl Progress for Recorder {
    fn report(&self, _asset: &Asset, event: Event<'_>) {
        let text = match event {
            Event::Waiting { .. } => "waiting".to_owned(),
            Event::Skipped { source, .. } => format!("skipped {source}"),
            Event::Started { source, .. } => format!("started {source}"),
            Event::Finished { source, .. } => format!("finished {source}"),
            _ => return,
        };
        self.events.lock().unwrap().push(text);
    }
}

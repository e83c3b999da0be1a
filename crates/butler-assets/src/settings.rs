//! Where assets may come from and where they are kept. The environment is read here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::Error;

/// Names the directory with binaries of the user's own.
pub(crate) const ASSETS_DIR: &str = "BUTLER_ASSETS_DIR";
/// Names the base of a download mirror.
pub(crate) const MIRROR: &str = "BUTLER_ASSET_MIRROR";
/// Names the folder of pinned Go modules.
pub(crate) const DEPS: &str = "BUTLER_DEPS";
const CACHE: &str = "BUTLER_CACHE";
const SOURCES: &str = "BUTLER_ASSET_SOURCES";
/// Forbids the network.
pub(crate) const OFFLINE: &str = "BUTLER_OFFLINE";
const GO: &str = "BUTLER_GO";

/// A place an asset can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A directory given by the user.
    Directory,
    /// What an earlier run downloaded or built.
    Cache,
    /// The project's own release, or a mirror of it.
    Download,
    /// The pinned Go module.
    Build,
}

impl Source {
    /// Every source, in the order they are tried.
    pub const ALL: [Self; 4] = [Self::Directory, Self::Cache, Self::Download, Self::Build];

    /// The name users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Cache => "cache",
            Self::Download => "download",
            Self::Build => "build",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The sources that may be used; they are always tried in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources(BTreeSet<Source>);

impl Sources {
    /// All of them.
    pub fn all() -> Self {
        Source::ALL.into_iter().collect()
    }

    /// Whether this one may be used.
    pub fn allows(&self, source: Source) -> bool {
        self.0.contains(&source)
    }
}

impl FromIterator<Source> for Sources {
    fn from_iter<I: IntoIterator<Item = Source>>(sources: I) -> Self {
        Self(sources.into_iter().collect())
    }
}

impl FromStr for Sources {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.split(',')
            .map(str::trim)
            .map(|name| {
                Source::ALL
                    .into_iter()
                    .find(|source| source.name() == name)
                    .ok_or_else(|| Error::Setting {
                        variable: SOURCES,
                        reason: format!(
                            "{name:?} is no source of assets; list some of {}, separated by commas",
                            Source::ALL.map(Source::name).join(", ")
                        ),
                    })
            })
            .collect()
    }
}

/// Mirror bases that replace the official ones.
///
/// Written as `https://mirror.example` for every group, `kubernetes=https://mirror.example/k8s` for one, or several of
/// these separated by commas. Below the base, a mirror keeps the paths of the official place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    every_group: Option<String>,
    one_group: BTreeMap<String, String>,
}

impl Mirrors {
    /// The base for a group: its own, else the one for every group, else the official one.
    pub(crate) fn base<'a>(&'a self, group: &str, official: &'a str) -> &'a str {
        self.one_group
            .get(group)
            .or(self.every_group.as_ref())
            .map_or(official, String::as_str)
            .trim_end_matches('/')
    }
}

impl FromStr for Mirrors {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut mirrors = Self::default();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (group, base) = match item.split_once('=') {
                // An equals sign after the scheme belongs to the address.
                Some((group, base)) if !group.contains("://") => (Some(group), base),
                _ => (None, item),
            };
            if !base.starts_with("http://") && !base.starts_with("https://") {
                return Err(Error::Setting {
                    variable: MIRROR,
                    reason: format!(
                        "{base:?} is not an address of a mirror; write https://host/path, or group=https://host/path"
                    ),
                });
            }
            // Addresses are shown in progress, errors and the index of the cache.
            if base.contains('@') {
                return Err(Error::Setting {
                    variable: MIRROR,
                    reason: "write the address of the mirror without a user and password"
                        .to_owned(),
                });
            }
            match group {
                Some(group) => {
                    mirrors.one_group.insert(group.to_owned(), base.to_owned());
                }
                None => mirrors.every_group = Some(base.to_owned()),
            }
        }
        Ok(mirrors)
    }
}

/// Where assets may come from and where they are kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The user's own binaries: `<directory>/<version>/<binary>`, else `<directory>/<binary>`.
    pub directory: Option<PathBuf>,
    /// The cache of Butler; assets live in its folder `assets`.
    pub cache: PathBuf,
    /// Mirrors that replace the official download places.
    pub mirror: Mirrors,
    /// Which sources may be used.
    pub sources: Sources,
    /// The folder of pinned Go modules, if there is one.
    pub deps: Option<PathBuf>,
    /// The Go command: a name to be found on `PATH`, or a path.
    pub go: PathBuf,
    /// Use no network: no downloads, and Go only uses modules it already has.
    pub offline: bool,
}

impl Settings {
    /// Everything allowed, nothing overridden, with the cache at the given place.
    pub fn with_cache(cache: impl Into<PathBuf>) -> Self {
        Self {
            directory: None,
            cache: cache.into(),
            mirror: Mirrors::default(),
            sources: Sources::all(),
            deps: None,
            go: PathBuf::from("go"),
            offline: false,
        }
    }

    /// Reads `BUTLER_ASSETS_DIR`, `BUTLER_CACHE`, `BUTLER_ASSET_MIRROR`, `BUTLER_ASSET_SOURCES`, `BUTLER_DEPS`,
    /// `BUTLER_GO` and `BUTLER_OFFLINE`.
    ///
    /// The cache defaults to `~/.cache/butler`. Without `BUTLER_DEPS`, a `deps` folder is looked for in the current
    /// directory and above, then above `CARGO_MANIFEST_DIR`.
    pub fn from_env() -> Result<Self, Error> {
        let starts = [
            std::env::current_dir().ok(),
            std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from),
        ];
        let found = starts.iter().flatten().find_map(|start| deps_above(start));
        let mut settings = Self::from_lookup(|name| std::env::var_os(name), std::env::home_dir())?;
        settings.deps = settings.deps.or(found);
        Ok(settings)
    }

    fn from_lookup(
        lookup: impl Fn(&str) -> Option<OsString>,
        home: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let value = |name| lookup(name).filter(|value| !value.is_empty());
        let text = |name| value(name).map(|value| value.to_string_lossy().into_owned());
        let cache = value(CACHE)
            .map(PathBuf::from)
            .or_else(|| home.map(|home| home.join(".cache/butler")))
            .ok_or_else(|| Error::Setting {
                variable: CACHE,
                reason: "no home directory is known to keep the cache in; name a directory"
                    .to_owned(),
            })?;
        let mut settings = Self::with_cache(cache);
        settings.directory = value(ASSETS_DIR).map(PathBuf::from);
        settings.deps = value(DEPS).map(PathBuf::from);
        settings.offline =
            text(OFFLINE).is_some_and(|flag| !matches!(flag.as_str(), "0" | "false" | "no"));
        if let Some(mirror) = text(MIRROR) {
            settings.mirror = mirror.parse()?;
        }
        if let Some(sources) = text(SOURCES) {
            settings.sources = sources.parse()?;
        }
        if let Some(go) = value(GO) {
            settings.go = PathBuf::from(go);
        }
        Ok(settings)
    }
}

/// The `deps` folder of the workspace that holds this path. One module is enough to know it by.
fn deps_above(start: &Path) -> Option<PathBuf> {
    start
        .ancestors()
        .map(|directory| directory.join("deps"))
        .find(|deps| deps.join("etcd/go.mod").is_file())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, Error> {
        let variables: BTreeMap<_, _> = variables.iter().copied().collect();
        Settings::from_lookup(
            |name| variables.get(name).map(OsString::from),
            Some(PathBuf::from("/home/ada")),
        )
    }

    #[test]
    fn empty_environment_allows_everything_and_caches_at_home() {
        let settings = settings(&[(OFFLINE, ""), (ASSETS_DIR, "")]).unwrap();
        assert_eq!(settings.cache, Path::new("/home/ada/.cache/butler"));
        assert_eq!(settings.sources, Sources::all());
        assert_eq!(settings.directory, None);
        assert!(!settings.offline);
    }

    #[test]
    fn every_variable_is_heard() {
        let settings = settings(&[
            (ASSETS_DIR, "/opt/bin"),
            (CACHE, "/cache"),
            (MIRROR, "https://all.example/,etcd=http://etcd.example/a=b"),
            (SOURCES, "cache, build"),
            (DEPS, "/deps"),
            (GO, "/opt/go/bin/go"),
            (OFFLINE, "1"),
        ])
        .unwrap();
        assert_eq!(settings.directory.as_deref(), Some(Path::new("/opt/bin")));
        assert_eq!(settings.cache, Path::new("/cache"));
        assert_eq!(
            settings.mirror.base("kubernetes", "https://official"),
            "https://all.example"
        );
        assert_eq!(
            settings.mirror.base("etcd", "https://official"),
            "http://etcd.example/a=b"
        );
        assert!(
            settings.sources.allows(Source::Build) && !settings.sources.allows(Source::Download)
        );
        assert_eq!(settings.deps.as_deref(), Some(Path::new("/deps")));
        assert_eq!(settings.go, Path::new("/opt/go/bin/go"));
        assert!(settings.offline);
    }

    #[test]
    fn misspelled_source_is_told_the_known_ones() {
        let error = settings(&[(SOURCES, "cache,internet")])
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "BUTLER_ASSET_SOURCES: \"internet\" is no source of assets; list some of directory, cache, download, build, separated by commas"
        );
    }

    #[test]
    fn mirror_without_a_scheme_is_refused() {
        let error = settings(&[(MIRROR, "mirror.example")])
            .unwrap_err()
            .to_string();
        assert!(error.contains("https://host/path"), "{error}");
    }

    #[test]
    fn password_in_a_mirror_address_is_refused_and_not_repeated() {
        let error = settings(&[(MIRROR, "https://ada:lovelace@mirror.example")])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("without a user and password") && !error.contains("lovelace"),
            "{error}"
        );
    }

    #[test]
    fn without_home_the_cache_must_be_named() {
        let error = Settings::from_lookup(|_| None, None)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("BUTLER_CACHE: "), "{error}");
    }

    #[test]
    fn deps_of_this_workspace_are_found_from_below() {
        let deps = deps_above(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(deps.join("kubernetes-1.36.3/go.mod").is_file());
    }
}

//! Builds a component with the Go toolchain from its pinned module folder.
//!
//! Go's own build cache is used as it is, so an interrupted build continues where it was.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::asset::{Asset, Platform};
use crate::catalog::{BuildRecipe, LOCAL_PACKAGE};
use crate::command::{self, CommandError, Invocation};
use crate::digest::{Digest, Hasher, length};
use crate::error::chain;
use crate::settings::{ASSETS_DIR, DEPS, MIRROR, Settings};

/// Strips symbol tables: the binaries are half as large, and panics keep their stack traces.
const BASE_LINKER_FLAGS: &str = "-s -w";

/// A module folder that pins the asset's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    folder: PathBuf,
    /// The digest of everything that decides what is built, but the toolchain.
    pub(crate) fingerprint: Digest,
    minimum_go: String,
}

impl Module {
    /// Finds the folder of an asset; the error says in words what is missing.
    pub(crate) fn find(
        settings: &Settings,
        asset: &Asset,
        recipe: &BuildRecipe,
        platform: Platform,
    ) -> Result<Self, String> {
        if !recipe.pinned.contains(&asset.version) {
            let known: Vec<_> = recipe.pinned.iter().map(ToString::to_string).collect();
            return Err(format!(
                "no pinned Go module has version {} of {}; the known versions are {} (deps/README.md tells how to add one)",
                asset.version,
                asset.component,
                known.join(", ")
            ));
        }
        let deps = settings.deps.as_ref().ok_or_else(|| {
            format!("no folder with pinned Go modules was found; name the deps folder of Butler's source with {DEPS}")
        })?;
        let folder = deps.join(&recipe.folder);
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
        };
        let module = read("go.mod")?;
        // A module without dependencies has no go.sum.
        let sums = fs::read(folder.join("go.sum")).unwrap_or_default();
        let flags = linker_flags(recipe);
        let tags = recipe.tags.join(",");
        let platform = platform.to_string();
        let mut parts: Vec<&[u8]> = vec![
            &module,
            &sums,
            recipe.package.as_bytes(),
            flags.as_bytes(),
            tags.as_bytes(),
            if recipe.cgo { b"cgo" } else { b"" },
            platform.as_bytes(),
        ];
        // Elsewhere the pins say it all.
        let source = if recipe.package == LOCAL_PACKAGE {
            Some(read("main.go")?)
        } else {
            None
        };
        parts.extend(source.as_deref());
        let fingerprint = fingerprint(&parts);
        Ok(Self {
            folder,
            fingerprint,
            minimum_go: minimum_go(&String::from_utf8_lossy(&module)),
        })
    }

    /// Builds the command into a file and returns the version of Go that did it.
    pub(crate) async fn build(
        &self,
        settings: &Settings,
        recipe: &BuildRecipe,
        platform: Platform,
        output: &Path,
        on_line: impl FnMut(&str),
    ) -> Result<String, String> {
        let explain = |error: CommandError| match error {
            CommandError::NotFound { .. } => self.without_go(&settings.go),
            other => chain(&other),
        };
        let mut invocation = self.invocation(settings, recipe, platform);
        invocation.arguments = ["env", "GOVERSION"].map(OsString::from).to_vec();
        let version = command::run(&invocation, |_| {}).await.map_err(explain)?;
        invocation.arguments = build_arguments(recipe, output);
        command::run(&invocation, on_line).await.map_err(explain)?;
        Ok(version.trim().to_owned())
    }

    fn invocation(
        &self,
        settings: &Settings,
        recipe: &BuildRecipe,
        platform: Platform,
    ) -> Invocation {
        let mut environment = vec![
            ("CGO_ENABLED", u8::from(recipe.cgo).to_string()),
            ("GOOS", Platform::OPERATING_SYSTEM.to_owned()),
            ("GOARCH", platform.architecture.to_owned()),
            // A workspace file above the folder would replace the pins.
            ("GOWORK", "off".to_owned()),
        ];
        if settings.offline {
            environment.push(("GOPROXY", "off".to_owned()));
        }
        Invocation {
            program: settings.go.clone(),
            arguments: Vec::new(),
            directory: self.folder.clone(),
            environment,
        }
    }

    fn without_go(&self, go: &Path) -> String {
        format!(
            "there is no Go toolchain: {} was not found. Install Go {} or newer, put the binary into a directory and name \
             that with {ASSETS_DIR}, or name a mirror that can be reached with {MIRROR}",
            go.display(),
            self.minimum_go
        )
    }
}

fn build_arguments(recipe: &BuildRecipe, output: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "build",
        "-v",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
    ]
    .map(OsString::from)
    .to_vec();
    if !recipe.tags.is_empty() {
        arguments.extend([OsString::from("-tags"), recipe.tags.join(",").into()]);
    }
    arguments.extend([OsString::from("-ldflags"), linker_flags(recipe).into()]);
    arguments.extend([OsString::from("-o"), output.into()]);
    arguments.push(recipe.package.clone().into());
    arguments
}

fn linker_flags(recipe: &BuildRecipe) -> String {
    std::iter::once(BASE_LINKER_FLAGS)
        .chain(recipe.linker_flags.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The digest of parts that cannot run into each other.
fn fingerprint(parts: &[&[u8]]) -> Digest {
    let mut hasher = Hasher::default();
    for part in parts {
        hasher.update(&length(part.len()).to_be_bytes());
        hasher.update(part);
    }
    hasher.finish()
}

fn minimum_go(module: &str) -> String {
    module
        .lines()
        .find_map(|line| line.strip_prefix("go "))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::component::Component;

    fn find(asset: &Asset) -> Result<Module, String> {
        let mut settings = Settings::with_cache("/cache");
        settings.deps = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deps"));
        let recipe = Catalog::builtin().recipe(asset, Platform::host()).unwrap();
        Module::find(&settings, asset, &recipe.build, Platform::host())
    }

    #[test]
    fn two_kubernetes_versions_have_folders_of_their_own() {
        let old = find(&Asset::kubernetes(Component::Kubelet, "1.35.4").unwrap()).unwrap();
        let new = find(&Asset::kubernetes(Component::Kubelet, "1.36.3").unwrap()).unwrap();
        assert!(
            old.folder.ends_with("kubernetes-1.35.4") && new.folder.ends_with("kubernetes-1.36.3")
        );
        assert_ne!(old.fingerprint, new.fingerprint);
    }

    #[test]
    fn unknown_version_is_told_the_known_ones() {
        let error = find(&Asset::kubernetes(Component::Kubelet, "1.30.0").unwrap()).unwrap_err();
        assert!(
            error.contains("1.30.0") && error.contains("1.35.4, 1.36.3"),
            "{error}"
        );
    }

    #[test]
    fn parts_of_a_fingerprint_do_not_run_into_each_other() {
        assert_ne!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"a", b"bc"]));
    }

    #[test]
    fn minimum_go_is_read_from_the_module() {
        let module = find(&Asset::default_of(Component::Etcd)).unwrap();
        assert!(module.minimum_go.starts_with("1."), "{}", module.minimum_go);
    }
}

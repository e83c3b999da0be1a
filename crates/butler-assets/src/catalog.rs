//! The catalogue: for each component where it is published and how it is built, as data with templates.
//!
//! The embedded `catalog.toml` is the one place of these facts. Tests give a catalogue of their own.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::asset::{Asset, Platform, Version};
use crate::component::Component;
use crate::error::Error;

/// The group of everything that carries a Kubernetes version.
pub(crate) const KUBERNETES_GROUP: &str = "kubernetes";

/// The package of a command whose source is in its module folder.
pub(crate) const LOCAL_PACKAGE: &str = ".";

static BUILTIN: LazyLock<Catalog> = LazyLock::new(|| {
    Catalog::parse(include_str!("../catalog.toml"))
        .expect("the embedded catalogue is checked by the tests of this crate")
});

/// What is known about every component.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    groups: BTreeMap<String, Group>,
    components: BTreeMap<Component, Entry>,
}

/// What one version number covers: a module folder and a release page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Group {
    folder: String,
    module: String,
    default: Version,
    versions: Vec<Version>,
    #[serde(default)]
    linker_flags: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    cgo: bool,
    download: Option<Download>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Download {
    mirror: String,
    path: String,
    checksum: String,
    member: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    group: String,
    package: String,
    binary: Option<String>,
}

/// The catalogue's answer for one asset, with every placeholder filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// The file name of the executable.
    pub(crate) binary: String,
    /// The group, which mirrors are chosen by.
    pub(crate) group: String,
    /// How to build it.
    pub(crate) build: BuildRecipe,
    /// Where it is published, if it is.
    pub(crate) download: Option<DownloadRecipe>,
}

/// How a component is built from its module folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuildRecipe {
    /// The folder below `deps/`.
    pub(crate) folder: String,
    /// The module whose version the folder pins.
    pub(crate) module: String,
    /// The import path of the command; [`LOCAL_PACKAGE`] if the folder holds the command itself.
    pub(crate) package: String,
    /// What the linker stamps into the binary.
    pub(crate) linker_flags: Vec<String>,
    /// Build tags.
    pub(crate) tags: Vec<String>,
    /// Whether C code is part of it.
    pub(crate) cgo: bool,
    /// The versions that `deps/` pins.
    pub(crate) pinned: Vec<Version>,
}

/// Where a component is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DownloadRecipe {
    /// The project's own mirror base.
    pub(crate) mirror: String,
    /// The file, relative to the base.
    pub(crate) path: String,
    /// The checksum file, relative to the base.
    pub(crate) checksum: String,
    /// The path inside the `tar.gz`; none when the file is the binary itself.
    pub(crate) member: Option<String>,
}

impl Catalog {
    /// Reads a catalogue, written like the embedded `catalog.toml`; it may cover fewer components.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let catalog: Self = toml::from_str(text).map_err(Error::Catalog)?;
        match catalog
            .components
            .iter()
            .find(|(_, entry)| !catalog.groups.contains_key(&entry.group))
        {
            Some((component, entry)) => Err(Error::NoSuchGroup {
                component: *component,
                group: entry.group.clone(),
            }),
            None => Ok(catalog),
        }
    }

    /// The catalogue this crate was made with.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// The versions of a component that `deps/` pins, so that they can be built.
    pub fn versions(&self, component: Component) -> Result<&[Version], Error> {
        let (_, group) = self.entry(component)?;
        Ok(&group.versions)
    }

    pub(crate) fn builtin_default(component: Component) -> Version {
        let (_, group) = Self::builtin()
            .entry(component)
            .expect("the embedded catalogue covers every component; a test says so");
        group.default.clone()
    }

    pub(crate) fn group_of(&self, component: Component) -> Result<&str, Error> {
        let (entry, _) = self.entry(component)?;
        Ok(&entry.group)
    }

    pub(crate) fn recipe(&self, asset: &Asset, platform: Platform) -> Result<Recipe, Error> {
        let (entry, group) = self.entry(asset.component)?;
        let binary = entry
            .binary
            .clone()
            .unwrap_or_else(|| asset.component.name().to_owned());
        let fill = |template: &str| {
            template
                .replace("{version}", asset.version.as_str())
                .replace("{major}", asset.version.major())
                .replace("{minor}", asset.version.minor())
                .replace("{arch}", platform.architecture)
                .replace("{binary}", &binary)
        };
        Ok(Recipe {
            group: entry.group.clone(),
            build: BuildRecipe {
                folder: fill(&group.folder),
                module: group.module.clone(),
                package: entry.package.clone(),
                linker_flags: group.linker_flags.iter().map(|flag| fill(flag)).collect(),
                tags: group.tags.clone(),
                cgo: group.cgo,
                pinned: group.versions.clone(),
            },
            download: group.download.as_ref().map(|download| DownloadRecipe {
                mirror: download.mirror.clone(),
                path: fill(&download.path),
                checksum: fill(&download.checksum),
                member: download.member.as_deref().map(fill),
            }),
            binary,
        })
    }

    fn entry(&self, component: Component) -> Result<(&Entry, &Group), Error> {
        self.components
            .get(&component)
            .and_then(|entry| Some((entry, self.groups.get(&entry.group)?)))
            .ok_or(Error::NotInCatalog { component })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use pretty_assertions::assert_eq;

    use super::*;

    fn deps() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deps")
    }

    #[test]
    fn every_component_has_an_entry_with_a_pinned_default() {
        for component in Component::ALL {
            let versions = Catalog::builtin().versions(component).unwrap();
            assert!(
                versions.contains(&Catalog::builtin_default(component)),
                "{component}"
            );
        }
    }

    #[test]
    fn every_pinned_version_is_what_its_folder_requires() {
        for component in Component::ALL {
            for version in Catalog::builtin().versions(component).unwrap() {
                let asset = Asset::new(component, version.clone());
                let recipe = Catalog::builtin().recipe(&asset, Platform::host()).unwrap();
                let folder = deps().join(&recipe.build.folder);
                let module = fs::read_to_string(folder.join("go.mod")).unwrap();
                if recipe.build.package == LOCAL_PACKAGE {
                    let line = format!("module {}\n", recipe.build.module);
                    assert!(module.contains(&line), "{} lacks {line}", folder.display());
                    continue;
                }
                let line = format!("require {} v{version}\n", recipe.build.module);
                assert!(module.contains(&line), "{} lacks {line}", folder.display());
                let tools = fs::read_to_string(folder.join("tools.go")).unwrap();
                assert!(
                    tools.contains(&format!("\"{}\"", recipe.build.package)),
                    "{asset}"
                );
            }
        }
    }

    #[test]
    fn every_folder_is_in_the_catalogue() {
        let mut known: Vec<String> = Component::ALL
            .into_iter()
            .flat_map(|component| {
                let versions = Catalog::builtin().versions(component).unwrap();
                versions
                    .iter()
                    .map(move |version| Asset::new(component, version.clone()))
            })
            .map(|asset| {
                Catalog::builtin()
                    .recipe(&asset, Platform::host())
                    .unwrap()
                    .build
                    .folder
            })
            .collect();
        known.sort();
        known.dedup();
        let mut folders: Vec<String> = fs::read_dir(deps())
            .unwrap()
            .map(Result::unwrap)
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        folders.sort();
        assert_eq!(known, folders);
    }

    #[test]
    fn version_chooses_folder_stamp_and_address() {
        let asset = Asset::kubernetes(Component::KubeApiserver, "v1.35.4").unwrap();
        let recipe = Catalog::builtin()
            .recipe(
                &asset,
                Platform {
                    architecture: "arm64",
                },
            )
            .unwrap();
        assert_eq!(recipe.build.folder, "kubernetes-1.35.4");
        assert_eq!(
            recipe.build.linker_flags[..3],
            [
                "-X k8s.io/component-base/version.gitVersion=v1.35.4",
                "-X k8s.io/component-base/version.gitMajor=1",
                "-X k8s.io/component-base/version.gitMinor=35",
            ]
        );
        assert_eq!(
            recipe.download.unwrap().path,
            "release/v1.35.4/bin/linux/arm64/kube-apiserver"
        );
    }

    #[test]
    fn component_of_a_missing_group_is_named() {
        let error =
            Catalog::parse("[groups]\n[components.etcd]\ngroup = \"gone\"\npackage = \"x\"\n")
                .unwrap_err()
                .to_string();
        assert!(error.contains("etcd") && error.contains("gone"), "{error}");
    }
}

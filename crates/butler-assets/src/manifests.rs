//! Manifests that belong to an asset: what Cluster API's managers need in the cluster they manage.
//!
//! They lie in the same Go module as the managers, as pieces for kustomize, and are rendered once for each version. The
//! checksum of the module covers them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::asset::Asset;
use crate::command::{self, Invocation};
use crate::component::Component;
use crate::error::{Error, chain};
use crate::resolver::Resolver;

/// What the user's own directory may hold instead.
const FILE: &str = "cluster-api-components.yaml";
const MODULE: &str = "sigs.k8s.io/cluster-api";
/// Each manager with its definitions, roles and webhooks.
const PIECES: [&str; 3] = [
    "core/config/default",
    "bootstrap/kubeadm/config/default",
    "controlplane/kubeadm/config/default",
];

impl Resolver {
    /// Cluster API's manifests as one YAML stream: core, kubeadm bootstrap and kubeadm control plane.
    ///
    /// From the user's directory if it has `cluster-api-components.yaml`, else from the cache, else rendered from the pinned
    /// Go module.
    pub async fn cluster_api_manifests(&self) -> Result<String, Error> {
        let version = Asset::default_of(Component::ClusterApiCore).version;
        let own = self.settings.directory.as_ref().map(|own| own.join(FILE));
        let folder = self.settings.cache.join("assets/manifests");
        let cached = folder.join(format!("cluster-api-{version}.yaml"));
        for path in own.iter().chain([&cached]) {
            if path.exists() {
                return fs::read_to_string(path).map_err(Error::cache("read", path));
            }
        }
        let text = self.render().await?;
        fs::create_dir_all(&folder).map_err(Error::cache("make", &folder))?;
        let beside = folder.join(format!("cluster-api-{version}.{}", std::process::id()));
        fs::write(&beside, &text).map_err(Error::cache("write", &beside))?;
        fs::rename(&beside, &cached).map_err(Error::cache("write", &cached))?;
        Ok(text)
    }

    async fn render(&self) -> Result<String, Error> {
        let kubectl = self.resolve(&Asset::default_of(Component::Kubectl)).await?;
        let deps = self.settings.deps.clone().ok_or_else(|| Error::Manifests {
            reason: format!(
                "no folder with pinned Go modules was found; put {FILE} of a release into the directory of your own binaries"
            ),
        })?;
        let folder = deps.join("cluster-api");
        self.print(&self.settings.go, &["mod", "download", MODULE], &folder)
            .await?;
        let listed = ["list", "-m", "-f", "{{.Dir}}", MODULE];
        let module = self.print(&self.settings.go, &listed, &folder).await?;
        let module = PathBuf::from(module.trim());
        let mut pieces = Vec::new();
        for piece in PIECES {
            let place = module.join(piece);
            let place = place.to_string_lossy();
            pieces.push(
                self.print(&kubectl, &["kustomize", &place], &folder)
                    .await?,
            );
        }
        Ok(pieces.join("\n---\n"))
    }

    async fn print(
        &self,
        program: &Path,
        arguments: &[&str],
        directory: &Path,
    ) -> Result<String, Error> {
        let mut environment = vec![("GOWORK", "off".to_owned())];
        if self.settings.offline {
            environment.push(("GOPROXY", "off".to_owned()));
        }
        let invocation = Invocation {
            program: program.to_owned(),
            arguments: arguments.iter().map(OsString::from).collect(),
            directory: directory.to_owned(),
            environment,
        };
        command::run(&invocation, |_| {})
            .await
            .map_err(|error| Error::Manifests {
                reason: chain(&error),
            })
    }
}

//! The platform that commands speak to: a client, and what it says about itself.

use std::path::PathBuf;

use anyhow::Context as _;
use butler_api::{
    butler::{butler_config::ButlerConfig, team::Team, tenant_cluster::TenantCluster},
    keys::names,
    version::KubernetesVersion,
};
use butler_runtime::client::{self, Component};
use kube::{
    Api, Client, Resource as _,
    api::{Patch, PatchParams},
};
use serde_json::Value;

use super::{Global, error::Error};

const COMPONENT: &str = "butlerctl";

/// A management cluster, and the namespace that is meant.
pub(crate) struct Platform {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Whether somebody asked for that namespace; else it is the platform's own for clusters.
    pub(crate) is_named: bool,
    pub(crate) verbose: bool,
}

impl Platform {
    /// Finds the platform that the flags mean.
    pub(crate) async fn open(global: &Global) -> anyhow::Result<Self> {
        let kubeconfig = global.kubeconfig.clone().or_else(of_an_installation);
        let configuration = client::configuration(kubeconfig.as_deref()).await?;
        let client = client::client(configuration, &component()?)?;
        let namespace = match &global.namespace {
            Some(namespace) => namespace.clone(),
            None => default_namespace(&client).await?,
        };
        Ok(Self {
            client,
            namespace,
            is_named: global.namespace.is_some(),
            verbose: global.verbose,
        })
    }

    /// The same with another namespace.
    pub(crate) fn within(&self, namespace: &str) -> Self {
        Self {
            client: self.client.clone(),
            namespace: namespace.to_owned(),
            is_named: self.is_named || namespace != self.namespace,
            verbose: self.verbose,
        }
    }

    /// How a cluster is named on a command line: with its namespace, if that is not the one that is meant anyhow.
    pub(crate) fn call(&self, name: &str) -> String {
        if self.is_named {
            format!("{name} -n {}", self.namespace)
        } else {
            name.to_owned()
        }
    }

    /// The namespace of the clusters of a team. Who may not read teams is taken to be in one that is called like it; of a
    /// team that does not exist the platform speaks itself.
    pub(crate) async fn home_of(&self, team: &str) -> Result<String, Error> {
        let teams = Api::<Team>::all(self.client.clone());
        match teams.get_opt(team).await {
            Ok(Some(found)) => {
                let told = found.status.and_then(|status| status.namespace);
                Ok(told.unwrap_or_else(|| team.to_owned()))
            }
            Ok(None) => Ok(self.namespace.clone()),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(team.to_owned()),
            Err(error) => Err(Error::api(format!("read the team {team}"))(error)),
        }
    }

    /// Creates a cluster exactly as it is written. What the platform does not know it refuses, and does not leave out.
    pub(crate) async fn create(&self, body: &Value) -> kube::Result<()> {
        let path = TenantCluster::url_path(&(), Some(&self.namespace));
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = http::Request::post(format!("{path}?fieldValidation=Strict"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        self.client.request::<Value>(request).await?;
        Ok(())
    }

    /// Tenant clusters in the namespace that is meant.
    pub(crate) fn clusters(&self) -> Api<TenantCluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The cluster of a name.
    pub(crate) async fn cluster(&self, name: &str) -> Result<TenantCluster, Error> {
        let found = self.clusters().get_opt(name).await;
        let found = found.map_err(Error::api(format!("read the cluster {name}")))?;
        found.ok_or_else(|| Error::NoCluster {
            name: name.to_owned(),
            namespace: self.namespace.clone(),
        })
    }

    /// Changes the cluster of a name; `verb` is what the user asked for.
    pub(crate) async fn change(&self, name: &str, patch: Value, verb: &str) -> Result<(), Error> {
        let changed = self
            .clusters()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        changed.map_err(Error::api(format!("{verb} the cluster {name}")))?;
        Ok(())
    }

    /// The newest version of Kubernetes that the platform is known to have: the one it runs itself.
    pub(crate) async fn newest_version(&self) -> anyhow::Result<KubernetesVersion> {
        let version = self.client.apiserver_version().await;
        let version = version
            .map_err(Error::api("ask the platform for its version"))?
            .git_version;
        released(&version)
            .with_context(|| format!("the platform runs {version:?}, which says nothing about the versions it has; name one with --kubernetes-version"))
    }
}

/// The name we give ourselves.
pub(crate) fn component() -> anyhow::Result<Component> {
    Ok(Component::new(COMPONENT, env!("CARGO_PKG_VERSION"))?)
}

/// The released version that a distribution's own version is made of.
fn released(version: &str) -> Option<KubernetesVersion> {
    let end = version.find(['+', '-']).unwrap_or(version.len());
    version.get(..end)?.parse().ok()
}

/// The kubeconfig that "butleradm up" wrote, if nothing else is said and there is one.
fn of_an_installation() -> Option<PathBuf> {
    if std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()) {
        return None;
    }
    let directory = std::env::home_dir()?.join(".butler");
    let entries = std::fs::read_dir(directory).ok()?;
    let mut files: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(names::KUBECONFIG_SUFFIX))
        .collect();
    files.sort();
    files.into_iter().next()
}

/// Where clusters live that belong to no team. Not everybody may read the platform's configuration; the usual namespace is
/// meant then.
async fn default_namespace(client: &Client) -> Result<String, Error> {
    let configurations = Api::<ButlerConfig>::all(client.clone());
    match configurations.get_opt(names::BUTLER_CONFIG).await {
        Ok(Some(found)) => Ok(found.spec.default_namespace),
        Ok(None) => Ok(names::DEFAULT_TENANT_NAMESPACE.to_owned()),
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => {
            Ok(names::DEFAULT_TENANT_NAMESPACE.to_owned())
        }
        Err(error) => Err(Error::api("read the configuration of the platform")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distributions_version_is_that_of_the_release_it_is_made_of() {
        let text = |version| released(version).map(|version| version.to_string());
        assert_eq!(text("v1.36.3").as_deref(), Some("v1.36.3"));
        assert_eq!(text("v1.35.4+k3s1").as_deref(), Some("v1.35.4"));
        assert_eq!(text("v1.34.1-eks-3abbec1").as_deref(), Some("v1.34.1"));
        assert_eq!(text("unknown"), None);
    }
}

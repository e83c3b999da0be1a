//! A tenant cluster as its user meets it: an object of the management cluster, and `kubectl` with its kubeconfig. What its user
//! types instead of `kubectl` is in [`super::typed`].

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::kit::{Installation, eventually, note};

/// Where clusters are asked for: what a fresh installation has for them.
const NAMESPACE: &str = "butler-tenants";

/// A tenant cluster.
#[derive(Clone, Copy)]
pub(super) struct Cluster<'a> {
    pub(super) installation: &'a Installation,
    pub(super) name: &'static str,
    /// The namespace in which it is asked for.
    pub(super) home: &'static str,
}

impl<'a> Cluster<'a> {
    /// One that belongs to no team.
    pub(super) fn new(installation: &'a Installation, name: &'static str) -> Self {
        Self {
            installation,
            name,
            home: NAMESPACE,
        }
    }

    /// The one that most chapters share.
    pub(super) fn shop(installation: &'a Installation) -> Self {
        Self::new(installation, "shop")
    }

    /// The same in the namespace of a team.
    pub(super) fn of_team(self, home: &'static str) -> Self {
        Self { home, ..self }
    }

    /// Asks for it, with a spec.
    pub(super) fn create(&self, spec: &Value) {
        let manifest = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "TenantCluster",
            "metadata": { "name": self.name, "namespace": self.home },
            "spec": spec,
        });
        self.wish(&manifest.to_string());
    }

    /// Asks for it, with a whole manifest.
    pub(super) fn wish(&self, manifest: &str) {
        let apply = || {
            let apply = ["apply", "-f", "-"];
            self.installation.kubectl_with(&apply, manifest)
        };
        note(&self.taken(apply));
    }

    /// Changes its spec.
    pub(super) fn change(&self, spec: &Value) {
        let patch = json!({ "spec": spec }).to_string();
        self.taken(|| {
            self.installation.kubectl(&[
                "patch",
                "tenantcluster",
                "--namespace",
                self.home,
                self.name,
                "--type",
                "merge",
                "--patch",
                &patch,
            ])
        });
    }

    /// Says it again while nobody is there who could look at it. What is refused was looked at.
    fn taken(&self, say: impl Fn() -> Result<String, String>) -> String {
        eventually(&format!("{} is taken", self.name), || match say() {
            Err(words) if !words.contains("failed calling webhook") => {
                panic!("{} is refused: {words}", self.name)
            }
            answer => answer,
        })
    }

    /// The whole object; words of `kubectl` if it could not be read.
    pub(super) fn object(&self) -> Result<Value, String> {
        let text = self.installation.kubectl(&[
            "get",
            "tenantcluster",
            "--namespace",
            self.home,
            self.name,
            "-o",
            "json",
        ])?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    /// Whether what was asked for last is there: looked at, Ready, and with so many nodes.
    pub(super) fn is_ready(&self, nodes: usize) -> Result<(), String> {
        let object = self.object()?;
        let status = &object["status"];
        let is_current = status["observedGeneration"] == object["metadata"]["generation"];
        if !is_current || status["phase"] != "Ready" {
            return Err(self.troubles());
        }
        self.has_ready_nodes(nodes)
    }

    pub(super) fn has_ready_nodes(&self, count: usize) -> Result<(), String> {
        let nodes = self.kubectl(&["get", "nodes"])?;
        let ready = nodes.matches(" Ready ").count();
        if ready == count && nodes.lines().count() == count + 1 {
            Ok(())
        } else {
            Err(format!("{nodes}\n{}", self.troubles()))
        }
    }

    /// Waits until it is Ready with so many nodes, and takes its kubeconfig on the way.
    pub(super) fn becomes_ready(&self, nodes: usize) {
        eventually(&format!("{} has a kubeconfig", self.name), || {
            self.try_fetch_kubeconfig()
                .map_err(|words| format!("{words}\n{}", self.troubles()))
        });
        eventually(&format!("{} is Ready", self.name), || self.is_ready(nodes));
    }

    /// Where everything of it is in the management cluster.
    pub(super) fn namespace(&self) -> Result<String, String> {
        let object = self.object()?;
        let named = object["status"]["tenantNamespace"].as_str();
        named
            .map(ToOwned::to_owned)
            .ok_or_else(|| format!("no namespace yet: {}", object["status"]))
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        let directory = self.installation.home().join(".butler");
        directory.join(format!("{}-kubeconfig", self.name))
    }

    fn try_fetch_kubeconfig(&self) -> Result<(), String> {
        let namespace = self.namespace()?;
        let found = self.installation.kubectl(&[
            "get",
            "secret",
            "--namespace",
            &namespace,
            &format!("{}-kubeconfig", self.name),
            "-o",
            "jsonpath={.data.value}",
        ])?;
        let bytes = STANDARD
            .decode(found.trim())
            .map_err(|error| error.to_string())?;
        std::fs::write(self.kubeconfig(), bytes).map_err(|error| error.to_string())
    }

    /// `kubectl` as its administrator.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.installation
            .kubectl_of(&self.kubeconfig(), arguments, "")
    }

    pub(super) fn apply(&self, manifest: &str) {
        eventually("the cluster takes a manifest", || {
            self.installation
                .kubectl_of(&self.kubeconfig(), &["apply", "-f", "-"], manifest)
        });
    }

    /// What `kubectl get … -o json` shows.
    pub(super) fn get(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut all = vec!["get", "-o", "json"];
        all.extend(arguments);
        let text = self.kubectl(&all)?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    pub(super) fn rolled_out(&self, namespace: &str, workload: &str) {
        eventually(&format!("{workload} is rolled out"), || {
            self.kubectl(&[
                "rollout",
                "status",
                "--namespace",
                namespace,
                workload,
                "--timeout=60s",
            ])
            .map_err(|words| {
                let pods = self.kubectl(&["get", "pods", "-A", "-o", "wide"]);
                format!("{words}\n{pods:?}")
            })
        });
    }

    /// Takes away what protects its pods, as whoever lets it go does: a budget that the last worker cannot keep would hold its
    /// drain up for as long as a drain may take.
    pub(super) fn protects_nothing(&self) {
        let budgets = ["delete", "poddisruptionbudgets", "--all"];
        eventually("nothing is protected", || self.kubectl(&budgets));
    }

    /// Asks it to go, with nothing protected in it, and does not wait.
    pub(super) fn ask_to_go(&self) {
        self.protects_nothing();
        note(&self.taken(|| self.try_to_go()));
    }

    /// The same; what was said, if it was refused.
    pub(super) fn try_to_go(&self) -> Result<String, String> {
        self.installation.kubectl(&[
            "delete",
            "tenantcluster",
            "--namespace",
            self.home,
            "--wait=false",
            self.name,
        ])
    }

    /// Whether its object is gone.
    pub(super) fn is_gone(&self) -> Result<(), String> {
        match self.object() {
            Ok(_) => Err(self.troubles()),
            Err(words) if words.contains("NotFound") => Ok(()),
            Err(words) => Err(words),
        }
    }

    /// What somebody would look at who waits for it in vain.
    pub(super) fn troubles(&self) -> String {
        let status = self.object().map(|object| object["status"].clone());
        let namespace = self.namespace().unwrap_or_default();
        let looks: [&[&str]; 4] = [
            &[
                "get",
                "clusters,stewardcontrolplanes,machinedeployments,machines,butlermachines",
                "--namespace",
                &namespace,
            ],
            &["get", "machinerequests,ipallocations", "-A"],
            &["get", "pods", "--namespace", &namespace],
            &["get", "events", "-A", "--field-selector", "type=Warning"],
        ];
        let looks = looks.map(|look| {
            let shown = self.installation.kubectl(look);
            let shown = shown.unwrap_or_else(|words| words);
            // The newest events are the last.
            let lines: Vec<&str> = shown.lines().rev().take(20).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        });
        format!("{status:?}\n{}", looks.join("\n"))
    }
}

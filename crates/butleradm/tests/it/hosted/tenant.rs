//! A hosted control plane as its user meets it: an object of the management cluster, and `kubectl` with its kubeconfig.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_api::keys::labels;
use serde_json::Value;

use super::NAMESPACE;
use crate::kit::Installation;

/// A hosted control plane.
#[derive(Clone, Copy)]
pub(super) struct Tenant<'a> {
    pub(super) installation: &'a Installation,
    pub(super) name: &'static str,
}

impl<'a> Tenant<'a> {
    pub(super) fn new(installation: &'a Installation, name: &'static str) -> Self {
        Self { installation, name }
    }

    /// The one that all chapters share.
    pub(super) fn shop(installation: &'a Installation) -> Self {
        Self::new(installation, "shop")
    }

    /// What its objects in the management cluster have in common.
    pub(super) fn selector(&self) -> String {
        format!("{}={}", labels::STEWARD_NAME, self.name)
    }

    /// Where its administrator's kubeconfig is kept.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        let directory = self.installation.home().join(".butler");
        directory.join(format!("{}-kubeconfig", self.name))
    }

    /// Takes the administrator's kubeconfig out of its Secret, as it is now.
    pub(super) fn fetch_kubeconfig(&self) {
        self.try_fetch_kubeconfig().unwrap();
    }

    /// The same, for moments at which the management cluster may be busy.
    pub(super) fn try_fetch_kubeconfig(&self) -> Result<(), String> {
        use std::io::Write as _;
        let text = self.secret("admin-kubeconfig", r"admin\.conf")?;
        // Whole or not at all, and readable by nobody else: somebody may be about to use the one before.
        let mut file = tempfile::NamedTempFile::new_in(self.installation.home().join(".butler"))
            .map_err(|error| error.to_string())?;
        file.write_all(text.as_bytes())
            .map_err(|error| error.to_string())?;
        let kept = file.persist(self.kubeconfig());
        kept.map(drop).map_err(|error| error.to_string())
    }

    /// One value of one of its Secrets; dots in the key are written with a backslash.
    pub(super) fn secret(&self, which: &str, key: &str) -> Result<String, String> {
        let found = self.installation.kubectl(&[
            "get",
            "secret",
            "--namespace",
            NAMESPACE,
            &format!("{}-{which}", self.name),
            "-o",
            &format!("jsonpath={{.data.{key}}}"),
        ])?;
        let bytes = STANDARD
            .decode(found.trim())
            .map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }

    /// What its object says of it; words of `kubectl` if it could not be read.
    pub(super) fn status(&self) -> Value {
        let read = self.installation.kubectl(&[
            "get",
            "tenantcontrolplane",
            "--namespace",
            NAMESPACE,
            self.name,
            "-o",
            "json",
        ]);
        match read {
            Ok(text) => serde_json::from_str::<Value>(&text).unwrap()["status"].take(),
            Err(words) => Value::String(words),
        }
    }

    /// Changes its spec.
    pub(super) fn change(&self, patch: &Value) {
        let changed = self.installation.kubectl(&[
            "patch",
            "tenantcontrolplane",
            "--namespace",
            NAMESPACE,
            self.name,
            "--type",
            "merge",
            "--patch",
            &patch.to_string(),
        ]);
        changed.unwrap();
    }

    /// Deletes it and waits until its object is gone.
    pub(super) fn delete(&self) {
        let deleted = self.installation.kubectl(&[
            "delete",
            "tenantcontrolplane",
            "--namespace",
            NAMESPACE,
            "--timeout=180s",
            self.name,
        ]);
        if let Err(words) = deleted {
            panic!("{words}\n{}", self.troubles());
        }
    }

    /// Whether it is in a state at a version, with so many pods and no other.
    pub(super) fn reached(&self, word: &str, version: &str, pods: usize) -> Result<(), String> {
        let status = self.status();
        let found = &status["kubernetesResources"]["version"];
        let is_there = found["status"] == word && found["version"] == format!("v{version}");
        // A sleeper serves nobody.
        let serves = pods == 0 || condition(&status, "Ready")["status"] == "True";
        if is_there && serves && self.pods()?.len() == pods {
            Ok(())
        } else {
            Err(self.troubles())
        }
    }

    /// Whether everything is in it that a node looks for.
    pub(super) fn is_configured(&self) -> Result<(), String> {
        let status = self.status();
        let configured = condition(&status, "TenantConfigured");
        if configured["status"] == "True" {
            Ok(())
        } else {
            Err(self.troubles())
        }
    }

    /// Names of its pods, those on their way out too.
    pub(super) fn pods(&self) -> Result<Vec<String>, String> {
        let names = self.installation.kubectl(&[
            "get",
            "pods",
            "--namespace",
            NAMESPACE,
            "--selector",
            &self.selector(),
            "-o",
            "name",
        ])?;
        Ok(names.lines().map(ToOwned::to_owned).collect())
    }

    /// What somebody would look at who waits for it in vain.
    pub(super) fn troubles(&self) -> String {
        let status = self.status();
        let selector = self.selector();
        let looks: [&[&str]; 3] = [
            &["get", "pods", "-A", "-o", "wide", "--selector", &selector],
            &["get", "datastores"],
            &["get", "events", "-A", "--field-selector", "type=Warning"],
        ];
        let looks = looks.map(|look| {
            let shown = self.installation.kubectl(look);
            let shown = shown.unwrap_or_else(|words| words);
            // The newest events are the last.
            let lines: Vec<&str> = shown.lines().rev().take(15).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        });
        format!(
            "{}\n{}\n{}",
            status["kubernetesResources"]["version"],
            status["conditions"],
            looks.join("\n")
        )
    }

    /// `kubectl` as its administrator.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.kubectl_with(arguments, "")
    }

    /// The same, with a text as its input.
    pub(super) fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        self.installation
            .kubectl_of(&self.kubeconfig(), arguments, input)
    }

    /// What `kubectl get … -o json` shows.
    pub(super) fn get(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut all = vec!["get", "-o", "json"];
        all.extend(arguments);
        let text = self.kubectl(&all)?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    pub(super) fn apply(&self, manifest: &str) {
        self.kubectl_with(&["apply", "-f", "-"], manifest).unwrap();
    }

    /// The version that its API server says it has.
    pub(super) fn version(&self) -> Result<String, String> {
        let answer = self.kubectl(&["get", "--raw", "/version"])?;
        let version: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        Ok(version["gitVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// Waits until all pods of a workload are there; tells how they are if they do not come.
    pub(super) fn rolled_out(&self, namespace: &str, workload: &str) {
        let status = self.kubectl(&[
            "rollout",
            "status",
            "--namespace",
            namespace,
            workload,
            "--timeout=180s",
        ]);
        if let Err(words) = status {
            let pods = self.kubectl(&["get", "pods", "-A", "-o", "wide"]);
            let events = self.kubectl(&["get", "events", "-A"]);
            panic!("{workload}: {words}\n{pods:?}\n{events:?}");
        }
    }
}

/// A condition of a status, or null.
pub(super) fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.unwrap_or(&Value::Null)
}

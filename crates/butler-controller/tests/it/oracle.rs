//! What statuses must say, worked out from the objects alone, and differently from how the controllers do it.

use std::collections::BTreeMap;

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::ObjectStore;
use serde_json::{Value, json};

use crate::scene;

/// What a status claims: its conditions as `Status/Reason` by type, and a few plain fields.
type Claims = BTreeMap<String, String>;

/// The objects at rest.
pub(crate) struct Oracle<'a>(pub(crate) &'a ObjectStore);

impl Oracle<'_> {
    /// Compares every status with the truth.
    pub(crate) fn check(&self) -> Result<(), String> {
        for provider in self.objects(&scene::provider_kind()) {
            agree(
                &provider,
                &self.truth_of_provider(&provider),
                &["ready", "validated", "capacity"],
            )?;
            let finalizers = json!(["butler.butlerlabs.dev/providerconfig"]);
            if provider["metadata"]["finalizers"] != finalizers {
                return Err(format!("a provider without its finalizer: {provider:#}"));
            }
            if is_deleted(&provider) && self.users_of(&provider).is_empty() {
                return Err(format!(
                    "a deleted provider that nobody uses is still there: {provider:#}"
                ));
            }
        }
        for config in self.objects(&scene::config_kind()) {
            agree(
                &config,
                &self.truth_of_config(&config),
                &["teamCount", "clusterCount"],
            )?;
            self.check_namespace(&config)?;
        }
        Ok(())
    }

    fn objects(&self, kind: &Kind) -> Vec<Value> {
        self.0
            .objects(kind)
            .iter()
            .map(|object| object.as_ref().clone())
            .collect()
    }

    fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        let key = ObjectKey::namespaced(namespace, name);
        self.0.get(kind, &key).map(|object| object.as_ref().clone())
    }

    fn truth_of_provider(&self, provider: &Value) -> Claims {
        let mut truth = Claims::new();
        let spec = &provider["spec"];
        let mut obstacles = Vec::new();
        if is_deleted(provider) {
            obstacles.push("DeletionBlocked");
        }

        let credentials = match spec["provider"].as_str().unwrap() {
            "local" => "CredentialsNotRequired",
            _ if self.has_good_login(provider) => "CredentialsValid",
            _ => "CredentialsInvalid",
        };
        let validated = credentials != "CredentialsInvalid";
        if !validated {
            obstacles.push(credentials);
        }
        say(&mut truth, "CredentialsValid", validated, credentials);
        truth.insert("validated".to_owned(), validated.to_string());

        if spec["scope"]["type"] == "team" {
            let name = spec["scope"]["teamRef"]["name"].as_str().unwrap();
            if self
                .0
                .get(&scene::team_kind(), &ObjectKey::cluster(name))
                .is_none()
            {
                obstacles.push("TeamNotFound");
            }
        }
        let mut capacity = Value::Null;
        if spec["network"]["mode"] == "ipam" {
            let pools = spec["network"]["poolRefs"].as_array().unwrap().iter();
            let pools: Vec<_> = pools
                .map(|pool| {
                    self.find(
                        &scene::pool_kind(),
                        scene::SYSTEM,
                        pool["name"].as_str().unwrap(),
                    )
                })
                .collect();
            let counted: Option<Vec<i64>> = pools
                .iter()
                .map(|pool| pool.as_ref()?["status"]["availableIPs"].as_i64())
                .collect();
            let (answer, reason) = match &counted {
                _ if pools.contains(&None) => ("False", "PoolNotFound"),
                None => ("Unknown", "NotYetReported"),
                Some(counted) if counted.iter().sum::<i64>() == 0 => ("False", "PoolExhausted"),
                Some(_) => ("True", "PoolAvailable"),
            };
            truth.insert("PoolAvailable".to_owned(), format!("{answer}/{reason}"));
            if reason == "PoolNotFound" {
                obstacles.push(reason);
            }
            if let Some(counted) = counted {
                let sum = counted.iter().sum::<i64>();
                capacity = json!({ "availableIPs": sum, "estimatedTenants": sum / 13 });
            }
        }
        truth.insert("capacity".to_owned(), capacity.to_string());
        if let Some(limit) = spec["limits"]["maxClustersPerTeam"].as_i64() {
            let mut teams = BTreeMap::<String, i64>::new();
            for cluster in self.users_of(provider) {
                *teams
                    .entry(cluster["metadata"]["namespace"].to_string())
                    .or_default() += 1;
            }
            let kept = teams.values().all(|clusters| *clusters <= limit);
            say(
                &mut truth,
                "QuotaSatisfied",
                kept,
                if kept { "WithinQuota" } else { "QuotaExceeded" },
            );
        }
        say(
            &mut truth,
            "Ready",
            obstacles.is_empty(),
            obstacles.first().unwrap_or(&"Ready"),
        );
        truth.insert("ready".to_owned(), obstacles.is_empty().to_string());
        say(&mut truth, "Reconciled", true, "Succeeded");
        truth
    }

    fn has_good_login(&self, provider: &Value) -> bool {
        let namespace = provider["metadata"]["namespace"].as_str().unwrap();
        let name = provider["spec"]["credentialsRef"]["name"].as_str().unwrap();
        self.find(&scene::secret_kind(), namespace, name)
            .is_some_and(|secret| {
                ["username", "password"].iter().all(|key| {
                    secret["data"][key]
                        .as_str()
                        .is_some_and(|value| !value.is_empty())
                })
            })
    }

    /// The clusters that run on a provider.
    fn users_of(&self, provider: &Value) -> Vec<Value> {
        let configs = self.objects(&scene::config_kind());
        let default = configs
            .first()
            .and_then(|config| config["spec"]["defaultProviderConfigRef"]["name"].as_str());
        let default = default.unwrap_or("default").to_owned();
        let clusters = self.objects(&scene::cluster_kind()).into_iter();
        let uses = |cluster: &Value| {
            let reference = &cluster["spec"]["providerConfigRef"];
            let name = reference["name"].as_str().unwrap_or(&default);
            let namespace = reference["namespace"].as_str().unwrap_or(scene::SYSTEM);
            provider["metadata"]["name"] == name && provider["metadata"]["namespace"] == namespace
        };
        clusters.filter(uses).collect()
    }

    fn truth_of_config(&self, config: &Value) -> Claims {
        let mut truth = Claims::new();
        let enforced = config["spec"]["multiTenancy"]["mode"] == "Enforced";
        let name = config["spec"]["defaultNamespace"].as_str().unwrap();
        let reserved = name.starts_with("kube-");
        let namespace = match (enforced, reserved) {
            (true, _) => (true, "NotRequired"),
            (false, true) => (false, "NameReserved"),
            (false, false) => (true, "Ready"),
        };
        say(&mut truth, "NamespaceReady", namespace.0, namespace.1);
        let provider = config["spec"]["defaultProviderConfigRef"]["name"].as_str();
        let dangling = provider.is_some_and(|name| {
            self.find(&scene::provider_kind(), scene::SYSTEM, name)
                .is_none()
        });
        let configured = match (dangling, namespace.0) {
            (true, _) => (false, "ConfigError"),
            (false, true) => (true, "ConfigValid"),
            (false, false) => (false, "NamespaceError"),
        };
        say(&mut truth, "Configured", configured.0, configured.1);
        say(&mut truth, "FeaturesAvailable", true, "Ready");
        say(&mut truth, "Reconciled", true, "Succeeded");
        truth.insert(
            "teamCount".to_owned(),
            self.objects(&scene::team_kind()).len().to_string(),
        );
        truth.insert(
            "clusterCount".to_owned(),
            self.objects(&scene::cluster_kind()).len().to_string(),
        );
        truth
    }

    /// The namespace is there, alive, and says whose it is.
    fn check_namespace(&self, config: &Value) -> Result<(), String> {
        let name = config["spec"]["defaultNamespace"].as_str().unwrap();
        if config["spec"]["multiTenancy"]["mode"] == "Enforced" || name.starts_with("kube-") {
            return Ok(());
        }
        let namespace = self
            .0
            .get(&scene::namespace_kind(), &ObjectKey::cluster(name));
        let namespace = namespace.ok_or_else(|| format!("the namespace {name} is missing"))?;
        let owner = &namespace["metadata"]["labels"]["butler.butlerlabs.dev/owner-uid"];
        if is_deleted(&namespace) || *owner != config["metadata"]["uid"] {
            return Err(format!("the namespace is not in order: {namespace:#}"));
        }
        Ok(())
    }
}

fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn say(truth: &mut Claims, type_: &str, holds: bool, reason: &str) {
    let answer = if holds { "True" } else { "False" };
    truth.insert(type_.to_owned(), format!("{answer}/{reason}"));
}

/// Whether an object's status says the truth, all of it, and about the present spec.
fn agree(object: &Value, truth: &Claims, fields: &[&str]) -> Result<(), String> {
    let status = &object["status"];
    let mut claims = Claims::new();
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        claims.insert(
            text("type").to_owned(),
            format!("{}/{}", text("status"), text("reason")),
        );
        if condition["observedGeneration"] != object["metadata"]["generation"] {
            claims.insert(
                text("type").to_owned(),
                "about another generation".to_owned(),
            );
        }
    }
    for field in fields {
        claims.insert((*field).to_owned(), status[field].to_string());
    }
    if claims != *truth {
        return Err(format!(
            "the status claims {claims:#?}\nbut the truth is {truth:#?}\nof {object:#}"
        ));
    }
    if status["observedGeneration"] != object["metadata"]["generation"] {
        return Err(format!(
            "the status speaks of another generation: {object:#}"
        ));
    }
    Ok(())
}

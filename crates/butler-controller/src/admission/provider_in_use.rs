//! A provider that clusters run on cannot be deleted, nor become another one.

use std::sync::Arc;

use butler_api::butler::provider_config::ProviderConfig;
use butler_runtime::{
    admission::{Denial, Operation, Review, Validate, Verdict},
    cache::Caches,
    object::ObjectKey,
};

use crate::{projections::TenantClusterFacts, provider_config::users};

/// Refuses what would take a provider in use from its clusters, at once and with the clusters' names. The finalizer holds a
/// deletion that slips through, the controller of tenant clusters a change.
pub(super) struct ProviderInUse {
    caches: Arc<Caches>,
}

impl ProviderInUse {
    pub(super) fn new(caches: &Arc<Caches>) -> Self {
        Self {
            caches: Arc::clone(caches),
        }
    }
}

impl Validate<ProviderConfig> for ProviderInUse {
    const OPERATIONS: &'static [Operation] = &[Operation::Update, Operation::Delete];

    fn validate(&self, review: &Review<'_, ProviderConfig>) -> Verdict {
        let users = || users(&self.caches, &ObjectKey::of(review.object));
        let denials = match review.old {
            Some(old) if review.operation == Operation::Update => {
                let changes = changes(old, review.object);
                // Labels and the like are written often, and users are looked for among all clusters.
                if changes.is_empty() {
                    return Ok(Vec::new());
                }
                changed(&changes, &users())
            }
            _ if review.operation == Operation::Delete => deleted(&users()),
            _ => Vec::new(),
        };
        if denials.is_empty() {
            Ok(Vec::new())
        } else {
            Err(denials)
        }
    }
}

fn deleted(users: &[TenantClusterFacts]) -> Vec<Denial> {
    if users.is_empty() {
        return Vec::new();
    }
    let rule = format!(
        "still used by {}; delete these clusters or move them first",
        names(users.iter())
    );
    vec![Denial::new("metadata.name", rule)]
}

/// A field that decides the kinds of objects that clusters are made of, before and after a change of it.
type Change = (&'static str, &'static str, &'static str);

fn changes(old: &ProviderConfig, new: &ProviderConfig) -> Vec<Change> {
    let (old, new) = (&old.spec, &new.spec);
    let fields = [
        (
            "spec.provider",
            old.provider.as_str(),
            new.provider.as_str(),
        ),
        (
            "spec.clusterAPIProvider",
            old.cluster_api_provider.as_str(),
            new.cluster_api_provider.as_str(),
        ),
    ];
    let fields = fields.into_iter();
    fields.filter(|(_, old, new)| old != new).collect()
}

/// Clusters of which nothing is made yet hold nothing up: what they wait for may be this very change.
fn changed(changes: &[Change], users: &[TenantClusterFacts]) -> Vec<Denial> {
    let begun = || users.iter().filter(|cluster| cluster.begun);
    if begun().next().is_none() {
        return Vec::new();
    }
    let clusters = names(begun());
    let denial = |(field, old, new): &Change| {
        let rule = format!(
            "cannot be changed from {old} to {new}: used by {clusters}, whose machines would be replaced; make another \
             ProviderConfig, and new clusters on it"
        );
        Denial::new(*field, rule)
    };
    changes.iter().map(denial).collect()
}

fn names<'a>(clusters: impl Iterator<Item = &'a TenantClusterFacts>) -> String {
    let clusters: Vec<_> = clusters.map(|cluster| cluster.key.to_string()).collect();
    clusters.join(", ")
}

#[cfg(test)]
mod tests {
    use butler_runtime::cache::{AnyStore, Delta};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn provider(spec: &Value) -> ProviderConfig {
        let metadata = json!({ "name": "rack", "namespace": "butler-system" });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    fn on_nutanix(maker: &str) -> ProviderConfig {
        provider(&json!({ "provider": "nutanix", "clusterAPIProvider": maker }))
    }

    fn local() -> ProviderConfig {
        provider(&json!({ "provider": "local" }))
    }

    /// A reviewer who knows two clusters on `rack`, of one of which nothing is made yet, and one elsewhere.
    fn reviewer() -> ProviderInUse {
        let caches = Arc::<Caches>::default();
        let begun = json!({ "tenantNamespace": "shop-0a1b2c3d" });
        for (name, provider, status) in [
            ("shop", "rack", &begun),
            ("till", "rack", &json!({})),
            ("far", "other", &begun),
        ] {
            let cluster = json!({
                "metadata": { "name": name, "namespace": "retail", "uid": name, "resourceVersion": "1" },
                "spec": {
                    "kubernetesVersion": "v1.36.3", "workers": { "replicas": 1 },
                    "providerConfigRef": { "name": provider },
                },
                "status": status,
            });
            let store = caches.store::<TenantClusterFacts>();
            store.ingest(Delta::Upsert(cluster));
        }
        ProviderInUse::new(&caches)
    }

    fn told(
        reviewer: &ProviderInUse,
        operation: Operation,
        object: &ProviderConfig,
        old: Option<&ProviderConfig>,
    ) -> String {
        let review = Review {
            operation,
            object,
            old,
            user: "ada@example.com",
            groups: &[],
            dry_run: false,
            now: Timestamp::UNIX_EPOCH,
        };
        match reviewer.validate(&review) {
            Ok(_) => "fine".to_owned(),
            Err(denials) => {
                let lines: Vec<_> = denials.iter().map(ToString::to_string).collect();
                lines.join("\n")
            }
        }
    }

    #[test]
    fn a_provider_in_use_does_not_become_another_one() {
        let update = |object: &ProviderConfig, old: &ProviderConfig| {
            told(&reviewer(), Operation::Update, object, Some(old))
        };
        insta::assert_snapshot!(update(&on_nutanix("CAPX"), &local()), @r"
        spec.provider: cannot be changed from local to nutanix: used by retail/shop, whose machines would be replaced; make another ProviderConfig, and new clusters on it
        spec.clusterAPIProvider: cannot be changed from Butler to CAPX: used by retail/shop, whose machines would be replaced; make another ProviderConfig, and new clusters on it
        ");
        insta::assert_snapshot!(update(&on_nutanix("Butler"), &on_nutanix("CAPX")), @"spec.clusterAPIProvider: cannot be changed from CAPX to Butler: used by retail/shop, whose machines would be replaced; make another ProviderConfig, and new clusters on it");
    }

    #[test]
    fn what_decides_no_kinds_can_be_changed_under_clusters() {
        let limited = provider(&json!({
            "provider": "local", "limits": { "maxNodesPerTeam": 3 }, "network": { "mode": "ipam" },
        }));
        let said = told(&reviewer(), Operation::Update, &limited, Some(&local()));
        assert_eq!(said, "fine");
    }

    #[test]
    fn a_provider_whose_clusters_wait_for_it_to_be_corrected_can_be() {
        let reviewer = reviewer();
        let mut users = users(
            &reviewer.caches,
            &ObjectKey::namespaced("butler-system", "rack"),
        );
        users.retain(|cluster| !cluster.begun);
        assert_eq!(users.len(), 1);
        let found = changed(&changes(&local(), &on_nutanix("Butler")), &users);
        assert_eq!(found, []);
        let idle = ProviderInUse::new(&Arc::default());
        let said = told(
            &idle,
            Operation::Update,
            &on_nutanix("CAPX"),
            Some(&local()),
        );
        assert_eq!(said, "fine");
    }

    #[test]
    fn a_provider_in_use_is_not_deleted() {
        insta::assert_snapshot!(told(&reviewer(), Operation::Delete, &local(), None), @"metadata.name: still used by retail/shop, retail/till; delete these clusters or move them first");
        let idle = ProviderInUse::new(&Arc::default());
        assert_eq!(told(&idle, Operation::Delete, &local(), None), "fine");
    }
}

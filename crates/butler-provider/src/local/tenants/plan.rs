//! Decides for which clusters a network is kept, and which tenants are gone.

use std::collections::{BTreeMap, BTreeSet};

use butler_api::{
    butler::{
        ip_allocation::AllocationClusterReference,
        provider_config::{AllocationMode, Provider, ProviderConfig},
    },
    keys::names,
};
use butler_runtime::object::ObjectKey;

use super::facts::ClusterFacts;

/// A network that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The `TenantCluster`.
    pub(super) tenant: ObjectKey,
    /// The Secret with the kubeconfig.
    pub(super) secret: ObjectKey,
    /// Which version of it: another one may lead elsewhere.
    pub(super) version: String,
    /// Whether its pods get their network from us.
    pub(super) pods: bool,
    /// Whether its ranges of addresses grow by themselves.
    pub(super) grows: bool,
}

/// What is known of a `ProviderConfig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProviderFacts {
    pub(super) provider: Provider,
    /// Whether the ranges of its clusters grow by themselves.
    pub(super) elastic: bool,
}

impl ProviderFacts {
    pub(super) fn of(config: &ProviderConfig) -> Self {
        let network = config.spec.network.as_ref();
        let balancer = network.and_then(|network| network.load_balancer.as_ref());
        Self {
            provider: config.spec.provider,
            elastic: balancer
                .is_some_and(|balancer| balancer.allocation_mode == AllocationMode::Elastic),
        }
    }
}

/// What is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// Networks to be kept, by their `ButlerCluster`.
    pub(super) wanted: BTreeMap<ObjectKey, Wanted>,
    /// Clusters whose network goes on if there is one, since it is not known that it should not.
    pub(super) unclear: BTreeSet<ObjectKey>,
    /// Tenants that may have something on machines of this host.
    pub(super) there: BTreeSet<AllocationClusterReference>,
}

/// Decides about all clusters. The two functions say what is known of a `ProviderConfig`, and which version a Secret has.
pub(super) fn course<'a>(
    clusters: impl IntoIterator<Item = &'a ClusterFacts>,
    provider: impl Fn(&ObjectKey) -> Option<ProviderFacts>,
    version: impl Fn(&ObjectKey) -> Option<String>,
) -> Course {
    let mut course = Course::default();
    for cluster in clusters {
        let provider = provider(&cluster.provider);
        let is_elsewhere = provider.is_some_and(|facts| facts.provider != Provider::Local);
        if cluster.deleting || is_elsewhere {
            continue;
        }
        course.there.insert(AllocationClusterReference {
            name: cluster.tenant.name.clone(),
            namespace: cluster.tenant.namespace.clone().unwrap_or_default(),
        });
        let secret = ObjectKey {
            namespace: cluster.key.namespace.clone(),
            name: format!("{}{}", cluster.key.name, names::KUBECONFIG_SUFFIX),
        };
        match version(&secret).zip(provider) {
            Some((version, provider)) => {
                let wanted = Wanted {
                    tenant: cluster.tenant.clone(),
                    secret,
                    version,
                    pods: cluster.pods,
                    grows: provider.elastic,
                };
                course.wanted.insert(cluster.key.clone(), wanted);
            }
            None => {
                course.unclear.insert(cluster.key.clone());
            }
        }
    }
    course
}

#[cfg(test)]
mod tests {
    use butler_runtime::cache::Projection as _;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::local::tenants::facts::Told;

    fn cluster(name: &str, provider: &str) -> ClusterFacts {
        ClusterFacts {
            key: ObjectKey::namespaced(format!("{name}-1a2b3c4d"), name),
            deleting: false,
            provider: ObjectKey::namespaced("butler-system", provider),
            tenant: ObjectKey::namespaced("team", name),
            pods: true,
            waiting: Told::default(),
        }
    }

    fn provider(key: &ObjectKey) -> Option<ProviderFacts> {
        let facts = |provider, elastic| Some(ProviderFacts { provider, elastic });
        match key.name.as_str() {
            "local" => facts(Provider::Local, false),
            "elastic" => facts(Provider::Local, true),
            "far" => facts(Provider::Nutanix, true),
            _ => None,
        }
    }

    fn decided(clusters: &[ClusterFacts]) -> Course {
        let version = |secret: &ObjectKey| {
            let there = secret.name != "young-kubeconfig";
            there.then(|| "7".to_owned())
        };
        course(clusters, provider, version)
    }

    fn tenants(course: &Course) -> Vec<&str> {
        course
            .there
            .iter()
            .map(|tenant| tenant.name.as_str())
            .collect()
    }

    #[test]
    fn a_network_is_kept_for_each_cluster_on_this_host_that_can_be_reached() {
        let found = decided(&[cluster("shop", "local"), cluster("distant", "far")]);
        let wanted = Wanted {
            tenant: ObjectKey::namespaced("team", "shop"),
            secret: ObjectKey::namespaced("shop-1a2b3c4d", "shop-kubeconfig"),
            version: "7".to_owned(),
            pods: true,
            grows: false,
        };
        let shop = ObjectKey::namespaced("shop-1a2b3c4d", "shop");
        assert_eq!(found.wanted, BTreeMap::from([(shop, wanted)]));
        assert_eq!(found.unclear, BTreeSet::new());
        assert_eq!(tenants(&found), ["shop"]);
    }

    #[test]
    fn it_is_known_whether_a_cluster_brings_a_network_for_its_pods() {
        let projected = |annotations: serde_json::Value| {
            let body = serde_json::json!({
                "metadata": { "name": "shop", "namespace": "shop-1a2b3c4d", "annotations": annotations },
                "spec": { "providerRef": { "name": "local", "namespace": "butler-system" } },
            });
            ClusterFacts::project(body).unwrap()
        };
        let own = projected(serde_json::json!({ "butler.butlerlabs.dev/pod-network": "none" }));
        let given = projected(serde_json::json!({}));
        let found = [own, given].map(|cluster| {
            let wanted = decided(&[cluster]).wanted;
            wanted
                .values()
                .map(|wanted| wanted.pods)
                .collect::<Vec<_>>()
        });
        assert_eq!(found, [[false], [true]]);
    }

    #[test]
    fn it_is_known_whether_the_ranges_of_a_cluster_grow() {
        let found = decided(&[cluster("shop", "elastic")]);
        let grows: Vec<_> = found.wanted.values().map(|wanted| wanted.grows).collect();
        assert_eq!(grows, [true]);
        let config = |network: serde_json::Value| -> ProviderConfig {
            serde_json::from_value(serde_json::json!({
                "metadata": { "name": "local" },
                "spec": { "provider": "local", "network": network },
            }))
            .unwrap()
        };
        let elastic = serde_json::json!({ "loadBalancer": { "allocationMode": "elastic" } });
        assert!(ProviderFacts::of(&config(elastic)).elastic);
        assert!(!ProviderFacts::of(&config(serde_json::json!({}))).elastic);
    }

    #[test]
    fn what_cannot_be_told_changes_nothing() {
        let found = decided(&[cluster("young", "local"), cluster("lost", "nobody-knows")]);
        assert_eq!(found.wanted, BTreeMap::new());
        assert_eq!(found.unclear.len(), 2);
        assert_eq!(
            tenants(&found),
            ["lost", "young"],
            "nothing of theirs is given back"
        );
    }

    #[test]
    fn a_cluster_that_is_deleted_has_no_network_and_leaves_nothing_behind() {
        let going = ClusterFacts {
            deleting: true,
            ..cluster("shop", "local")
        };
        assert_eq!(decided(&[going]), Course::default());
    }
}

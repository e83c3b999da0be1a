//! Numbers about the fleet, read from the caches when they are asked for: an object that is gone has no series.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use butler_api::butler::{
    network_pool::{NetworkPool, NetworkPoolStatus},
    provider_config::{ProviderConfig, ScopeType},
};
use butler_runtime::{
    cache::{Caches, Store, Whole},
    metrics::Metrics,
    object::ObjectKey,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::projections::TenantClusterFacts;

/// What became of a wish for addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// They were granted.
    Success,
    /// They were refused.
    Failed,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
        }
    }
}

/// How often addresses were granted and refused, by pool.
#[derive(Debug, Default)]
pub struct Processed(Mutex<BTreeMap<(ObjectKey, Outcome), u64>>);

impl Processed {
    /// Counts.
    pub(crate) fn count(&self, pool: &ObjectKey, outcome: Outcome, times: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((pool.clone(), outcome)).or_default() += times;
    }

    fn counts(&self) -> BTreeMap<(ObjectKey, Outcome), u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }
}

/// Registers what these controllers count.
pub fn register(metrics: &Metrics, caches: &Caches, processed: &Arc<Processed>) {
    let fleet = Fleet {
        clusters: caches.store(),
        providers: caches.store(),
        pools: caches.store(),
        processed: Arc::clone(processed),
    };
    metrics.register(|registry| registry.register_collector(Box::new(fleet)));
}

/// The fleet as the caches show it.
struct Fleet {
    clusters: Arc<Store<TenantClusterFacts>>,
    providers: Arc<Store<Whole<ProviderConfig>>>,
    pools: Arc<Store<Whole<NetworkPool>>>,
    processed: Arc<Processed>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fleet")
    }
}

impl Collector for Fleet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.clusters_by_phase(&mut encoder)?;
        self.providers(&mut encoder)?;
        self.pools(&mut encoder)?;
        self.processed(&mut encoder)
    }
}

/// The labels of a series and its value.
type Series = (Vec<(&'static str, String)>, i64);

impl Fleet {
    fn clusters_by_phase(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut phases = BTreeMap::<String, i64>::new();
        for cluster in self.clusters.list() {
            let phase = cluster
                .value
                .phase
                .map(|phase| format!("{phase:?}"))
                .unwrap_or_default();
            *phases.entry(phase).or_default() += 1;
        }
        let series = phases
            .into_iter()
            .map(|(phase, count)| (vec![("phase", phase)], count));
        gauge(
            encoder,
            "tenant_clusters",
            "Tenant clusters by phase.",
            series,
        )
    }

    fn providers(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let providers = self.providers.list();
        let name = |provider: &ProviderConfig| {
            let metadata = &provider.metadata;
            vec![
                ("provider", metadata.name.clone().unwrap_or_default()),
                ("namespace", metadata.namespace.clone().unwrap_or_default()),
            ]
        };
        let ready = providers.iter().map(|cached| {
            let provider = &cached.value.0;
            let scope = provider
                .spec
                .scope
                .as_ref()
                .map(|scope| scope.kind)
                .unwrap_or_default();
            let scope = if scope == ScopeType::Team {
                "team"
            } else {
                "platform"
            };
            let mut labels = name(provider);
            labels.extend([
                ("type", provider.spec.provider.as_str().to_owned()),
                ("scope", scope.to_owned()),
            ]);
            let is_ready = provider.status.as_ref().and_then(|status| status.ready) == Some(true);
            (labels, i64::from(is_ready))
        });
        gauge(
            encoder,
            "provider_config_ready",
            "Whether a provider can be used.",
            ready,
        )?;
        let counted = |count: fn(&ProviderConfig) -> Option<i32>| {
            providers.iter().filter_map(move |cached| {
                let provider = &cached.value.0;
                Some((name(provider), i64::from(count(provider)?)))
            })
        };
        let available =
            counted(|provider| provider.status.as_ref()?.capacity.as_ref()?.available_ips);
        gauge(
            encoder,
            "provider_config_available_ips",
            "Addresses left in a provider's pools.",
            available,
        )?;
        let tenants = counted(|provider| {
            provider
                .status
                .as_ref()?
                .capacity
                .as_ref()?
                .estimated_tenants
        });
        gauge(
            encoder,
            "provider_config_estimated_tenants",
            "Tenant clusters the addresses are enough for.",
            tenants,
        )
    }
}

/// A number that a pool says of itself.
type PoolNumber = (
    &'static str,
    &'static str,
    fn(&NetworkPoolStatus) -> Option<i32>,
);

const POOL_NUMBERS: [PoolNumber; 6] = [
    (
        "network_pool_total_ips",
        "Addresses a pool can give out.",
        |status| status.total_ips,
    ),
    (
        "network_pool_allocated_ips",
        "Addresses a pool has given out.",
        |status| status.allocated_ips,
    ),
    (
        "network_pool_available_ips",
        "Addresses left in a pool.",
        |status| status.available_ips,
    ),
    (
        "network_pool_allocation_count",
        "Allocations of a pool.",
        |status| status.allocation_count,
    ),
    (
        "network_pool_fragmentation_percent",
        "How scattered the free addresses of a pool are.",
        |status| status.fragmentation_percent,
    ),
    (
        "network_pool_largest_free_block",
        "Longest run of free addresses of a pool.",
        |status| status.largest_free_block,
    ),
];

fn pool_labels(pool: &ObjectKey) -> Vec<(&'static str, String)> {
    vec![
        ("pool", pool.name.clone()),
        ("namespace", pool.namespace.clone().unwrap_or_default()),
    ]
}

impl Fleet {
    fn pools(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let pools = self.pools.list();
        for (name, help, number) in POOL_NUMBERS {
            let series = pools.iter().filter_map(|pool| {
                let value = number(pool.value.0.status.as_ref()?)?;
                Some((pool_labels(&pool.facts.key), i64::from(value)))
            });
            gauge(encoder, name, help, series)?;
        }
        Ok(())
    }

    fn processed(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "ip_allocation_processed",
            "Wishes for addresses, granted and refused.",
            None,
            MetricType::Counter,
        )?;
        for ((pool, outcome), count) in self.processed.counts() {
            if self.pools.get(&pool).is_some() {
                let mut labels = pool_labels(&pool);
                labels.push(("result", outcome.as_str().to_owned()));
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Writes a family. The registry puts `butler_` before every name.
fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl Iterator<Item = Series>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

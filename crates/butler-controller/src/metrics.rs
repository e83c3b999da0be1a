//! Numbers about the fleet, read from the caches when they are asked for: an object that is gone has no series.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use butler_api::butler::{
    network_pool::{NetworkPool, NetworkPoolStatus},
    provider_config::{ProviderConfig, ScopeType},
    tenant_cluster::TenantClusterPhase,
};
use butler_runtime::{
    cache::{Caches, Store, Whole},
    metrics::Metrics,
    object::ObjectKey,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge, histogram::Histogram},
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

    /// Forgets a pool that is gone.
    pub(crate) fn forget(&self, pool: &ObjectKey) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|(counted, _), _| counted != pool);
    }

    fn counts(&self) -> BTreeMap<(ObjectKey, Outcome), u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }
}

/// Bounds of how long a pass over a tenant cluster takes, in seconds.
const PASS_SECONDS: [f64; 7] = [0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0];

/// How long passes over each tenant cluster took.
#[derive(Debug, Default)]
pub struct PassTimes(Mutex<BTreeMap<ObjectKey, Histogram>>);

impl PassTimes {
    /// Counts a pass over a cluster that goes on.
    pub(crate) fn count(&self, cluster: &ObjectKey, took: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = times
            .entry(cluster.clone())
            .or_insert_with(|| Histogram::new(PASS_SECONDS));
        times.observe(took.as_secs_f64());
    }

    /// Forgets a cluster that is gone.
    pub(crate) fn forget(&self, cluster: &ObjectKey) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.remove(cluster);
    }

    fn all(&self) -> BTreeMap<ObjectKey, Histogram> {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.clone()
    }
}

/// The phases a tenant cluster can be in, the empty one of a cluster that nobody has looked at included.
const PHASES: [Option<TenantClusterPhase>; 8] = [
    None,
    Some(TenantClusterPhase::Pending),
    Some(TenantClusterPhase::Provisioning),
    Some(TenantClusterPhase::Installing),
    Some(TenantClusterPhase::Ready),
    Some(TenantClusterPhase::Updating),
    Some(TenantClusterPhase::Failed),
    Some(TenantClusterPhase::Deleting),
];

fn phase_name(phase: Option<TenantClusterPhase>) -> String {
    phase.map(|phase| format!("{phase:?}")).unwrap_or_default()
}

fn cluster_labels(cluster: &ObjectKey) -> Vec<(&'static str, String)> {
    vec![
        ("namespace", cluster.namespace.clone().unwrap_or_default()),
        ("name", cluster.name.clone()),
    ]
}

/// Registers what these controllers count.
pub fn register(
    metrics: &Metrics,
    caches: &Caches,
    processed: &Arc<Processed>,
    pass_times: &Arc<PassTimes>,
) {
    let fleet = Fleet {
        pass_times: Arc::clone(pass_times),
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
    pass_times: Arc<PassTimes>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fleet")
    }
}

impl Collector for Fleet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.clusters_by_phase(&mut encoder)?;
        self.phases(&mut encoder)?;
        self.pass_times(&mut encoder)?;
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
            let phase = phase_name(cluster.value.phase);
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

    /// Which phase each cluster is in: one series for each phase, of which one is 1.
    fn phases(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let clusters = self.clusters.list();
        let series = clusters.iter().flat_map(|cluster| {
            PHASES.into_iter().map(move |phase| {
                let mut labels = cluster_labels(&cluster.value.key);
                labels.push(("phase", phase_name(phase)));
                (labels, i64::from(cluster.value.phase == phase))
            })
        });
        gauge(
            encoder,
            "tenant_cluster_phase",
            "Which phase a tenant cluster is in.",
            series,
        )
    }

    fn pass_times(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "tenant_cluster_reconcile_duration_seconds",
            "How long passes over a tenant cluster took.",
            None,
            MetricType::Histogram,
        )?;
        for (cluster, times) in self.pass_times.all() {
            if self.clusters.get(&cluster).is_some() {
                times.encode(family.encode_family(&cluster_labels(&cluster))?)?;
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_pool_that_is_gone_is_not_counted_any_more() {
        let processed = Processed::default();
        let [rack, shelf] = ["rack", "shelf"].map(|name| ObjectKey::namespaced("system", name));
        processed.count(&rack, Outcome::Success, 2);
        processed.count(&rack, Outcome::Failed, 1);
        processed.count(&shelf, Outcome::Success, 3);
        processed.forget(&rack);
        assert_eq!(
            processed.counts(),
            BTreeMap::from([((shelf, Outcome::Success), 3)])
        );
    }
}

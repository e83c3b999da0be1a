//! Numbers about the fleet, read from the caches when they are asked for: an object that is gone has no series.

use std::{collections::BTreeMap, fmt, sync::Arc};

use butler_api::butler::provider_config::{ProviderConfig, ScopeType};
use butler_runtime::{
    cache::{Caches, Store, Whole},
    metrics::Metrics,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};

use crate::projections::TenantClusterFacts;

/// Registers what these controllers count.
pub fn register(metrics: &Metrics, caches: &Caches) {
    let fleet = Fleet {
        clusters: caches.store(),
        providers: caches.store(),
    };
    metrics.register(|registry| registry.register_collector(Box::new(fleet)));
}

/// The fleet as the caches show it.
struct Fleet {
    clusters: Arc<Store<TenantClusterFacts>>,
    providers: Arc<Store<Whole<ProviderConfig>>>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fleet")
    }
}

impl Collector for Fleet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.clusters_by_phase(&mut encoder)?;
        self.providers(&mut encoder)
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

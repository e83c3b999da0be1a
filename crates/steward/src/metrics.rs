//! Numbers about hosted control planes, read from the caches when they are asked for: an object that is gone has no series.

use std::{collections::BTreeMap, fmt, sync::Arc};

use butler_api::{
    conditions::types,
    steward::{data_store::DataStore, tenant_control_plane::TenantControlPlane},
};
use butler_runtime::{
    cache::{Caches, Store, Whole},
    conditions::holds,
    metrics::Metrics,
};
use kube::ResourceExt;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use serde_json::json;

use crate::secrets::{Content, KeptSecret};

/// The conditions whose times tell how long each stage of a control plane took.
const STAGES: [&str; 5] = [
    types::CERTIFICATES_READY,
    types::DATA_STORE_READY,
    types::ENDPOINT_READY,
    types::AVAILABLE,
    types::TENANT_CONFIGURED,
];

/// Registers what Steward counts.
pub fn register(metrics: &Metrics, caches: &Caches) {
    let fleet = Fleet {
        control_planes: caches.store(),
        stores: caches.store(),
        secrets: caches.store(),
    };
    metrics.register(|registry| registry.register_collector(Box::new(fleet)));
}

/// The control planes as the caches show them.
struct Fleet {
    control_planes: Arc<Store<Whole<TenantControlPlane>>>,
    stores: Arc<Store<Whole<DataStore>>>,
    secrets: Arc<Store<KeptSecret>>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fleet")
    }
}

impl Collector for Fleet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.control_planes(&mut encoder)?;
        self.stores(&mut encoder)?;
        self.certificates(&mut encoder)
    }
}

/// The labels of a series and its value.
type Series = (Vec<(&'static str, String)>, i64);

/// What a control plane is known by.
fn identity(control_plane: &TenantControlPlane) -> Vec<(&'static str, String)> {
    vec![
        ("namespace", control_plane.namespace().unwrap_or_default()),
        ("name", control_plane.name_any()),
    ]
}

fn information(control_plane: &TenantControlPlane) -> Series {
    let status = control_plane.status.clone().unwrap_or_default();
    let version = status
        .kubernetes_resources
        .unwrap_or_default()
        .version
        .unwrap_or_default();
    let driver = status
        .storage
        .unwrap_or_default()
        .driver
        .unwrap_or_default();
    let exposure = &control_plane.spec.control_plane;
    let service = json!(exposure.service.service_type);
    let exposed_by = match (&exposure.ingress, &exposure.gateway) {
        (Some(_), _) => "Ingress",
        (None, Some(_)) => "Gateway",
        (None, None) => service.as_str().unwrap_or_default(),
    };
    let word = json!(version.status);
    let mut labels = identity(control_plane);
    labels.extend([
        ("kubernetes_version", version.version.unwrap_or_default()),
        ("datastore_driver", driver),
        ("exposure", exposed_by.to_owned()),
        ("status", word.as_str().unwrap_or_default().to_owned()),
    ]);
    (labels, 1)
}

fn is_ready(control_plane: &TenantControlPlane) -> bool {
    let status = control_plane.status.as_ref();
    status.is_some_and(|status| holds(&status.conditions, types::READY))
}

/// How many seconds after its creation a control plane passed each stage it has passed.
fn stages(control_plane: &TenantControlPlane) -> Vec<Series> {
    let Some(born) = control_plane.creation_timestamp() else {
        return Vec::new();
    };
    let conditions = control_plane
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    let passed = conditions.filter(|condition| {
        condition.status == "True" && STAGES.contains(&condition.type_.as_str())
    });
    passed
        .map(|condition| {
            let mut labels = identity(control_plane);
            labels.push(("stage", condition.type_.clone()));
            let took = condition.last_transition_time.0.duration_since(born.0);
            (labels, took.as_secs())
        })
        .collect()
}

impl Fleet {
    fn control_planes(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.control_planes.list();
        let all: Vec<_> = all.iter().map(|found| &found.value.0).collect();
        gauge(
            encoder,
            "tenant_control_plane_info",
            "Hosted control planes: what they run, where, and how they are doing.",
            all.iter().map(|found| information(found)),
        )?;
        let mut counts = BTreeMap::from([("false", 0), ("true", 0)]);
        for found in &all {
            let ready = if is_ready(found) { "true" } else { "false" };
            *counts.entry(ready).or_default() += 1;
        }
        let counts = counts.into_iter();
        gauge(
            encoder,
            "tenant_control_planes",
            "Hosted control planes by whether they serve.",
            counts.map(|(ready, count)| (vec![("ready", ready.to_owned())], count)),
        )?;
        gauge(
            encoder,
            "tenant_control_plane_stage_seconds",
            "Seconds from the creation of a control plane to the end of a stage, the last time it was reached.",
            all.iter().flat_map(|found| stages(found)),
        )
    }

    fn stores(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.stores.list();
        let labels = |store: &DataStore| {
            let driver = json!(store.spec.driver);
            vec![
                ("name", store.name_any()),
                ("driver", driver.as_str().unwrap_or_default().to_owned()),
            ]
        };
        let ready = all.iter().map(|found| {
            let store = &found.value.0;
            let status = store.status.as_ref();
            let ready = status.is_some_and(|status| holds(&status.conditions, types::READY));
            (labels(store), i64::from(ready))
        });
        gauge(
            encoder,
            "data_store_ready",
            "Whether a data store answers.",
            ready,
        )?;
        let users = all.iter().map(|found| {
            let store = &found.value.0;
            let users = store
                .status
                .as_ref()
                .map_or(0, |status| status.used_by.len());
            (labels(store), i64::try_from(users).unwrap_or(i64::MAX))
        });
        gauge(
            encoder,
            "data_store_tenants",
            "Control planes that use a data store.",
            users,
        )
    }

    fn certificates(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.secrets.list();
        let series = all.iter().filter_map(|found| {
            let secret = &found.value;
            let ends = match &secret.content {
                Content::Pair(Ok(pair)) | Content::StoreCertificate { pair: Ok(pair), .. } => {
                    pair.facts.not_after
                }
                Content::Kubeconfigs(all) => {
                    let ends = all.values().filter_map(|facts| facts.as_ref().ok());
                    ends.map(|facts| facts.facts.not_after).min()?
                }
                _ => return None,
            };
            let labels = vec![
                (
                    "namespace",
                    secret.tenant.namespace.clone().unwrap_or_default(),
                ),
                ("name", secret.tenant.name.clone()),
                ("secret", found.facts.key.name.clone()),
            ];
            Some((labels, ends.as_second()))
        });
        gauge(
            encoder,
            "certificate_expiry_timestamp_seconds",
            "When the first certificate in a Secret of a control plane expires.",
            series,
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

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
use jiff::Timestamp;
use kube::ResourceExt;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge, info::Info},
};
use serde_json::json;

use crate::secrets::{Content, KeptSecret};

/// Registers what Steward counts.
pub fn register(metrics: &Metrics, caches: &Caches) {
    let fleet = Fleet {
        control_planes: caches.store(),
        stores: caches.store(),
        secrets: caches.store(),
    };
    metrics.register(|registry| registry.register_collector(Box::new(fleet)));
}

/// Registers which release of Steward this is.
pub fn register_build(metrics: &Metrics, version: &str) {
    let build = Info::new(vec![("version", version.to_owned())]);
    metrics.register(|registry| registry.register("build", "This release of Steward.", build));
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
        ("address", status.control_plane_endpoint.unwrap_or_default()),
        ("status", word.as_str().unwrap_or_default().to_owned()),
    ]);
    (labels, 1)
}

/// Whether a control plane serves, with its word: 1 if it does, so that an alert needs no labels.
fn readiness(control_plane: &TenantControlPlane) -> Series {
    let resources = control_plane
        .status
        .as_ref()
        .and_then(|status| status.kubernetes_resources.as_ref());
    let version = resources.and_then(|resources| resources.version.as_ref());
    let word = json!(version.map(|version| version.status).unwrap_or_default());
    let is_ready = is_ready(control_plane);
    let mut labels = identity(control_plane);
    labels.extend([
        ("status", word.as_str().unwrap_or_default().to_owned()),
        ("ready", is_ready.to_string()),
    ]);
    (labels, i64::from(is_ready))
}

fn is_ready(control_plane: &TenantControlPlane) -> bool {
    let status = control_plane.status.as_ref();
    status.is_some_and(|status| holds(&status.conditions, types::READY))
}

/// How many seconds after its creation a control plane first passed each stage it has passed.
fn stages(control_plane: &TenantControlPlane) -> Vec<Series> {
    let status = control_plane.status.iter();
    let passed = status.flat_map(|status| &status.stages);
    passed
        .map(|stage| {
            let mut labels = identity(control_plane);
            labels.push(("stage", stage.name.clone()));
            (labels, stage.seconds)
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
        gauge(
            encoder,
            "tenant_control_plane_status",
            "Whether a hosted control plane serves (1) or not (0), and the word for how it is doing.",
            all.iter().map(|found| readiness(found)),
        )?;
        gauge(
            encoder,
            "tenant_control_planes",
            "Hosted control planes by whether they serve.",
            counts(all.iter().map(|found| is_ready(found))),
        )?;
        gauge(
            encoder,
            "tenant_control_plane_stage_seconds",
            "Seconds from the creation of a control plane to the first time that it passed a stage.",
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
        let is_ready = |store: &DataStore| {
            let status = store.status.as_ref();
            status.is_some_and(|status| holds(&status.conditions, types::READY))
        };
        gauge(
            encoder,
            "data_stores",
            "Data stores by whether they answer.",
            counts(all.iter().map(|found| is_ready(&found.value.0))),
        )?;
        let ready = all.iter().map(|found| {
            let store = &found.value.0;
            (labels(store), i64::from(is_ready(store)))
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
        let judged: Vec<_> = all
            .iter()
            .filter_map(|found| {
                let secret = &found.value;
                let (namespace, name) = (&secret.tenant.namespace, &secret.tenant.name);
                let labels = vec![
                    ("namespace", namespace.clone().unwrap_or_default()),
                    ("name", name.clone()),
                    ("secret", found.facts.key.name.clone()),
                ];
                Some((labels, end(&secret.content)?))
            })
            .collect();
        let ends = judged.iter();
        let ends = ends.filter_map(|(labels, end)| match end {
            End::At(time) => Some((labels.clone(), time.as_second())),
            End::Unusable => None,
        });
        gauge(
            encoder,
            "certificate_expiry_timestamp_seconds",
            "When the first certificate in a Secret of a control plane expires.",
            ends,
        )?;
        let usable = judged.iter();
        let usable =
            usable.map(|(labels, end)| (labels.clone(), i64::from(matches!(end, End::At(_)))));
        gauge(
            encoder,
            "certificate_usable",
            "Whether the certificates in a Secret of a control plane can be read and have their keys.",
            usable,
        )
    }
}

/// The end of a certificate. One that is unusable comes before all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// It cannot be read, or lacks its key.
    Unusable,
    /// When it expires.
    At(Timestamp),
}

/// When the first certificate among the values of a Secret ends; nothing of a Secret without any.
fn end(content: &Content) -> Option<End> {
    match content {
        Content::Pair(pair) | Content::StoreCertificate { pair, .. } => {
            let pair = pair.as_ref();
            Some(pair.map_or(End::Unusable, |pair| End::At(pair.facts.not_after)))
        }
        Content::Kubeconfigs(all) => {
            let ends = all.values().map(|facts| {
                let facts = facts.as_ref();
                facts.map_or(End::Unusable, |facts| End::At(facts.facts.not_after))
            });
            ends.min()
        }
        Content::ServiceAccount(_) | Content::StoreConfig { .. } | Content::Other => None,
    }
}

/// How many are ready, and how many are not.
fn counts(all: impl Iterator<Item = bool>) -> impl Iterator<Item = Series> {
    let mut counts = BTreeMap::from([(false, 0), (true, 0)]);
    for ready in all {
        *counts.entry(ready).or_default() += 1;
    }
    let counts = counts.into_iter();
    counts.map(|(ready, count)| (vec![("ready", ready.to_string())], count))
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
    use butler_api::keys::{labels, values};
    use butler_runtime::cache::{AnyStore as _, Delta};
    use serde_json::Value;

    use super::*;
    use crate::{secrets::bytes, testing::control_plane_with};

    /// What is asked for by whoever watches a fleet.
    fn scraped(control_planes: Vec<Value>, stores: Vec<Value>, secrets: Vec<Value>) -> String {
        let (metrics, caches) = (Metrics::new(), Caches::default());
        register(&metrics, &caches);
        register_build(&metrics, "1.2.3");
        caches
            .store::<Whole<TenantControlPlane>>()
            .ingest(Delta::Reset(control_planes));
        caches
            .store::<Whole<DataStore>>()
            .ingest(Delta::Reset(stores));
        caches.store::<KeptSecret>().ingest(Delta::Reset(secrets));
        let text = metrics.encode().unwrap();
        let ours = ["build", "tenant", "data_store", "certificate"];
        let lines = text.lines().filter(|line| {
            let mut ours = ours.iter();
            ours.any(|family| line.starts_with(&format!("butler_{family}")))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_fleet_is_told_in_numbers() {
        let mut shop = control_plane_with(json!({}));
        shop.status = serde_json::from_value(json!({
            "controlPlaneEndpoint": "192.0.2.4:6443",
            "kubernetesResources": { "version": { "version": "v1.36.3", "status": "Ready" } },
            "storage": { "driver": "etcd" },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }))
        .unwrap();
        let mut desk = control_plane_with(json!({}));
        desk.metadata.name = Some("desk".to_owned());
        let store = json!({
            "metadata": { "name": "gold" },
            "spec": { "driver": "etcd", "endpoints": ["etcd:2379"] },
            "status": { "usedBy": ["payments/shop"] },
        });
        let broken = json!({
            "metadata": {
                "name": "shop-ca", "namespace": "payments", "uid": "1", "resourceVersion": "1",
                "labels": {
                    labels::STEWARD_PROJECT: values::STEWARD_PROJECT,
                    labels::STEWARD_NAME: "shop",
                    labels::STEWARD_COMPONENT: "ca",
                },
            },
            "data": { "ca.crt": bytes("no certificate") },
        });
        insta::assert_snapshot!(scraped(vec![json!(desk), json!(shop)], vec![store], vec![broken]), @r#"
        butler_build_info{version="1.2.3"} 1
        butler_tenant_control_plane_info{namespace="payments",name="desk",kubernetes_version="",datastore_driver="",exposure="LoadBalancer",address="",status="Provisioning"} 1
        butler_tenant_control_plane_info{namespace="payments",name="shop",kubernetes_version="v1.36.3",datastore_driver="etcd",exposure="LoadBalancer",address="192.0.2.4:6443",status="Ready"} 1
        butler_tenant_control_plane_status{namespace="payments",name="desk",status="Provisioning",ready="false"} 0
        butler_tenant_control_plane_status{namespace="payments",name="shop",status="Ready",ready="true"} 1
        butler_tenant_control_planes{ready="false"} 1
        butler_tenant_control_planes{ready="true"} 1
        butler_data_stores{ready="false"} 1
        butler_data_stores{ready="true"} 0
        butler_data_store_ready{name="gold",driver="etcd"} 0
        butler_data_store_tenants{name="gold",driver="etcd"} 1
        butler_certificate_usable{namespace="payments",name="shop",secret="shop-ca"} 0
        "#);
    }
}

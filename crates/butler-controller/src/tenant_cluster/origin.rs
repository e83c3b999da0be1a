//! What was settled when a tenant cluster was made, and stays whatever its platform and its provider say later: who hosts its
//! control plane, how that is reached, and where its machines come from.
//!
//! Owns what the Cluster keeps of it. Pure. Another host would begin with an empty cluster, another way to the API server would
//! be known to no node, and other kinds of infrastructure would replace every machine.

use std::collections::BTreeMap;

use butler_api::{
    butler::{
        butler_config::{ButlerConfig, ControlPlaneExposure, ControlPlaneProvider},
        provider_config::{ClusterApiProvider, Provider, ProviderConfig},
    },
    cluster_api::{
        butler_cluster::ButlerCluster, cluster::Cluster, steward_control_plane::StewardControlPlane,
    },
    conditions::{reasons, types},
    keys::annotations,
};
use butler_runtime::{
    conditions::Finding,
    object::{Kind, ObjectKey},
};
use serde_json::{Value, json};

use super::{
    blueprint::{Blueprint, ControlPlane, Settled},
    kinds,
    related::Related,
    why::Waiting,
};

/// What a Cluster keeps of how it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Kind of its control plane.
    pub control_plane: Option<String>,
    /// Kind of its infrastructure.
    pub infrastructure: Option<String>,
    /// The infrastructure that its machines come from.
    pub provider: Option<Provider>,
    /// How its hosted control plane is reached.
    pub exposure: Option<ControlPlaneExposure>,
}

impl Origin {
    /// Takes it from a Cluster. What an older release did not write is not known.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let written = |name: &str| {
            let annotations = cluster.metadata.annotations.as_ref()?;
            annotations.get(name)
        };
        let spec = &cluster.spec;
        let control_plane = spec.control_plane_ref.as_ref();
        let infrastructure = spec.infrastructure_ref.as_ref();
        Self {
            control_plane: control_plane.map(|reference| reference.kind.clone()),
            infrastructure: infrastructure.map(|reference| reference.kind.clone()),
            provider: written(annotations::PROVIDER)
                .and_then(|text| serde_json::from_value(json!(text)).ok()),
            exposure: written(annotations::CONTROL_PLANE_EXPOSURE)
                .and_then(|text| serde_json::from_str(text).ok()),
        }
    }

    /// What the references of a Cluster do not tell of it.
    pub(super) fn annotations(blueprint: &Blueprint) -> BTreeMap<&'static str, String> {
        let provider = blueprint.provider().as_str().to_owned();
        let mut found = BTreeMap::from([(annotations::PROVIDER, provider)]);
        if let ControlPlane::Hosted(hosted) = &blueprint.control_plane {
            let exposed: Value = json!(hosted.exposed);
            found.insert(annotations::CONTROL_PLANE_EXPOSURE, exposed.to_string());
        }
        found
    }
}

/// What is settled about a hosted control plane. The way to it is when somebody may have joined by it: until then the platform
/// may still be given a way that works.
pub(super) fn settled(related: &Related) -> Settled {
    let cluster = related.cluster.as_ref().map(|found| &found.facts);
    let found = related.control_plane.as_ref().map(|found| &found.kind);
    // Its state is where its host put it, also when the object is lost.
    let kind = found.or_else(|| cluster?.origin.control_plane.as_ref());
    let known = cluster.filter(|cluster| cluster.endpoint.is_some());
    Settled {
        host: kind.and_then(|kind| host_of(kind)),
        exposure: known.and_then(|cluster| cluster.origin.exposure.clone()),
    }
}

/// Who runs hosted control planes of a kind.
fn host_of(kind: &str) -> Option<ControlPlaneProvider> {
    let hosts = [
        (
            Kind::of::<StewardControlPlane>(),
            ControlPlaneProvider::Steward,
        ),
        (kinds::kamaji_control_plane(), ControlPlaneProvider::Kamaji),
    ];
    let mut hosts = hosts.into_iter();
    let (_, host) = hosts.find(|(of, _)| of.kind == kind)?;
    Some(host)
}

/// Who makes infrastructure of a kind.
fn maker_of(kind: &str) -> Option<ClusterApiProvider> {
    let makers = [
        (Kind::of::<ButlerCluster>(), ClusterApiProvider::Butler),
        (kinds::nutanix_cluster(), ClusterApiProvider::Capx),
        (kinds::kubevirt_cluster(), ClusterApiProvider::Capk),
    ];
    let mut makers = makers.into_iter();
    let (_, maker) = makers.find(|(of, _)| of.kind == kind)?;
    Some(maker)
}

/// What is said of a control plane that stays as it was made, although the platform says something else by now.
pub(super) fn stays(blueprint: &Blueprint, config: Option<&ButlerConfig>) -> Option<Finding> {
    let ControlPlane::Hosted(hosted) = &blueprint.control_plane else {
        return None;
    };
    let platform = config.map(|config| &config.spec);
    let host = platform.map_or_else(ControlPlaneProvider::default, |platform| {
        platform.control_plane_provider
    });
    let exposure = platform.and_then(|platform| platform.control_plane_exposure.clone());
    let exposure = exposure.unwrap_or_default();
    let mut words = Vec::new();
    if hosted.provider != host {
        words.push(format!(
            "{:?} runs it, as when it was made: spec.controlPlaneProvider of the ButlerConfig ({}) counts for new clusters",
            hosted.provider,
            json!(host).as_str().unwrap_or_default()
        ));
    }
    if hosted.exposed != exposure {
        words.push(format!(
            "it is reached by {:?}, as when it was made: spec.controlPlaneExposure of the ButlerConfig ({:?}) counts for new \
             clusters",
            hosted.exposed.mode, exposure.mode
        ));
    }
    let finding = || Finding::new(true, reasons::CONTROL_PLANE_READY, words.join("; "));
    (!words.is_empty()).then(finding)
}

/// What a cluster waits for whose provider has become another one since it was made. Nothing of it is changed meanwhile.
pub(super) fn left(provider: &ProviderConfig, related: &Related) -> Option<Waiting> {
    let origin = related.cluster.as_ref().map(|found| &found.facts.origin);
    let found = related.infrastructure.as_ref().map(|found| &found.kind);
    let kind = found.or_else(|| origin?.infrastructure.as_ref());
    let spec = &provider.spec;
    let was = origin.and_then(|origin| origin.provider);
    let was = was.filter(|was| *was != spec.provider);
    let maker = kind.and_then(|kind| maker_of(kind));
    let maker = maker.filter(|maker| *maker != spec.cluster_api_provider);
    let back = |field: &str, now: &str, was: &str| format!("spec.{field} from {now} to {was}");
    let steps = [
        was.map(|was| back("provider", spec.provider.as_str(), was.as_str())),
        maker.map(|was| {
            let now = spec.cluster_api_provider.as_str();
            back("clusterAPIProvider", now, was.as_str())
        }),
    ];
    let steps: Vec<_> = steps.into_iter().flatten().collect();
    if steps.is_empty() {
        return None;
    }
    let why = format!(
        "the ProviderConfig {} is not what it was when the cluster was made, and nothing of the cluster is changed",
        ObjectKey::of(provider)
    );
    let waiting = Waiting::new(types::READY, reasons::VALIDATION_FAILED, why).needs_somebody();
    Some(waiting.advise(format!(
        "set back {}; to use something else, make another ProviderConfig and new clusters on it",
        steps.join(" and ")
    )))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{
        cluster_api::ClusterFacts,
        tenant_cluster::{
            blueprint::testing::{
                drawn, on_harvester, on_nutanix, on_this_host, plain_shop, with_config,
            },
            build,
            related::Seen,
            scene::{begun, serving},
        },
    };

    /// What the Cluster made from a blueprint keeps.
    fn kept(blueprint: &Blueprint) -> Origin {
        let body = build::cluster(blueprint).body;
        Origin::of(&serde_json::from_value(body).unwrap())
    }

    #[test]
    fn a_cluster_keeps_how_it_was_made() {
        let hosted = |exposure: &Value, kind: &str, infrastructure: &str, provider| Origin {
            control_plane: Some(kind.to_owned()),
            infrastructure: Some(infrastructure.to_owned()),
            provider: Some(provider),
            exposure: serde_json::from_value(exposure.clone()).unwrap(),
        };
        let plain = json!({ "mode": "LoadBalancer" });
        let shop = plain_shop(&json!({}));
        assert_eq!(
            kept(&drawn(&shop, &on_this_host())),
            hosted(
                &plain,
                "StewardControlPlane",
                "ButlerCluster",
                Provider::Local
            )
        );
        let nutanix = with_config(on_nutanix(), &json!({ "controlPlaneProvider": "kamaji" }));
        assert_eq!(
            kept(&drawn(&shop, &nutanix)),
            hosted(
                &plain,
                "KamajiControlPlane",
                "NutanixCluster",
                Provider::Nutanix
            )
        );
        let ingress = json!({
            "mode": "Ingress", "hostname": "*.k8s.example.com", "ingressClassName": "public", "controllerType": "haproxy",
        });
        let platform = json!({ "controlPlaneExposure": ingress });
        let mut harvester = with_config(on_harvester(), &platform);
        harvester.exposure_address = Some("192.0.2.10".to_owned());
        assert_eq!(
            kept(&drawn(&shop, &harvester)),
            hosted(
                &ingress,
                "StewardControlPlane",
                "KubevirtCluster",
                Provider::Harvester
            )
        );
        let standalone = plain_shop(&json!({ "controlPlane": { "mode": "Standalone" } }));
        assert_eq!(kept(&drawn(&standalone, &on_this_host())).exposure, None);
    }

    #[test]
    fn what_an_older_release_did_not_write_is_not_settled() {
        let body = json!({
            "metadata": { "name": "shop", "annotations": {
                annotations::PROVIDER: "abacus", annotations::CONTROL_PLANE_EXPOSURE: "by mail",
            } },
        });
        let origin = Origin::of(&serde_json::from_value(body).unwrap());
        assert_eq!(origin, Origin::default());
        assert_eq!(settled(&Related::default()), Settled::default());
    }

    #[test]
    fn a_host_is_settled_by_what_exists_and_else_by_what_the_cluster_names() {
        let mut related = begun();
        let host = |related: &Related| settled(related).host;
        assert_eq!(host(&related), Some(ControlPlaneProvider::Steward));
        let facts = ClusterFacts {
            origin: Origin {
                control_plane: Some("KamajiControlPlane".to_owned()),
                ..Origin::default()
            },
            ..ClusterFacts::default()
        };
        related.cluster = Some(Seen {
            facts,
            ..Seen::default()
        });
        assert_eq!(host(&related), Some(ControlPlaneProvider::Steward));
        related.control_plane = None;
        assert_eq!(host(&related), Some(ControlPlaneProvider::Kamaji));
    }

    #[test]
    fn the_way_to_an_api_server_may_change_until_somebody_can_have_joined_by_it() {
        let exposure: ControlPlaneExposure =
            serde_json::from_value(json!({ "mode": "Ingress" })).unwrap();
        let with = |mut related: Related| {
            let cluster = related.cluster.as_mut().unwrap();
            cluster.facts.origin.exposure = Some(exposure.clone());
            settled(&related).exposure
        };
        assert_eq!(with(begun()), None);
        assert_eq!(with(serving()), Some(exposure.clone()));
    }
}

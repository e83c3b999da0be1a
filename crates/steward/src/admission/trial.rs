//! Whether the API server would take the pods that a control plane asks for. It is asked, and makes nothing.
//!
//! Whoever adds containers, volumes or mounts can be wrong in as many ways as pods have fields. What got through would keep every
//! later change of the pods from being made, that of a version for one.

use std::{collections::BTreeMap, net::IpAddr, net::Ipv4Addr, sync::Arc, time::Duration};

use butler_api::steward::{
    data_store::{DataStore, DataStoreDriver},
    tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{
    admission::{Denial, Review, Validate, ValidateWithReads, Verdict, Warning},
    cache::{Caches, Whole},
    object::ObjectKey,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, Error, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::Value;

use super::control_planes::ControlPlaneRules;
use crate::{
    build::{self, PodInputs, StoreConnection},
    names::Names,
    run::COMPONENT,
    settings::Settings,
    tenant_control_plane::{chosen_store, version_to_run},
};

/// Who waits for the answer is the API server itself, and it does not wait for long.
const PATIENCE: Duration = Duration::from_secs(3);
/// What follows the control plane's name in that of the Deployment that is tried. No Deployment of a control plane has a dot.
const SUFFIX: &str = ".trial";
/// What pods advertise is known later, and is right for the API server whatever it is.
const SOME_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The API server's words for lists with two entries of one key. It calls that its own failure, although it is the manifest's.
const TWO_OF_ONE_KEY: &str = "failed to create typed patch object";

/// The rules for control planes, and a trial of what they let through.
pub(super) struct TriedControlPlanes {
    rules: ControlPlaneRules,
    client: Client,
    caches: Arc<Caches>,
    settings: Settings,
}

impl TriedControlPlanes {
    pub(super) fn new(client: &Client, caches: &Arc<Caches>, settings: &Settings) -> Self {
        Self {
            rules: ControlPlaneRules::new(caches, settings),
            client: client.clone(),
            caches: Arc::clone(caches),
            settings: settings.clone(),
        }
    }

    /// Asks whether the Deployment could be applied. If nobody answers in time, the controller will tell.
    async fn ask(&self, control_plane: &TenantControlPlane) -> Result<Vec<Warning>, Denial> {
        let Some(body) = self.deployment(control_plane) else {
            return Ok(Vec::new());
        };
        let name = format!("{}{SUFFIX}", control_plane.name_any());
        let namespace = control_plane.namespace().unwrap_or_default();
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), &namespace);
        let parameters = PatchParams::apply(COMPONENT).force().dry_run();
        let patch = Patch::Apply(&body);
        let asked = deployments.patch(&name, &parameters, &patch);
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(_)) => Ok(Vec::new()),
            Ok(Err(Error::Api(status)))
                if matches!(status.code, 400 | 422) || status.message.contains(TWO_OF_ONE_KEY) =>
            {
                let rule = format!(
                    "the API server would refuse the pods that this makes: {}",
                    status.message
                );
                Err(Denial::new("spec.controlPlane.deployment", rule))
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, control_plane = name, "the pods could not be tried");
                Ok(vec![untried()])
            }
            Err(_) => Ok(vec![untried()]),
        }
    }

    /// The Deployment as it would be made, as far as that is known. Nothing for a version that cannot be hosted.
    fn deployment(&self, control_plane: &TenantControlPlane) -> Option<Value> {
        let (version, _) = version_to_run(control_plane).ok()?;
        let inputs = PodInputs {
            control_plane,
            names: &Names::of(control_plane),
            version: &version,
            advertised: SOME_ADDRESS,
            connection: &self.connection(control_plane),
            checksums: &BTreeMap::new(),
            settings: &self.settings,
        };
        let mut body = build::deployment(&inputs).body;
        body["metadata"]["name"] = format!("{}{SUFFIX}", control_plane.name_any()).into();
        Some(body)
    }

    /// A store of the kind that is asked for: that decides whether kine is among the containers.
    fn connection(&self, control_plane: &TenantControlPlane) -> StoreConnection {
        let stores = self.caches.store::<Whole<DataStore>>();
        let name = chosen_store(control_plane, &self.settings).unwrap_or_default();
        let store = stores.get(&ObjectKey::cluster(name.as_str()));
        let spec = store.as_ref().map(|store| &store.value.0.spec);
        let encrypted = spec.is_none_or(|spec| spec.tls_config.is_some());
        StoreConnection {
            name,
            driver: spec.map_or(DataStoreDriver::Etcd, |spec| spec.driver),
            endpoints: spec.map(|spec| spec.endpoints.clone()).unwrap_or_default(),
            schema: control_plane.name_any(),
            encrypted,
            client_certificate: encrypted,
            overrides: Vec::new(),
        }
    }
}

fn untried() -> Warning {
    Warning::new(
        "the API server could not be asked whether it takes the pods; whether it does, the conditions will tell",
    )
}

/// Whether the pods are others than before. How many there are changes nothing about them.
fn are_new(control_plane: &TenantControlPlane, old: Option<&TenantControlPlane>) -> bool {
    let wished = &control_plane.spec.control_plane.deployment;
    old.is_none_or(|old| {
        let mut before = old.spec.control_plane.deployment.clone();
        before.replicas = wished.replicas;
        before != *wished
    })
}

impl ValidateWithReads<TenantControlPlane> for TriedControlPlanes {
    async fn validate(&self, review: &Review<'_, TenantControlPlane>) -> Verdict {
        let mut warnings = self.rules.validate(review)?;
        let control_plane = review.object;
        let is_going = control_plane.metadata.deletion_timestamp.is_some();
        if !is_going && are_new(control_plane, review.old) {
            warnings.extend(
                self.ask(control_plane)
                    .await
                    .map_err(|denial| vec![denial])?,
            );
        }
        Ok(warnings)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::control_plane_with;

    #[test]
    fn pods_are_tried_when_they_are_new_and_not_when_there_are_more_of_them() {
        let with = |deployment: Value| {
            control_plane_with(json!({ "controlPlane": {
                "service": { "serviceType": "LoadBalancer" }, "deployment": deployment,
            } }))
        };
        let one = with(json!({ "replicas": 1 }));
        assert!(are_new(&one, None));
        assert!(!are_new(&with(json!({ "replicas": 3 })), Some(&one)));
        let more = json!({ "additionalVolumes": [{ "name": "logs", "emptyDir": {} }] });
        assert!(are_new(&with(more), Some(&one)));
    }
}

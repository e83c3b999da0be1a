//! The freeze: while the data moves to another store, a write would be lost, so that every write is refused.
//!
//! That holds for everybody, in all namespaces, controllers and kubelets included: they try again. Left out are renewals of
//! leases, of which none matters a moment later, and the API server itself, which must be able to start on the new store while
//! the freeze still holds.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use serde_json::json;

use super::Workbench;
use super::policy::{self, Refusal, rule};
use crate::desired::DesiredObject;
use crate::object::KUBE_PUBLIC;

/// Name of the policy.
pub const FREEZE_POLICY: &str = "steward-freeze";
/// Name of the `ConfigMap` that is never stored.
const PROBE: &str = "steward-freeze-probe";

pub(crate) fn objects(workbench: Workbench<'_>) -> Vec<DesiredObject> {
    policy::objects(
        workbench,
        &Refusal {
            name: FREEZE_POLICY,
            rules: vec![rule(&["CREATE", "UPDATE", "DELETE"], &["*/*"])],
            spared_namespaces: &[],
            conditions: &[(
                "not-the-api-server",
                "request.userInfo.username != 'system:apiserver'".to_owned(),
            )],
            message: "the data of this cluster is being moved to another store; writes are accepted again when it has arrived",
        },
    )
}

/// Whether the API server behind the client refuses writes by now: it takes a policy up a moment after it is written.
///
/// Asks for something that would change nothing. Where several API servers serve the tenant, ask each of them.
pub async fn writes_are_frozen(client: &Client) -> Result<bool, Error> {
    let probe: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": PROBE } }))
        .map_err(Error::SerdeError)?;
    let without_effect = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), KUBE_PUBLIC);
    match api.create(&without_effect, &probe).await {
        Ok(_) => Ok(false),
        Err(Error::Api(status)) if status.message.contains(FREEZE_POLICY) => Ok(true),
        Err(error) => Err(error),
    }
}

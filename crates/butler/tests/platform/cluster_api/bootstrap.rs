//! The kubeadm bootstrap provider: what a machine boots with, once there is a control plane to join, or one to make.

use butler_runtime::object::{Kind, ObjectKey};
use butler_testkit::simulator::{
    ObjectStore,
    players::{is_deleting, text},
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use serde_json::{Value, json};

use super::{
    bootstrap_configs, cluster_of, create, first, is_of_control_plane, is_true, list, ownership,
    tell,
};

pub(super) fn keep(store: &mut ObjectStore) -> Option<String> {
    first(store, &bootstrap_configs(), |store, config| {
        if is_deleting(config) {
            return None;
        }
        let mut owners = list(config, "/metadata/ownerReferences");
        owners.find(|owner| owner["kind"] == "Machine")?;
        let cluster = cluster_of(store, config)?;
        let is = |field: &str| is_true(&cluster, &format!("/status/initialization/{field}"));
        // Of a control plane there is one alone until it is initialized: that one makes it.
        let may_join = is("controlPlaneInitialized") || is_of_control_plane(config);
        let is_time = is("infrastructureProvisioned") && may_join;
        is_time.then(|| prepare(store, config)).flatten()
    })
}

fn prepare(store: &mut ObjectStore, config: &Value) -> Option<String> {
    let name = text(config, "/metadata/name");
    let key = ObjectKey::in_body(config);
    let kind = Kind::of::<Secret>();
    if store.get(&kind, &key).is_none() {
        let data = ByteString(b"#cloud-config\n".to_vec());
        let body = json!({
            "metadata": {
                "name": name, "namespace": config["metadata"]["namespace"],
                "labels": {
                    "cluster.x-k8s.io/cluster-name":
                        text(config, "/metadata/labels/cluster.x-k8s.io~1cluster-name"),
                },
                "ownerReferences": [ownership(&bootstrap_configs(), config, true)],
            },
            "type": "cluster.x-k8s.io/secret",
            "data": { "value": data },
        });
        return create(store, &kind, body);
    }
    let status = json!({ "initialization": { "dataSecretCreated": true }, "dataSecretName": name });
    tell(store, &bootstrap_configs(), config, status)
}

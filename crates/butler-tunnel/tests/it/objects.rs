//! A real API server takes the agent's objects as they are.

use std::fmt::Debug;

use butler_testkit::ApiServer;
use butler_tunnel::manifests::{AgentMode, AgentSpec, AgentWorkload, agent_objects, names};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};

async fn accepts<K>(server: &ApiServer, object: &K)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let namespace = object.namespace().unwrap();
    let api = Api::<K>::namespaced(server.client(), &namespace);
    let mut parameters = PatchParams::apply("butler-tunnel-test").force();
    parameters.dry_run = true;
    parameters.field_validation = Some(kube::api::ValidationDirective::Strict);
    let applied = api
        .patch(&object.name_any(), &parameters, &Patch::Apply(object))
        .await;
    assert!(applied.is_ok(), "{applied:?}");
}

#[tokio::test]
async fn the_api_server_accepts_every_form_of_the_agent() {
    let server = ApiServer::shared().await;
    for mode in [AgentMode::DaemonSet, AgentMode::Deployment { replicas: 2 }] {
        for host_network in [false, true] {
            let objects = agent_objects(&AgentSpec {
                image: "ghcr.io/butlerdotdev/butler:v0.1.0".to_owned(),
                image_pull_policy: Some("IfNotPresent".to_owned()),
                server: "192.0.2.1:8132".parse().unwrap(),
                server_name: None,
                server_user: names::SERVER_USER.to_owned(),
                mode,
                host_network,
                host_aliases: Vec::new(),
                tolerations: Vec::new(),
                resources: None,
                extra_arguments: Vec::new(),
            });
            accepts(server, &objects.service_account).await;
            match objects.workload {
                AgentWorkload::DaemonSet(daemon_set) => accepts(server, &*daemon_set).await,
                AgentWorkload::Deployment(deployment) => accepts(server, &*deployment).await,
            }
        }
    }
}

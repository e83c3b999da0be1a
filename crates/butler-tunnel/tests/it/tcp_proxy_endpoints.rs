//! The Service `kubernetes` leads to the proxies, on a real API server and with no right but those of the proxy.

use std::{fmt::Debug, time::Duration};

use butler_runtime::shutdown::Shutdown;
use butler_testkit::{ApiServer, Identity, eventually};
use butler_tunnel::{
    destination::Destination,
    manifests::{ProxyTarget, TcpProxySpec, names, tcp_proxy_objects},
    tcp_proxy::{self, Arguments},
};
use k8s_openapi::{
    api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::kit::PATIENCE;

async fn apply<K>(api: &Api<K>, object: &K)
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let mut parameters = PatchParams::apply("butler-tunnel-test").force();
    parameters.field_validation = Some(kube::api::ValidationDirective::Strict);
    let applied = api
        .patch(&object.name_any(), &parameters, &Patch::Apply(object))
        .await;
    assert!(applied.is_ok(), "{applied:?}");
}

/// What the endpoint controller would say of the proxies.
fn slice(namespace: &str, address: &str) -> EndpointSlice {
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some("steward-tcp-proxy-x".to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(
                [("kubernetes.io/service-name", names::TCP_PROXY)]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".to_owned(),
        endpoints: vec![Endpoint {
            addresses: vec![address.to_owned()],
            conditions: Some(EndpointConditions {
                ready: Some(true),
                ..EndpointConditions::default()
            }),
            ..Endpoint::default()
        }],
        ports: None,
    }
}

/// Waits until the Service `kubernetes` leads there, and nowhere else.
async fn leads_to(published: &Api<EndpointSlice>, address: &str) {
    eventually(published, "kubernetes", "its address", PATIENCE, |slice| {
        slice.is_some_and(|slice| {
            let mut addresses = slice.endpoints.iter().flat_map(|one| &one.addresses);
            slice.endpoints.len() == 1 && addresses.all(|found| found == address)
        })
    })
    .await;
}

#[tokio::test]
async fn the_service_kubernetes_follows_the_proxies_by_their_own_rights() {
    let server = ApiServer::shared().await;
    let target: Destination = server.url().trim_start_matches("https://").parse().unwrap();
    let objects = tcp_proxy_objects(&TcpProxySpec {
        image: "ghcr.io/butlerdotdev/butler:v0.1.0".to_owned(),
        target: ProxyTarget::Direct(target.clone()),
        host_aliases: Vec::new(),
        resources: None,
    });
    let here = names::TCP_PROXY_NAMESPACE;
    let client = server.client();
    apply(
        &Api::namespaced(client.clone(), here),
        &objects.service_account,
    )
    .await;
    apply(&Api::all(client.clone()), &objects.cluster_role).await;
    apply(&Api::all(client.clone()), &objects.cluster_role_binding).await;
    apply(&Api::namespaced(client.clone(), here), &objects.service).await;
    apply(&Api::namespaced(client.clone(), here), &objects.deployment).await;

    let account = format!("system:serviceaccount:{here}:{}", names::TCP_PROXY);
    let arguments = Arguments {
        target,
        through_tunnel: false,
        ca_file: None,
        listen_address: "127.0.0.1:0".parse().unwrap(),
        service: Some(format!("{here}/{}", names::TCP_PROXY)),
        kubeconfig: Some(server.kubeconfig_for(&Identity::user(account))),
        dial_timeout: Duration::from_secs(10),
        max_connections: 16,
    };
    let shutdown = Shutdown::new();
    let proxy = tcp_proxy::run(arguments, "0.0.0", shutdown.clone());
    let proxy = butler_runtime::task::spawn("tcp-proxy", proxy);

    let slices = Api::<EndpointSlice>::namespaced(client.clone(), here);
    let published = Api::<EndpointSlice>::namespaced(client, "default");
    for address in ["192.0.2.7", "192.0.2.8"] {
        apply(&slices, &slice(here, address)).await;
        leads_to(&published, address).await;
    }
    // Somebody takes it away: it is made again.
    let parameters = DeleteParams::default();
    published.delete("kubernetes", &parameters).await.unwrap();
    leads_to(&published, "192.0.2.8").await;
    shutdown.begin();
    proxy.await.unwrap().unwrap();
}

//! The account of the chart may do all that the controllers do: real ones run as it, under RBAC, and none of their requests is
//! refused.

use std::{fmt::Debug, path::PathBuf, time::Duration};

use butler_api::{
    butler::{
        butler_config::ButlerConfig,
        ip_allocation::{AllocationPhase, IPAllocation},
        network_pool::NetworkPool,
        provider_config::ProviderConfig,
    },
    keys::names::{BUTLER_CONFIG, DEFAULT_TENANT_NAMESPACE, SYSTEM_NAMESPACE},
};
use butler_assets::{Asset, Component, Resolver, Settings};
use butler_helm::{ChartSource, Helm, Release, ReleaseName, Upgrade, Values};
use butler_testkit::{ApiServer, Options, eventually, eventually_gone};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Namespace, Secret, ServiceAccount},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    fleet::{PATIENCE, USER_AGENT},
    replica::Replica,
};

const ACCOUNT: &str = "butler-controller";

/// Installs the chart with webhooks and without waiting for pods, which do not run here.
async fn install(server: &ApiServer, home: PathBuf) {
    let resolver = Resolver::new(Settings::from_env().unwrap());
    let program = resolver.resolve(&Asset::default_of(Component::Helm)).await;
    let helm = Helm::new(program.unwrap(), home, server.kubeconfig());
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/butler");
    let release = Release {
        name: ReleaseName::new(SYSTEM_NAMESPACE.parse().unwrap(), "butler".parse().unwrap()),
        chart: ChartSource::Path(PathBuf::from(chart)),
        values: Values::none(),
    };
    let upgrade = Upgrade::without_waiting(Duration::from_mins(1));
    helm.upgrade(&release, &upgrade).await.unwrap();
}

/// A token of the account.
async fn token_of_account(server: &ApiServer) -> String {
    let accounts = Api::<ServiceAccount>::namespaced(server.client(), SYSTEM_NAMESPACE);
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let token = accounts
        .create_token_request(ACCOUNT, &PostParams::default(), &request)
        .await
        .unwrap();
    token.status.unwrap().token
}

/// A kubeconfig with that token.
fn kubeconfig_with(server: &ApiServer, token: &str) -> PathBuf {
    let authority = server.directory().join("account-authority.pem");
    std::fs::write(&authority, server.authority_pem()).unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "test",
            "cluster": { "server": server.url(), "certificate-authority": authority },
        }],
        "users": [{ "name": ACCOUNT, "user": { "token": token } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": ACCOUNT } }],
        "current-context": "test",
    });
    let path = server.directory().join("account.kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

async fn create<K>(api: &Api<K>, name: &str, spec: Value)
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let mut body = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "name": name },
    });
    body["spec"] = spec;
    let object = serde_json::from_value(body).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

fn is_allocated(allocation: Option<&IPAllocation>) -> bool {
    let status = allocation.and_then(|allocation| allocation.status.as_ref());
    status.is_some_and(|status| status.phase == Some(AllocationPhase::Allocated))
}

#[tokio::test]
async fn the_account_of_the_chart_may_do_all_that_the_controllers_do() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    install(&server, home.path().to_owned()).await;
    let token = token_of_account(&server).await;
    let kubeconfig = kubeconfig_with(&server, &token);
    let flags = [
        "--ip-orphan-grace-period=1s".to_owned(),
        "--metrics-require-authorization".to_owned(),
    ];
    let replica = Replica::start_as(&server, &kubeconfig, SYSTEM_NAMESPACE, &flags);
    let client = server.client_as(USER_AGENT);

    // The webhooks are filled in, and come back if somebody deletes them.
    let hooks = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let filled = |hooks: Option<&ValidatingWebhookConfiguration>| {
        hooks.is_some_and(|hooks| hooks.webhooks.as_ref().is_some_and(|hooks| hooks.len() > 2))
    };
    let registered = "the webhooks are registered";
    let first = eventually(&hooks, ACCOUNT, registered, PATIENCE, filled).await;
    assert!(first.metadata.labels.is_some(), "the release owns them");
    hooks
        .delete(ACCOUNT, &DeleteParams::default())
        .await
        .unwrap();
    eventually(&hooks, ACCOUNT, registered, PATIENCE, filled).await;
    // An upgrade takes them back into the release as they are.
    install(&server, home.path().to_owned()).await;
    let upgraded = hooks.get(ACCOUNT).await.unwrap();
    assert!(filled(Some(&upgraded)) && upgraded.metadata.labels.is_some());

    // A platform whose clusters have a namespace.
    let configs = Api::<ButlerConfig>::all(client.clone());
    create(
        &configs,
        BUTLER_CONFIG,
        json!({ "multiTenancy": { "mode": "Disabled" } }),
    )
    .await;
    let namespaces = Api::<Namespace>::all(client.clone());
    let tenants = DEFAULT_TENANT_NAMESPACE;
    eventually(&namespaces, tenants, "is made", PATIENCE, |found| {
        found.is_some()
    })
    .await;

    // A provider whose credentials are read, and which is told when they are wrong.
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "credentials" },
        "stringData": { "kubeconfig": "nonsense" },
    }))
    .unwrap();
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    let providers = Api::<ProviderConfig>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let provider = json!({
        "provider": "harvester",
        "credentialsRef": { "name": "credentials", "key": "kubeconfig" },
        "harvester": { "networkName": "default/lan" },
    });
    create(&providers, "lab", provider).await;
    eventually(
        &providers,
        "lab",
        "its credentials are judged",
        PATIENCE,
        |provider| {
            let status = provider.and_then(|provider| provider.status.as_ref());
            status.is_some_and(|status| status.validated == Some(false))
        },
    )
    .await;
    providers
        .delete("lab", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&providers, "lab", PATIENCE).await;

    // Addresses from the asking to the giving back, with an owner that was never there.
    let pools = Api::<NetworkPool>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    create(&pools, "rack", json!({ "cidr": "10.40.0.0/24" })).await;
    let allocations = Api::<IPAllocation>::namespaced(client, SYSTEM_NAMESPACE);
    let wish = |owner: Value| json!({ "poolRef": { "name": "rack" }, "type": "nodes", "count": 2, "ownerRef": owner });
    let strange = json!({ "apiVersion": "example.com/v1", "kind": "Thing", "name": "thing" });
    create(&allocations, "kept", wish(strange)).await;
    eventually(
        &allocations,
        "kept",
        "has addresses",
        PATIENCE,
        is_allocated,
    )
    .await;
    for (api_version, kind) in [
        ("butler.butlerlabs.dev/v1alpha1", "MachineRequest"),
        ("butler.butlerlabs.dev/v1alpha1", "LoadBalancerRequest"),
        ("v1", "Service"),
        ("v1", "Node"),
    ] {
        let name = format!("orphan-{}", kind.to_lowercase());
        let owner = json!({ "apiVersion": api_version, "kind": kind, "name": "nobody" });
        create(&allocations, &name, wish(owner)).await;
        eventually_gone(&allocations, &name, PATIENCE).await;
    }
    allocations
        .delete("kept", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&allocations, "kept", PATIENCE).await;
    pools
        .delete("rack", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&pools, "rack", PATIENCE).await;

    // It asks about whoever reads its numbers, and is no reader itself.
    let answer = replica.numbers_for(&token).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 403"), "{answer}");

    let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{ACCOUNT}");
    let requests = server.audit().all().filter(|request| request.user == user);
    let did = |verb: &str, resource: &str| {
        let done = requests.iter().filter(|request| request.is_done());
        let mut done = done.filter(|request| request.resource == resource);
        done.any(|request| request.verb == verb)
    };
    for (verb, resource) in [
        ("update", "leases"),
        ("create", "secrets"),
        ("create", "networkpoolledgers"),
        ("delete", "networkpoolledgers"),
        ("delete", "ipallocations"),
        ("create", "events"),
        ("patch", "networkpools/status"),
        ("patch", "namespaces"),
        ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
    ] {
        assert!(
            did(verb, resource),
            "nobody did {verb} {resource}\n{requests}"
        );
    }
    let refused = requests.filter(|request| matches!(request.status, Some(401 | 403)));
    let refused: Vec<_> = refused.iter().collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

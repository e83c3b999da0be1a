//! What the accounts of the chart may do, as the API server itself decides it.

use std::time::Duration;

use butler_helm::Upgrade;
use butler_testkit::{ApiServer, Options};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};
use serde_json::json;

use crate::support::{SYSTEM, Workshop, ours};

const BUTLER: &str = "butler.butlerlabs.dev";
const HOSTED: &str = "steward.butlerlabs.dev";
const CONTROL_PLANES: &str = "controlplane.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// Whether an account may do something in any namespace: verb, group, resource with subresource.
async fn may(client: &Client, account: &str, verb: &str, group: &str, resource: &str) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{SYSTEM}:{account}")),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: Some(subresource.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let answer = reviews
        .create(&PostParams::default(), &review)
        .await
        .unwrap();
    answer.status.unwrap().allowed
}

/// What every provider needs.
const PROVIDER: [(&str, &str, &str); 15] = [
    ("watch", BUTLER, "machinerequests"),
    ("patch", BUTLER, "machinerequests"),
    ("patch", BUTLER, "machinerequests/status"),
    ("update", BUTLER, "machinerequests/finalizers"),
    ("list", BUTLER, "loadbalancerrequests"),
    ("patch", BUTLER, "loadbalancerrequests/status"),
    ("get", BUTLER, "providerconfigs"),
    ("get", "", "secrets"),
    ("watch", "", "secrets"),
    ("create", BUTLER, "ipallocations"),
    ("watch", BUTLER, "ipallocations"),
    ("delete", BUTLER, "ipallocations"),
    ("create", "events.k8s.io", "events"),
    ("get", "events.k8s.io", "events"),
    ("patch", "events.k8s.io", "events"),
];

/// What the provider on the host needs besides.
const LOCAL: [(&str, &str, &str); 9] = [
    ("watch", "", "nodes"),
    ("delete", "", "nodes"),
    ("list", "", "services"),
    ("patch", "", "services"),
    ("patch", "", "services/status"),
    ("list", "discovery.k8s.io", "endpointslices"),
    ("watch", "discovery.k8s.io", "endpointslices"),
    ("watch", "infrastructure.cluster.x-k8s.io", "butlerclusters"),
    ("patch", "infrastructure.cluster.x-k8s.io", "butlerclusters"),
];

/// What no provider may.
const REFUSED: [(&str, &str, &str); 10] = [
    ("patch", "", "secrets"),
    ("create", "", "secrets"),
    ("delete", "", "services"),
    ("patch", "", "nodes"),
    ("create", "", "pods"),
    ("delete", BUTLER, "machinerequests"),
    ("patch", BUTLER, "providerconfigs"),
    ("patch", BUTLER, "ipallocations/status"),
    ("create", BUTLER, "networkpoolledgers"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
];

/// What the controller may not: it handles everything, and so is worth stealing.
const REFUSED_CONTROLLER: [(&str, &str, &str); 9] = [
    ("create", "", "secrets"),
    ("update", "", "secrets"),
    ("create", "", "pods"),
    ("delete", "", "nodes"),
    ("patch", "", "nodes"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
    (
        "create",
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
    ),
    (
        "patch",
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
    ),
    ("patch", "cluster.x-k8s.io", "machines"),
];

/// What Steward needs.
const STEWARD: [(&str, &str, &str); 31] = [
    ("watch", CONTROL_PLANES, "stewardcontrolplanes"),
    ("patch", CONTROL_PLANES, "stewardcontrolplanes"),
    ("patch", CONTROL_PLANES, "stewardcontrolplanes/status"),
    ("watch", "cluster.x-k8s.io", "clusters"),
    ("patch", INFRASTRUCTURE, "butlerclusters"),
    ("patch", INFRASTRUCTURE, "nutanixclusters/status"),
    ("watch", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("create", HOSTED, "tenantcontrolplanes"),
    ("delete", HOSTED, "tenantcontrolplanes"),
    ("watch", HOSTED, "tenantcontrolplanes"),
    ("patch", HOSTED, "tenantcontrolplanes"),
    ("patch", HOSTED, "tenantcontrolplanes/status"),
    ("update", HOSTED, "tenantcontrolplanes/finalizers"),
    ("watch", HOSTED, "datastores"),
    ("patch", HOSTED, "datastores/status"),
    ("watch", HOSTED, "kubeconfiggenerators"),
    ("patch", HOSTED, "kubeconfiggenerators/status"),
    ("get", "", "secrets"),
    ("create", "", "secrets"),
    ("patch", "", "secrets"),
    ("delete", "", "secrets"),
    ("create", "", "services"),
    ("patch", "", "configmaps"),
    ("create", "apps", "deployments"),
    ("delete", "apps", "deployments"),
    ("patch", "policy", "poddisruptionbudgets"),
    ("patch", "networking.k8s.io", "ingresses"),
    ("patch", "traefik.io", "ingressroutetcps"),
    ("patch", "gateway.networking.k8s.io", "tlsroutes"),
    ("watch", "", "namespaces"),
    ("create", "events.k8s.io", "events"),
];

/// What Steward may not.
const REFUSED_STEWARD: [(&str, &str, &str); 9] = [
    ("create", "", "pods"),
    ("create", "", "namespaces"),
    ("patch", "", "nodes"),
    ("delete", CONTROL_PLANES, "stewardcontrolplanes"),
    ("patch", INFRASTRUCTURE, "metal3clusters"),
    ("patch", BUTLER, "tenantclusters"),
    ("patch", "cluster.x-k8s.io", "machines"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
    (
        "patch",
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
    ),
];

/// What whoever serves metrics in the cluster asks about their readers. The provider on the host serves none.
const ASKS_ABOUT_READERS: [(&str, &str, &str); 2] = [
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "subjectaccessreviews"),
];

#[tokio::test]
async fn accounts_may_do_their_work_and_no_more() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let workshop = Workshop::on(&server).await;
    let values = json!({ "local": { "enabled": true }, "providers": { "harvester": {} } });
    let upgrade = Upgrade::without_waiting(Duration::from_mins(1));
    workshop
        .helm
        .upgrade(&ours("butler", values), &upgrade)
        .await
        .unwrap();
    let client = server.client();
    let mut wrong = Vec::new();
    let local = "butler-provider-local";
    let harvester = "butler-provider-harvester";
    let accounts: [(&str, bool, &[_]); 13] = [
        (local, true, &PROVIDER),
        (local, true, &LOCAL),
        (local, false, &REFUSED),
        (harvester, true, &PROVIDER),
        (harvester, false, &LOCAL),
        (harvester, false, &REFUSED),
        ("butler-controller", false, &REFUSED_CONTROLLER),
        ("steward", true, &STEWARD),
        ("steward", false, &REFUSED_STEWARD),
        ("butler-controller", true, &ASKS_ABOUT_READERS),
        ("steward", true, &ASKS_ABOUT_READERS),
        (harvester, true, &ASKS_ABOUT_READERS),
        (local, false, &ASKS_ABOUT_READERS),
    ];
    for (account, expected, rights) in accounts {
        for (verb, group, resource) in rights {
            let allowed = may(&client, account, verb, group, resource).await;
            if allowed != expected {
                wrong.push(format!("{account} {verb} {resource}.{group}: {allowed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn whoever_writes_user_data_may_make_secrets_and_change_none() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let workshop = Workshop::on(&server).await;
    let values = json!({ "controller": { "userData": { "enabled": true } } });
    let upgrade = Upgrade::without_waiting(Duration::from_mins(1));
    workshop
        .helm
        .upgrade(&ours("butler", values), &upgrade)
        .await
        .unwrap();
    let client = server.client();
    let mut allowed = Vec::new();
    for verb in ["get", "create", "update", "patch", "delete"] {
        if may(&client, "butler-controller", verb, "", "secrets").await {
            allowed.push(verb);
        }
    }
    assert_eq!(allowed, ["get", "create"]);
}

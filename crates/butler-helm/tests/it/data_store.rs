//! What the chart `steward-etcd` makes of sets of values, and whether an API server takes it.

use std::collections::BTreeMap;

use butler_testkit::{ApiServer, Options};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, api::PostParams};
use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};

use crate::support::{
    SYSTEM, Workshop, accept, difference, ours, rendered, restricted_namespace, shown,
};

const CHART: &str = "steward-etcd";
/// One that does not change with our releases: a Job is called by what it runs.
const TAG: &str = "v1";

/// The ways in which people install the store.
fn value_sets() -> [(&'static str, Value); 3] {
    [
        (
            "store_default",
            json!({ "butler": { "image": { "tag": TAG } } }),
        ),
        (
            "store_local",
            json!({
                "butler": { "image": { "tag": TAG } },
                "replicas": 1,
                "antiAffinity": "none",
                "storage": { "type": "hostPath" },
                "nodeSelector": { "kubernetes.io/hostname": "butler-local-cp-0" },
                "podDisruptionBudget": { "enabled": false },
                "dataStore": { "enabled": false },
            }),
        ),
        (
            "store_chosen",
            json!({
                "image": { "digest": format!("sha256:{}", "0".repeat(64)) },
                "butler": { "image": { "tag": TAG }, "resources": {} },
                "imagePullSecrets": [{ "name": "registry" }],
                "replicas": 5,
                "antiAffinity": "preferred",
                "storage": { "storageClassName": "fast", "size": "32Gi" },
                "etcd": { "quotaBackendBytes": 4_294_967_296_u64, "extraArgs": ["--max-request-bytes=3145728"] },
                "dataStore": { "name": "gold" },
                "certificates": { "extraDnsNames": ["etcd.example.com"], "renewal": { "enabled": false } },
                "networkPolicy": { "clientsFrom": [{ "namespaceSelector": { "matchLabels": { "hosts": "tenants" } } }] },
                "tolerations": [{ "operator": "Exists" }],
                "podAnnotations": { "example.com/owner": "platform" },
            }),
        ),
    ]
}

/// The pods that an object makes.
fn pod(object: &Value) -> Option<&Value> {
    let places = ["/spec/template", "/spec/jobTemplate/spec/template"];
    places.iter().find_map(|place| object.pointer(place))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"]
        .into_iter()
        .flat_map(move |field| pod["spec"][field].as_array().into_iter().flatten())
}

#[tokio::test]
async fn each_set_of_values_renders_what_it_is_known_for() {
    let workshop = Workshop::offline().await;
    let sets = value_sets();
    let [(name, default), others @ ..] = &sets;
    let usual = rendered(&workshop, CHART, default.clone()).await;
    insta::assert_snapshot!(*name, shown(&usual));
    for (name, values) in others {
        let objects = rendered(&workshop, CHART, values.clone()).await;
        insta::assert_snapshot!(*name, difference(&usual, objects));
    }
}

#[tokio::test]
async fn several_members_never_share_a_directory_of_a_host() {
    let workshop = Workshop::offline().await;
    let values = json!({ "storage": { "type": "hostPath" } });
    let refused = workshop.helm.template(&ours(CHART, values)).await;
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("set replicas to 1"), "{words}");
}

#[tokio::test]
async fn another_image_is_another_job() {
    let workshop = Workshop::offline().await;
    let mut names = Vec::new();
    for tag in ["v1", "v2", "v1"] {
        let values = json!({ "butler": { "image": { "tag": tag } } });
        let objects = rendered(&workshop, CHART, values).await;
        let mut jobs = objects.into_keys();
        names.push(jobs.find(|title| title.contains("-administrator-")));
    }
    assert!(names[0].is_some() && names[0] == names[2], "{names:?}");
    assert_ne!(names[0], names[1]);
}

#[tokio::test]
async fn a_number_of_members_that_helps_nobody_is_refused() {
    let workshop = Workshop::offline().await;
    let refused = workshop
        .helm
        .template(&ours(CHART, json!({ "replicas": 2 })))
        .await;
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("replicas"), "{words}");
}

#[tokio::test]
async fn the_accounts_reach_the_secrets_of_the_store_and_nothing_else() {
    let workshop = Workshop::offline().await;
    let objects = rendered(&workshop, CHART, json!({})).await;
    let roles: Vec<_> = objects
        .values()
        .filter(|object| object["rules"].is_array())
        .collect();
    assert_eq!(roles.len(), 2);
    for role in roles {
        assert_eq!(role["kind"], "Role");
        let names = ["ca", "peer-ca", "server", "peer", "root-client"]
            .map(|part| format!("{CHART}-{part}"));
        let expected = json!([
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
            { "apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": ["get", "update"] },
        ]);
        assert_eq!(role["rules"], expected);
    }
}

#[tokio::test]
async fn members_do_not_trust_each_other_by_what_tenants_can_show() {
    let workshop = Workshop::offline().await;
    let objects = rendered(&workshop, CHART, json!({})).await;
    let members = &objects["StatefulSet steward-etcd"];
    let arguments = &pod(members).unwrap()["spec"]["containers"][0]["args"];
    let argument = |flag: &str| {
        let mut all = arguments
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str);
        all.find_map(|argument| argument.strip_prefix(flag))
            .unwrap()
    };
    assert_eq!(argument("--trusted-ca-file="), "/etc/etcd/server/ca.crt");
    assert_eq!(argument("--peer-trusted-ca-file="), "/etc/etcd/peer/ca.crt");
    for must in ["--client-cert-auth=", "--peer-client-cert-auth="] {
        assert_eq!(argument(must), "true");
    }
}

#[tokio::test]
async fn every_pod_is_confined() {
    let workshop = Workshop::offline().await;
    for (name, values) in value_sets() {
        let objects = rendered(&workshop, CHART, values).await;
        for (title, object) in objects {
            for container in pod(&object).into_iter().flat_map(containers) {
                let is = |pointer: &str, expected: Value| {
                    let found = container.pointer(pointer);
                    assert_eq!(found, Some(&expected), "{name}: {title}: {pointer}");
                };
                is("/securityContext/allowPrivilegeEscalation", false.into());
                is("/securityContext/readOnlyRootFilesystem", true.into());
                is("/securityContext/capabilities/drop/0", "ALL".into());
            }
        }
    }
}

#[tokio::test]
async fn every_object_is_accepted_as_it_is_written_and_pods_where_only_restricted_ones_may_run() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client();
    restricted_namespace(&client).await;
    let account: ServiceAccount =
        serde_json::from_value(json!({ "metadata": { "name": "default" } })).unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), SYSTEM);
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let workshop = Workshop::on(&server).await;
    for (name, values) in value_sets() {
        let objects = rendered(&workshop, CHART, values).await;
        let on_the_host = name == "store_local";
        for object in objects.values().cloned() {
            accept(&client, object).await;
        }
        if !on_the_host {
            for pod in pods(&objects) {
                accept(&client, pod).await;
            }
        }
    }
}

/// The pods that controllers would make of the objects, without what only those can know.
fn pods(objects: &BTreeMap<String, Value>) -> Vec<Value> {
    let templates = objects.values().filter_map(pod);
    let pods = templates.enumerate().map(|(number, template)| {
        let mut pod = template.clone();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = format!("pod-{number}").into();
        pod["spec"]["serviceAccountName"] = "default".into();
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].to_string();
        if mounts.contains("\"data\"") {
            let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
            volumes.push(json!({ "name": "data", "emptyDir": {} }));
        }
        pod
    });
    pods.collect()
}

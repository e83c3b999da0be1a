use butler_testkit::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::config_map;

/// How many objects the exact test writes.
const OBJECTS: usize = 25;

#[tokio::test]
async fn audit_counts_exactly_what_a_user_agent_asked() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("audit").await;
    let mine = namespace.api::<ConfigMap>(server.client_as("audited-writer/1.0"));
    let others = namespace.api::<ConfigMap>(server.client_as("bystander"));

    mine.create(&PostParams::default(), &config_map("before", &[]))
        .await
        .unwrap();
    let mark = server.audit().mark();
    for number in 0..OBJECTS {
        let map = config_map(&format!("map-{number}"), &[]);
        mine.create(&PostParams::default(), &map).await.unwrap();
        // Read at once, with no time for a buffer to empty.
        let so_far = server
            .audit()
            .since(mark)
            .by_user_agent("audited-writer")
            .count();
        assert_eq!(so_far, number + 1);
    }
    let data = Patch::Merge(json!({ "data": { "colour": "green" } }));
    mine.patch("map-0", &PatchParams::default(), &data)
        .await
        .unwrap();
    mine.delete("map-1", &DeleteParams::default())
        .await
        .unwrap();
    mine.list(&ListParams::default()).await.unwrap();
    others.get("map-0").await.unwrap();

    let requests = server.audit().since(mark).by_user_agent("audited-writer");
    assert_eq!(requests.count(), OBJECTS + 3, "{requests}");
    assert_eq!(
        requests.to_string(),
        "COUNT  USER AGENT          VERB        RESOURCE\n\
         \x20  25  audited-writer/1.0  create      configmaps\n\
         \x20   1  audited-writer/1.0  delete      configmaps\n\
         \x20   1  audited-writer/1.0  list        configmaps\n\
         \x20   1  audited-writer/1.0  patch       configmaps"
    );
    assert_eq!(requests.clone().writes().count(), OBJECTS + 2);
    assert_eq!(requests.clone().with_verbs(&["patch", "delete"]).count(), 2);
    assert_eq!(
        requests.clone().in_namespace(namespace.name()).count(),
        OBJECTS + 3
    );
    assert_eq!(
        requests.clone().for_resource("configmaps").count(),
        OBJECTS + 3
    );
    assert!(requests.except_resource("configmaps").is_empty());
}

#[tokio::test]
async fn audit_names_the_user_and_the_object() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("audit-names").await;
    let mark = server.audit().mark();
    let api = namespace.api::<ConfigMap>(server.client_as("name-dropper"));
    assert!(api.get_opt("nothing").await.unwrap().is_none());
    let requests = server.audit().since(mark).by_user_agent("name-dropper");
    let request = requests.iter().next().unwrap();
    assert_eq!(
        (
            request.user.as_str(),
            request.verb.as_str(),
            request.name.as_str()
        ),
        ("butler-testkit-admin", "get", "nothing")
    );
    assert!(!request.is_write());
}

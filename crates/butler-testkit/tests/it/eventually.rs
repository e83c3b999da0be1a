use std::time::Duration;

use butler_testkit::{
    ApiServer, eventually, eventually_all, eventually_gone, try_eventually, try_eventually_all,
    try_eventually_gone,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{PATIENCE, config_map};

/// Short, for waits that are meant to end in vain.
const IN_VAIN: Duration = Duration::from_millis(300);

fn colour(found: Option<&ConfigMap>) -> Option<&str> {
    found?.data.as_ref()?.get("colour").map(String::as_str)
}

#[tokio::test]
async fn wait_ends_when_another_client_makes_it_true() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("eventually").await;
    let api = namespace.api::<ConfigMap>(server.client());
    let painter = namespace.api::<ConfigMap>(server.client_as("painter"));
    let create = PostParams::default();
    let mut states = Vec::new();
    let waiting = eventually(&api, "wall", "is green", PATIENCE, |found| {
        states.push(colour(found).map(str::to_owned));
        colour(found) == Some("green")
    });
    let painting = async {
        painter
            .create(&create, &config_map("wall", &[("colour", "white")]))
            .await
            .unwrap();
        let green = Patch::Merge(json!({ "data": { "colour": "green" } }));
        painter
            .patch("wall", &PatchParams::default(), &green)
            .await
            .unwrap();
    };
    let (wall, ()) = futures::join!(waiting, painting);
    assert_eq!(colour(Some(&wall)), Some("green"));
    assert_eq!(states.last(), Some(&Some("green".to_owned())));
}

#[tokio::test]
async fn wait_is_a_watch_and_asks_once() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("watchful").await;
    let mark = server.audit().mark();
    let api = namespace.api::<ConfigMap>(server.client_as("patient-watcher"));
    try_eventually(&api, "never", "comes", IN_VAIN, |found| found.is_some())
        .await
        .unwrap_err();
    let requests = server.audit().since(mark).by_user_agent("patient-watcher");
    assert!(
        requests.count() <= 2,
        "one list and one watch are enough:\n{requests}"
    );
}

#[tokio::test]
async fn wait_in_vain_shows_what_was_seen() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("in-vain").await;
    let api = namespace.api::<ConfigMap>(server.client());
    api.create(
        &PostParams::default(),
        &config_map("wall", &[("colour", "white")]),
    )
    .await
    .unwrap();
    let unmet = try_eventually(&api, "wall", "is green", IN_VAIN, |found| {
        colour(found) == Some("green")
    })
    .await
    .unwrap_err()
    .to_string();
    let subject = format!(
        "waited 300ms in vain until /api/v1/namespaces/{}/configmaps wall: is green",
        namespace.name()
    );
    assert!(unmet.contains(&subject), "{unmet}");
    assert!(unmet.contains(r#""colour": "white""#), "{unmet}");
    assert!(!unmet.contains("managedFields"), "{unmet}");
}

#[tokio::test]
async fn wait_in_vain_for_nothing_says_it_is_absent() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("absent").await;
    let api = namespace.api::<ConfigMap>(server.client());
    let unmet = try_eventually(&api, "wall", "exists", IN_VAIN, |found| found.is_some())
        .await
        .unwrap_err()
        .to_string();
    assert!(unmet.contains("last seen: (absent)"), "{unmet}");
}

#[tokio::test]
async fn report_keeps_secrets() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("secretive").await;
    let api = namespace.api::<Secret>(server.client());
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some("password".to_owned()),
            ..ObjectMeta::default()
        },
        string_data: Some([("word".to_owned(), "open sesame".to_owned())].into()),
        ..Secret::default()
    };
    api.create(&PostParams::default(), &secret).await.unwrap();
    let unmet = try_eventually_gone(&api, "password", IN_VAIN)
        .await
        .unwrap_err()
        .to_string();
    assert!(unmet.contains(r#""word": "(hidden)""#), "{unmet}");
}

#[tokio::test]
async fn deletion_ends_the_wait_for_absence() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("gone").await;
    let api = namespace.api::<ConfigMap>(server.client());
    api.create(&PostParams::default(), &config_map("wall", &[]))
        .await
        .unwrap();
    let other_client = namespace.api::<ConfigMap>(server.client());
    let remove = DeleteParams::default();
    let (removed, ()) = futures::join!(
        other_client.delete("wall", &remove),
        eventually_gone(&api, "wall", PATIENCE)
    );
    removed.unwrap();
}

#[tokio::test]
async fn wait_for_several_sees_them_together() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace("several").await;
    let api = namespace.api::<ConfigMap>(server.client());
    let labelled = |name: &str| {
        let mut map = config_map(name, &[]);
        map.labels_mut()
            .insert("crew".to_owned(), "painters".to_owned());
        map
    };
    let maker = namespace.api::<ConfigMap>(server.client());
    let making = async {
        for map in [labelled("b"), config_map("unlabelled", &[]), labelled("a")] {
            maker.create(&PostParams::default(), &map).await.unwrap();
        }
    };
    let waiting = eventually_all(&api, "crew=painters", "are two", PATIENCE, |found| {
        found.len() == 2
    });
    let (found, ()) = futures::join!(waiting, making);
    let names: Vec<String> = found.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["a", "b"]);

    let unmet = try_eventually_all(&api, "crew=painters", "are three", IN_VAIN, |found| {
        found.len() == 3
    })
    .await
    .unwrap_err()
    .to_string();
    assert!(unmet.contains("last seen: 2 object(s)"), "{unmet}");
}

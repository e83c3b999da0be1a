//! Controllers at work on a real API server: what one object does must not hurt another.

use butler_api::{
    conditions::{reasons, types},
    keys::labels,
};
use butler_runtime::object::Kind;
use butler_testkit::{ApiServer, TestNamespace, eventually, eventually_all, eventually_gone};
use k8s_openapi::api::{core::v1::ConfigMap, events::v1::Event, rbac::v1::ClusterRole};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    engine_workshop::{Beacon, COMPONENT, Shelf, shelf, workshop},
    http::PATIENCE,
};

/// A namespace with shelves, which the API server takes in any form.
struct Room {
    server: &'static ApiServer,
    namespace: TestNamespace,
    shelves: Api<DynamicObject>,
}

impl Room {
    async fn new(prefix: &str) -> Self {
        let server = workshop().await;
        let namespace = server.namespace(prefix).await;
        let resource = Kind::of::<Shelf>().api_resource();
        let shelves = Api::namespaced_with(server.client(), namespace.name(), &resource);
        Self {
            server,
            namespace,
            shelves,
        }
    }

    async fn create(&self, name: &str, spec: Value) {
        let body = serde_json::from_value(shelf(name, spec)).unwrap();
        self.shelves
            .create(&PostParams::default(), &body)
            .await
            .unwrap();
    }

    async fn change(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.shelves
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until a shelf is reconciled or not, for this reason, and gives the words.
    async fn until(&self, name: &str, status: &str, reason: &str, words: &str) -> DynamicObject {
        eventually(
            &self.shelves,
            name,
            &format!("Reconciled={status}/{reason} {words}"),
            PATIENCE,
            |found| {
                found.and_then(reconciled).is_some_and(|condition| {
                    let message = condition["message"].as_str().unwrap_or_default();
                    condition["status"] == status
                        && condition["reason"] == reason
                        && message.contains(words)
                })
            },
        )
        .await
    }

    async fn until_done(&self, name: &str) -> DynamicObject {
        self.until(name, "True", reasons::SUCCEEDED, "").await
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        self.namespace.api(self.server.client())
    }
}

fn reconciled(shelf: &DynamicObject) -> Option<&Value> {
    let conditions = shelf.data["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == types::RECONCILED)
}

#[tokio::test]
async fn an_object_that_does_not_fit_its_type_is_told_so_and_the_others_go_on() {
    let room = Room::new("malformed").await;
    room.create("crooked", json!({ "boards": "many" })).await;
    room.create("straight", json!({ "boards": 1 })).await;
    room.until_done("straight").await;
    room.until("crooked", "False", reasons::MALFORMED, "spec.boards: ")
        .await;

    // Another field is wrong now: the words follow.
    room.change("crooked", json!({ "boards": 2, "mood": "sunny" }))
        .await;
    room.until("crooked", "False", reasons::MALFORMED, "spec.mood: ")
        .await;

    room.change("crooked", json!({ "mood": null })).await;
    let mended = room.until_done("crooked").await;
    assert_eq!(mended.data["status"]["boards"], 2);

    // And wrong again, as it was before.
    room.change("crooked", json!({ "boards": "many" })).await;
    room.until("crooked", "False", reasons::MALFORMED, "spec.boards: ")
        .await;
    room.change("crooked", json!({ "boards": 1 })).await;
    room.until_done("crooked").await;
}

#[tokio::test]
async fn what_is_no_longer_planned_goes_but_a_namesake_that_copied_our_labels_stays() {
    let room = Room::new("prune").await;
    room.create("rack", json!({ "boards": 3 })).await;
    room.until_done("rack").await;
    let config_maps = room.config_maps();
    let ours = config_maps.get("rack-0").await.unwrap();
    assert!(ours.labels().contains_key(labels::OWNER_UID));
    let mut copy = ConfigMap::default();
    copy.metadata.name = Some("copy".to_owned());
    copy.metadata.labels = ours.metadata.labels.clone();
    config_maps
        .create(&PostParams::default(), &copy)
        .await
        .unwrap();

    room.change("rack", json!({ "boards": 1 })).await;
    let selector = labels::OWNER_UID;
    let left = eventually_all(
        &config_maps,
        selector,
        "one board is left",
        PATIENCE,
        |found| found.len() <= 2,
    )
    .await;
    let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["copy", "rack-0"]);

    // The last one goes as well, and the copy has stayed through all of it.
    room.change("rack", json!({ "boards": 0 })).await;
    eventually_gone(&config_maps, "rack-0", PATIENCE).await;
    assert!(config_maps.get_opt("copy").await.unwrap().is_some());
    let deletions = room
        .server
        .audit()
        .all()
        .by_user_agent(COMPONENT)
        .with_verbs(&["delete"]);
    let deletions = deletions.in_namespace(room.namespace.name());
    assert_eq!(deletions.count(), 3, "each once\n{deletions}");
}

#[tokio::test]
async fn what_another_replica_made_while_we_looked_is_not_taken_for_unwanted() {
    let room = Room::new("shared").await;
    room.create("rack", json!({ "boards": 1, "mood": "shared" }))
        .await;
    let what = "both boards are known";
    eventually(&room.shelves, "rack", what, PATIENCE, |found| {
        found.is_some_and(|found| found.data["status"]["boards"] == 2)
    })
    .await;
    let deletions = room
        .server
        .audit()
        .all()
        .by_user_agent(COMPONENT)
        .with_verbs(&["delete"]);
    let deletions = deletions.in_namespace(room.namespace.name());
    assert!(deletions.is_empty(), "{deletions}");
}

#[tokio::test]
async fn what_is_still_in_use_stays_until_it_is_not() {
    let room = Room::new("in-use").await;
    room.create("rack", json!({ "boards": 3 })).await;
    room.until_done("rack").await;
    let config_maps = room.config_maps();

    room.change("rack", json!({ "boards": 1, "mood": "keeps" }))
        .await;
    eventually_gone(&config_maps, "rack-2", PATIENCE).await;
    assert!(config_maps.get_opt("rack-1").await.unwrap().is_some());

    room.change("rack", json!({ "boards": 1, "mood": "calm" }))
        .await;
    eventually_gone(&config_maps, "rack-1", PATIENCE).await;
    assert!(config_maps.get_opt("rack-0").await.unwrap().is_some());
}

#[tokio::test]
async fn a_board_broken_by_hand_is_mended() {
    let room = Room::new("drift").await;
    room.create("rack", json!({ "boards": 1 })).await;
    room.until_done("rack").await;
    let config_maps = room.config_maps();
    let painted = Patch::Merge(json!({ "data": { "wood": "pine", "colour": "red" } }));
    config_maps
        .patch("rack-0", &PatchParams::default(), &painted)
        .await
        .unwrap();
    let wood = |found: Option<&ConfigMap>, key: &str| {
        found.and_then(|found| found.data.as_ref()?.get(key).cloned())
    };
    let mended = eventually(&config_maps, "rack-0", "is oak again", PATIENCE, |found| {
        wood(found, "wood").as_deref() == Some("oak")
    })
    .await;
    assert_eq!(
        wood(Some(&mended), "colour").as_deref(),
        Some("red"),
        "what is not ours stays"
    );

    config_maps
        .delete("rack-0", &DeleteParams::default())
        .await
        .unwrap();
    let again = |found: Option<&ConfigMap>| {
        found.is_some_and(|found| found.metadata.uid != mended.metadata.uid)
    };
    eventually(&config_maps, "rack-0", "is made again", PATIENCE, again).await;
}

#[tokio::test]
async fn a_pass_that_hangs_is_cut_off_and_the_others_go_on() {
    let room = Room::new("hangs").await;
    room.create("stuck", json!({ "mood": "hangs" })).await;
    room.create("free", json!({ "boards": 1 })).await;
    room.until_done("free").await;
    room.until(
        "stuck",
        "False",
        reasons::DEADLINE_EXCEEDED,
        "did not end within 3s",
    )
    .await;
    room.change("stuck", json!({ "mood": "calm" })).await;
    room.until_done("stuck").await;
}

#[tokio::test]
async fn a_pass_that_panics_hurts_nobody_else() {
    let room = Room::new("panics").await;
    room.create("thumb", json!({ "mood": "panics" })).await;
    room.create("finger", json!({ "boards": 1 })).await;
    room.until_done("finger").await;
    let thumb = room.shelves.get("thumb").await.unwrap();
    assert!(
        reconciled(&thumb).is_none(),
        "a defect of ours writes nothing: {thumb:#?}"
    );
    room.change("thumb", json!({ "mood": "calm" })).await;
    room.until_done("thumb").await;
}

#[tokio::test]
async fn an_object_that_labels_itself_comes_to_rest() {
    let room = Room::new("itself").await;
    room.create("table", json!({ "mood": "labels" })).await;
    let done = room.until_done("table").await;
    assert_eq!(done.labels().get("oiled").map(String::as_str), Some("yes"));
    assert!(
        !done.labels().contains_key(labels::OWNER_UID),
        "it does not own itself"
    );
}

#[tokio::test]
async fn objects_without_a_namespace_are_made_and_torn_down() {
    let server = workshop().await;
    let (beacons, lights) = (
        Api::<Beacon>::all(server.client()),
        Api::<ClusterRole>::all(server.client()),
    );
    let beacon = json!({ "apiVersion": "butler.test/v1", "kind": "Beacon", "metadata": { "name": "north" }, "spec": {} });
    beacons
        .create(
            &PostParams::default(),
            &serde_json::from_value(beacon).unwrap(),
        )
        .await
        .unwrap();
    let lit = eventually(&beacons, "north", "is lit", PATIENCE, |found| {
        found
            .and_then(|beacon| beacon.status.as_ref())
            .is_some_and(|status| status.boards == Some(1))
    })
    .await;
    assert_eq!(lit.finalizers(), ["butler.test/keeper"]);
    let light = lights.get("north").await.unwrap();
    assert_eq!(
        light.labels().get(labels::OWNER_UID),
        lit.metadata.uid.as_ref()
    );

    beacons
        .delete("north", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&beacons, "north", PATIENCE).await;
    assert!(lights.get_opt("north").await.unwrap().is_none());
}

#[tokio::test]
async fn a_failure_is_told_in_one_event_beside_the_object() {
    let room = Room::new("event").await;
    room.create("stuck", json!({ "mood": "hangs" })).await;
    room.until("stuck", "False", reasons::DEADLINE_EXCEEDED, "")
        .await;
    let events = room.namespace.api::<Event>(room.server.client());
    let about = eventually_all(&events, "", "there is an event", PATIENCE, |found| {
        !found.is_empty()
    })
    .await;
    assert_eq!(about[0].reason.as_deref(), Some(reasons::DEADLINE_EXCEEDED));
    assert_eq!(
        about[0]
            .regarding
            .as_ref()
            .and_then(|object| object.name.as_deref()),
        Some("stuck")
    );
    room.shelves
        .delete("stuck", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone(&room.shelves, "stuck", PATIENCE).await;
    assert_eq!(
        events
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

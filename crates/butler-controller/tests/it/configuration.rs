//! What a platform engineer sees of the platform's settings, on a real API server.

use butler_api::{
    butler::{butler_config::ButlerConfig, team::Team},
    conditions::{reasons, types},
    keys::{annotations, labels, names, values},
};
use butler_testkit::eventually;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    platform::{PATIENCE, Platform, create},
    scene,
};

const PLAYGROUND: &str = "playground";

#[tokio::test]
async fn the_settings_make_a_namespace_that_heals_and_stays() {
    let platform = Platform::shared().await;
    let configs = Api::<ButlerConfig>::all(platform.client());
    let namespaces = Api::<Namespace>::all(platform.client());
    let config = create(
        &configs,
        scene::config(json!({ "defaultNamespace": PLAYGROUND })),
    )
    .await;
    let is_whole = |namespace: Option<&Namespace>| {
        namespace.is_some_and(|namespace| {
            let labels = namespace.labels();
            labels.get(labels::OWNER_UID) == config.metadata.uid.as_ref()
                && labels.get(labels::MANAGED_BY).map(String::as_str)
                    == Some(values::MANAGED_BY_BUTLER)
                && namespace
                    .annotations()
                    .contains_key(annotations::DESCRIPTION)
        })
    };
    let made = eventually(
        &namespaces,
        PLAYGROUND,
        "is there and says whose it is",
        PATIENCE,
        is_whole,
    )
    .await;
    eventually(
        &configs,
        names::BUTLER_CONFIG,
        "is configured",
        PATIENCE,
        |found| {
            let conditions = found
                .and_then(|config| config.status.as_ref())
                .map(|status| status.conditions.as_slice());
            let ready = |type_| {
                conditions
                    .unwrap_or_default()
                    .iter()
                    .any(|one| one.type_ == type_ && one.status == "True")
            };
            ready(types::CONFIGURED) && ready(types::NAMESPACE_READY)
        },
    )
    .await;

    // Somebody's hand: our labels changed, and one of theirs added.
    let meddled = json!({ "metadata": {
        "labels": { labels::MANAGED_BY: "me", labels::OWNER_UID: null, "cost-centre": "42" },
        "annotations": { annotations::DESCRIPTION: null },
    } });
    namespaces
        .patch(PLAYGROUND, &PatchParams::default(), &Patch::Merge(meddled))
        .await
        .unwrap();
    let healed = eventually(&namespaces, PLAYGROUND, "is mended", PATIENCE, is_whole).await;
    assert_eq!(
        healed.labels().get("cost-centre").map(String::as_str),
        Some("42"),
        "what is not ours stays"
    );
    assert_eq!(healed.metadata.uid, made.metadata.uid);

    // The counts follow.
    let teams = Api::<Team>::all(platform.client());
    create(&teams, scene::team("counted")).await;
    let counts = |wanted| {
        move |found: Option<&ButlerConfig>| {
            found
                .and_then(|config| config.status.as_ref())
                .and_then(|status| status.team_count)
                == Some(wanted)
        }
    };
    eventually(
        &configs,
        names::BUTLER_CONFIG,
        "counts the team",
        PATIENCE,
        counts(1),
    )
    .await;
    teams
        .delete("counted", &DeleteParams::default())
        .await
        .unwrap();
    eventually(
        &configs,
        names::BUTLER_CONFIG,
        "counts it no more",
        PATIENCE,
        counts(0),
    )
    .await;

    // A reference that leads nowhere.
    let dangling = json!({ "spec": { "defaultProviderConfigRef": { "name": "nowhere" } } });
    configs
        .patch(
            names::BUTLER_CONFIG,
            &PatchParams::default(),
            &Patch::Merge(dangling),
        )
        .await
        .unwrap();
    eventually(
        &configs,
        names::BUTLER_CONFIG,
        "names the reference",
        PATIENCE,
        |found| {
            let status = found.and_then(|config| config.status.as_ref());
            status.is_some_and(|status| {
                status.conditions.iter().any(|one| {
                    one.type_ == types::CONFIGURED
                        && one.reason == reasons::CONFIG_ERROR
                        && one.message.contains("nowhere")
                })
            })
        },
    )
    .await;
}

#[tokio::test]
async fn a_second_set_of_settings_is_refused() {
    let platform = Platform::shared().await;
    let configs = Api::<ButlerConfig>::all(platform.client());
    let mut manifest = scene::config(json!({}));
    manifest["metadata"]["name"] = "another".into();
    let refused = configs
        .create(&PostParams::default(), &scene::typed(manifest))
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("there is one ButlerConfig for the whole platform"),
        "{refused}"
    );
}

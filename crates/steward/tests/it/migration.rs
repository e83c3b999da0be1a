//! A control plane that is really hosted moves its state from one real etcd to another, and does not get lost on the way to one
//! that does not answer.

use butler_api::{
    conditions::{reasons, types},
    steward::{
        data_store::DataStore,
        tenant_control_plane::{
            ControlPlanePhase, TenantControlPlane,
            status::{MigrationStage, MigrationState},
        },
    },
};
use butler_testkit::{ApiServer, Options, eventually, eventually_gone, process};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use steward::settings::Settings;
use steward_datastore::Store as _;

use crate::{
    etcd::Etcd,
    hosting::{
        LOOPBACK, PATIENCE, administrator, balance, create_store, part, rolled_out, run_steward,
        until, until_store_is_ready,
    },
    kubelet::Kubelet,
    real::create,
    scene::{self, SYSTEM, TEAM, here},
};

const DATA_STORE: &str = "component.steward.butlerlabs.dev/datastore";

fn migration(control_plane: Option<&TenantControlPlane>) -> Option<MigrationState> {
    let status = control_plane?.status.as_ref()?;
    status.storage.as_ref()?.migration.clone()
}

async fn until_stage(client: &Client, stage: Option<MigrationStage>) -> TenantControlPlane {
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    let what = format!("has a move at {stage:?}");
    eventually(&control_planes, "shop", &what, PATIENCE, |found| {
        migration(found).map(|migration| migration.stage) == stage
    })
    .await
}

/// How a control plane is, in one word.
fn word(control_plane: &TenantControlPlane) -> ControlPlanePhase {
    let status = control_plane.status.as_ref().unwrap();
    let resources = status.kubernetes_resources.as_ref().unwrap();
    resources.version.as_ref().unwrap().status
}

/// The Deployment of pods that use a store.
async fn pods_of(client: &Client, store: &str) -> Deployment {
    let deployments = Api::<Deployment>::namespaced(client.clone(), TEAM);
    eventually(&deployments, "shop", "uses the store", PATIENCE, |found| {
        let spec = found.and_then(|found| found.spec.as_ref());
        let metadata = spec.and_then(|spec| spec.template.metadata.as_ref());
        let labels = metadata.and_then(|metadata| metadata.labels.as_ref());
        labels.is_some_and(|labels| labels.get(DATA_STORE).is_some_and(|used| used == store))
    })
    .await
}

async fn patch(client: &Client, body: Value) {
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    control_planes
        .patch("shop", &PatchParams::default(), &Patch::Merge(body))
        .await
        .unwrap();
}

fn note(name: &str) -> ConfigMap {
    let body = json!({ "metadata": { "name": name }, "data": { "written": "yes" } });
    serde_json::from_value(body).unwrap()
}

async fn write(notes: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, kube::Error> {
    notes.create(&PostParams::default(), &note(name)).await
}

/// Waits until the tenant takes a write.
async fn until_written(notes: &Api<ConfigMap>, name: &str) {
    let written = process::until(PATIENCE, async || write(notes, name).await.ok()).await;
    assert!(written.is_some(), "{name} is not accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_moves_to_another_etcd_and_comes_back_from_one_that_does_not_answer() {
    let (old, new) = (Etcd::start().await, Etcd::start().await);
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as("story");
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in [SYSTEM, TEAM] {
        create(&namespaces, scene::namespace(name)).await;
    }
    create_store(&client, "default", &old).await;
    create_store(&client, "silver", &new).await;
    let steward = run_steward(&server, &Settings::default());
    for name in ["default", "silver"] {
        until_store_is_ready(&client, name).await;
    }
    let mut kubelet = Kubelet::new();
    let listening = kubelet.port;
    let control_planes = Api::<TenantControlPlane>::namespaced(client.clone(), TEAM);
    let parts = json!({ "dataStore": "default", "networkProfile": { "port": listening } });
    create(&control_planes, scene::control_plane(&here("shop"), parts)).await;
    balance(&client, "shop").await;
    let deployment = pods_of(&client, "default").await;
    kubelet.run_api_server(&client, TEAM, &deployment).await;
    rolled_out(&client, &deployment).await;
    until(&client, "shop", types::TENANT_CONFIGURED).await;
    let tenant = administrator(&client, "shop").await;
    let notes = Api::<ConfigMap>::namespaced(tenant.clone(), "default");
    until_written(&notes, "before").await;
    let in_tenant = Api::<Namespace>::all(tenant.clone());
    create(&in_tenant, scene::namespace("kept")).await;

    // Writes are refused as soon as the state is in the new store, and until all pods use it.
    patch(&client, json!({ "spec": { "dataStore": "silver" } })).await;
    let switching = until_stage(&client, Some(MigrationStage::Switching)).await;
    let arrived = migration(Some(&switching)).unwrap().entries.unwrap();
    let part = part(&switching);
    assert!(arrived > 50, "{arrived}");
    let left = old.store().count(&part).await.unwrap();
    assert_eq!(u64::try_from(arrived), Ok(left), "all of it arrived");
    assert_eq!(word(&switching), ControlPlanePhase::Migrating);
    let gone = DeleteParams::default();
    let refusals = [
        write(&notes, "meanwhile").await.unwrap_err(),
        notes.delete("before", &gone).await.unwrap_err(),
        in_tenant.delete("kept", &gone).await.unwrap_err(),
    ];
    for refused in refusals {
        let told = refused.to_string();
        assert!(told.contains("moved to another store"), "{told}");
    }
    notes.get("before").await.unwrap();

    // The new pods come, and the old ones go.
    let deployment = pods_of(&client, "silver").await;
    drop(kubelet);
    let mut kubelet = Kubelet::on(listening);
    kubelet.run_api_server(&client, TEAM, &deployment).await;
    rolled_out(&client, &deployment).await;
    let moved = until_stage(&client, None).await;
    let storage = moved.status.unwrap().storage.unwrap();
    assert_eq!(storage.data_store_name.as_deref(), Some("silver"));
    until(&client, "shop", types::TENANT_CONFIGURED).await;
    notes.get("before").await.unwrap();
    let kept = in_tenant.get("kept").await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, None);
    assert!(notes.get_opt("meanwhile").await.unwrap().is_none());
    until_written(&notes, "after").await;
    assert!(old.store().tenant_state(&part).await.unwrap().is_gone());
    assert_eq!(old.store().count(&part).await.unwrap(), 0);
    assert!(new.store().tenant_state(&part).await.unwrap().is_complete());

    // A store that does not answer is given up, and the tenant goes on where it is.
    let mut bronze = scene::store("bronze");
    bronze["spec"]["endpoints"] = json!([format!("{LOOPBACK}:1")]);
    bronze["spec"]["tlsConfig"] = scene::store("silver")["spec"]["tlsConfig"].clone();
    let stores = Api::<DataStore>::all(client.clone());
    create(&stores, bronze).await;
    let impatient = json!({ "steward.butlerlabs.dev/migration-timeout": "10s" });
    patch(
        &client,
        json!({ "metadata": { "annotations": impatient }, "spec": { "dataStore": "bronze" } }),
    )
    .await;
    until_stage(&client, Some(MigrationStage::Returning)).await;
    until_written(&notes, "returned").await;
    stores
        .delete("bronze", &DeleteParams::default())
        .await
        .unwrap();
    let failed = until_stage(&client, Some(MigrationStage::Failed)).await;
    let conditions = failed.status.unwrap().conditions;
    let told = conditions
        .iter()
        .find(|condition| condition.type_ == types::DATA_STORE_MIGRATED)
        .unwrap();
    assert_eq!(told.reason, reasons::MIGRATION_FAILED);
    assert!(told.message.contains("stays in silver"), "{}", told.message);
    patch(&client, json!({ "spec": { "dataStore": "silver" } })).await;
    until_stage(&client, None).await;
    eventually_gone(&stores, "bronze", PATIENCE).await;
    notes.get("before").await.unwrap();
    steward.begin();
}

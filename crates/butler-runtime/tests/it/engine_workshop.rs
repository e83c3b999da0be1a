//! Two small kinds and their controllers, to try the engine with: a Shelf has boards, which are `ConfigMap`s; a Beacon,
//! which lives in no namespace, has a light, which is a `ClusterRole`.

use std::{thread, time::Duration};

use butler_api::keys::labels;
use butler_runtime::{
    api_server::Part,
    cache::{Metadata, Owned},
    client::Component,
    controller::ControllerSettings,
    failure::Failure,
    manager::{Manager, ManagerOptions},
    object::{Kind, Manifest},
    plan::{Next, Plan, Prune},
    reconciler::{Context, NoEffect, Reconciler, Sources},
    shutdown::Shutdown,
};
use butler_testkit::{ApiServer, Options};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ConfigMap, rbac::v1::ClusterRole},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{CustomResource, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::OnceCell};

/// What the controllers are to the API server.
pub(crate) const COMPONENT: &str = "workshop";
/// How long a pass over a shelf may take: long for a pass, short for a test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(3);

/// A shelf. The API server takes anything for its spec; we do not.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "butler.test",
    version = "v1",
    kind = "Shelf",
    plural = "shelves",
    namespaced,
    status = "ShelfStatus",
    schema = "disabled"
)]
pub(crate) struct ShelfSpec {
    /// How many boards it has.
    #[serde(default)]
    pub(crate) boards: u32,
    /// How its controller feels about it.
    #[serde(default)]
    pub(crate) mood: Mood,
}

/// What befalls a pass over a shelf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Mood {
    #[default]
    Calm,
    /// `observe` never ends.
    Hangs,
    /// `plan` panics.
    Panics,
    /// The plan labels the shelf itself.
    Labels,
    /// The second board is in use, whether it is wanted or not.
    Keeps,
    /// Another replica puts up a board while the shelf is observed, and every later look wants it.
    Shared,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShelfStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boards: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

/// The controller of shelves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carpenter;

impl Reconciler for Carpenter {
    const NAME: &'static str = "carpenter";
    type Object = Shelf;
    type Status = ShelfStatus;
    /// Whether the board of another replica was there.
    type World = bool;
    type Effect = NoEffect;

    fn sources(&self, sources: &mut Sources<'_, Shelf>) {
        sources.owns::<ConfigMap>();
    }

    async fn observe(&self, object: &Shelf, context: &Context) -> Result<bool, Failure> {
        match object.spec.mood {
            Mood::Hangs => std::future::pending().await,
            Mood::Shared => Ok(!put_up_by_another_replica(object, context).await?),
            _ => Ok(false),
        }
    }

    fn plan(&self, object: &Shelf, others: &bool, _: Timestamp) -> Plan<ShelfStatus, NoEffect> {
        assert!(
            object.spec.mood != Mood::Panics,
            "the carpenter hit his thumb"
        );
        let boards = object.spec.boards + u32::from(*others);
        let mut plan = Plan::status(ShelfStatus {
            boards: Some(boards),
            ..ShelfStatus::default()
        });
        plan.prune = if object.spec.mood == Mood::Keeps {
            let second = board(object, 1);
            Prune::UnlistedBut(vec![(second.kind, second.key)])
        } else {
            Prune::Unlisted
        };
        plan.apply = (0..boards).map(|number| board(object, number)).collect();
        if object.spec.mood == Mood::Labels {
            let metadata = json!({ "name": object.name_any(), "namespace": object.namespace(), "labels": { "oiled": "yes" } });
            plan.apply.push(Manifest::new(
                Kind::of::<Shelf>(),
                json!({ "metadata": metadata }),
            ));
        }
        plan
    }

    async fn perform(&self, _: &Shelf, effect: &NoEffect, _: &Context) -> Result<(), Failure> {
        match *effect {}
    }
}

/// Puts one board more up than the shelf asks for, as the carpenter of another replica would, and waits until the cache shows it.
/// Says whether that was necessary.
async fn put_up_by_another_replica(object: &Shelf, context: &Context) -> Result<bool, Failure> {
    let Manifest {
        kind,
        key,
        mut body,
        ..
    } = board(object, object.spec.boards);
    let boards = context.cache::<Owned<ConfigMap>>();
    if boards.get(&key).is_some() {
        return Ok(false);
    }
    let (shown, mut seen) = tokio::sync::watch::channel(false);
    let awaited = key.clone();
    boards.listen(move |change| {
        shown.send_if_modified(|shown| {
            let is_it = change.key == awaited;
            *shown |= is_it;
            is_it
        });
    });
    body["metadata"]["labels"] = json!({ labels::OWNER_UID: object.uid() });
    let manager = format!("{COMPONENT}/{}", Carpenter::NAME);
    let api = context.api();
    api.apply(&kind, &key, Part::Object, &manager, body).await?;
    // The sender lives as long as the cache.
    let _ = seen.wait_for(|shown| *shown).await;
    Ok(true)
}

fn board(object: &Shelf, number: u32) -> Manifest {
    let name = format!("{}-{number}", object.name_any());
    let body = json!({ "metadata": { "name": name, "namespace": object.namespace() }, "data": { "wood": "oak" } });
    Manifest::new(Kind::of::<ConfigMap>(), body)
}

/// A second controller of shelves that reads them a second way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inspector;

impl Reconciler for Inspector {
    const NAME: &'static str = "inspector";
    type Object = Shelf;
    type Status = ShelfStatus;
    type World = ();
    type Effect = NoEffect;

    fn sources(&self, sources: &mut Sources<'_, Shelf>) {
        sources.reads::<Metadata<Shelf>>(|_, _| Vec::new());
    }

    async fn observe(&self, _: &Shelf, _: &Context) -> Result<(), Failure> {
        Ok(())
    }

    fn plan(&self, _: &Shelf, (): &(), _: Timestamp) -> Plan<ShelfStatus, NoEffect> {
        Plan::status(ShelfStatus::default())
    }

    async fn perform(&self, _: &Shelf, effect: &NoEffect, _: &Context) -> Result<(), Failure> {
        match *effect {}
    }
}

/// A beacon, which belongs to no namespace.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "butler.test",
    version = "v1",
    kind = "Beacon",
    status = "ShelfStatus",
    schema = "disabled"
)]
pub(crate) struct BeaconSpec {}

/// The controller of beacons.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeper;

impl Reconciler for Keeper {
    const NAME: &'static str = "keeper";
    const FINALIZER: Option<&'static str> = Some("butler.test/keeper");
    type Object = Beacon;
    type Status = ShelfStatus;
    type World = bool;
    type Effect = NoEffect;

    fn sources(&self, sources: &mut Sources<'_, Beacon>) {
        sources.owns::<ClusterRole>();
    }

    async fn observe(&self, beacon: &Beacon, context: &Context) -> Result<bool, Failure> {
        let light = butler_runtime::object::ObjectKey::cluster(beacon.name_any());
        Ok(context.cache::<Owned<ClusterRole>>().get(&light).is_some())
    }

    fn plan(&self, beacon: &Beacon, lit: &bool, _: Timestamp) -> Plan<ShelfStatus, NoEffect> {
        let mut plan = Plan::status(ShelfStatus {
            boards: Some(u32::from(*lit)),
            ..ShelfStatus::default()
        });
        plan.prune = Prune::Unlisted;
        if beacon.meta().deletion_timestamp.is_some() {
            plan.next = if *lit { Next::AwaitChange } else { Next::Done };
        } else {
            let body = json!({ "metadata": { "name": beacon.name_any() } });
            plan.apply
                .push(Manifest::new(Kind::of::<ClusterRole>(), body));
        }
        plan
    }

    async fn perform(&self, _: &Beacon, effect: &NoEffect, _: &Context) -> Result<(), Failure> {
        match *effect {}
    }
}

/// A definition that takes anything for a spec.
pub(crate) fn definition(kind: &Kind) -> CustomResourceDefinition {
    let anything = || json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let mut status = anything();
    let condition = json!({ "type": "object", "required": ["type"], "properties": { "type": { "type": "string" } }, "x-kubernetes-preserve-unknown-fields": true });
    status["properties"] = json!({ "conditions": {
        "type": "array", "items": condition, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    } });
    let schema =
        json!({ "type": "object", "properties": { "spec": anything(), "status": status } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", kind.plural, kind.group) },
        "spec": {
            "group": kind.group,
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "names": { "kind": kind.kind, "plural": kind.plural, "singular": kind.kind.to_lowercase() },
            "versions": [{
                "name": kind.version, "served": true, "storage": true,
                "subresources": { "status": {} }, "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    serde_json::from_value(definition).expect("a definition")
}

static QUIET: OnceCell<ApiServer> = OnceCell::const_new();
static BUSY: OnceCell<ApiServer> = OnceCell::const_new();
static AT_WORK: OnceCell<()> = OnceCell::const_new();

async fn start() -> ApiServer {
    let custom_resources = vec![
        definition(&Kind::of::<Shelf>()),
        definition(&Kind::of::<Beacon>()),
    ];
    let options = Options {
        custom_resources,
        ..Options::default()
    };
    ApiServer::start(options).await.expect("an API server")
}

/// An API server with our two kinds, and nobody who works on them.
pub(crate) async fn quiet_server() -> &'static ApiServer {
    QUIET.get_or_init(start).await
}

/// An API server on which [`Carpenter`] and [`Keeper`] are at work, for all tests of this process.
pub(crate) async fn workshop() -> &'static ApiServer {
    let server = BUSY.get_or_init(start).await;
    let begin = || async move {
        // A runtime of its own: that of the test which comes first ends with that test.
        thread::spawn(move || {
            Runtime::new().expect("a runtime").block_on(async {
                let component = Component::new(COMPONENT, "test").expect("valid");
                let mut manager = Manager::new(server.client_as(COMPONENT), component);
                manager.add(
                    Carpenter,
                    ControllerSettings {
                        workers: 4,
                        deadline: DEADLINE,
                    },
                );
                manager.add(Keeper, ControllerSettings::default());
                manager
                    .run(ManagerOptions::default(), Shutdown::new())
                    .await
                    .expect("runs");
            });
        });
    };
    AT_WORK.get_or_init(begin).await;
    server
}

/// A shelf as its owner writes it.
pub(crate) fn shelf(name: &str, spec: Value) -> Value {
    let mut body =
        json!({ "apiVersion": "butler.test/v1", "kind": "Shelf", "metadata": { "name": name } });
    body["spec"] = spec;
    body
}

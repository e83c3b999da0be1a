//! A Cluster that the real Cluster API makes from a class: the class names templates, and the Cluster says what is its own.
//! What Cluster API sets and what Steward sets are in one object, and neither takes anything from the other.

use std::time::Duration;

use butler_api::{
    cluster_api::{
        butler_cluster::{ButlerCluster, ButlerClusterTemplate},
        steward_control_plane::{StewardControlPlane, StewardControlPlaneTemplate},
    },
    keys::labels,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_testkit::{ApiServer, audit::Mark, eventually, eventually_gone};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Service},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    class_scene::{
        AFTER, BEFORE, CLASS, NEW, OLD, REGISTRY, class, classes, cluster, control_plane_of,
        infrastructure_template, template,
    },
    manager,
    real::{LOOPBACK, dynamic, unused_port},
    scene::{self, CLUSTER},
};
use crate::{
    kubelet::{container, pod},
    real::{create, run_steward, serve_at, set_the_scene},
    scene::TEAM,
};

const PATIENCE: Duration = Duration::from_mins(1);
/// What Cluster API puts on all that it makes from a class.
const OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// A moment at which nobody has anything to do.
struct Rest {
    mark: Mark,
    generations: (i64, i64),
}

/// Everything of one Cluster, by the names that Cluster API gave.
struct Story<'a> {
    server: &'a ApiServer,
    client: Client,
    control_plane: String,
    infrastructure: String,
}

impl<'a> Story<'a> {
    /// Waits until Cluster API has made the parts of the Cluster.
    async fn begin(server: &'a ApiServer, client: Client) -> Self {
        let clusters = dynamic(&client, &scene::clusters());
        let name = |found: &DynamicObject, reference: &str| {
            let place = format!("/spec/{reference}/name");
            let name = found.data.pointer(&place).and_then(Value::as_str);
            name.map(ToOwned::to_owned)
        };
        let made = eventually(&clusters, CLUSTER, "has its parts", PATIENCE, |found| {
            found.is_some_and(|found| name(found, "controlPlaneRef").is_some())
        })
        .await;
        Self {
            server,
            client,
            control_plane: name(&made, "controlPlaneRef").unwrap(),
            infrastructure: name(&made, "infrastructureRef").unwrap(),
        }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), TEAM)
    }

    /// The control plane once it is so.
    async fn control_plane_when(
        &self,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> StewardControlPlane {
        let api = self.api::<StewardControlPlane>();
        eventually(&api, &self.control_plane, what, PATIENCE, |found| {
            found.is_some_and(|found| is_so(&json!(found)))
        })
        .await
    }

    /// Plays the kubelets, once the pods are asked for as they should be.
    async fn serve_when(&self, what: &str, is_so: impl Fn(&Deployment) -> bool) {
        let api = self.api::<Deployment>();
        eventually(&api, &self.control_plane, what, PATIENCE, |found| {
            found.is_some_and(&is_so)
        })
        .await;
        serve_at(&self.client, &self.control_plane, LOOPBACK).await;
    }

    /// Changes what the Cluster says.
    async fn change(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let clusters = dynamic(&self.client, &scene::clusters());
        let parameters = PatchParams::default();
        let changed = clusters.patch(CLUSTER, &parameters, &patch).await;
        changed.unwrap();
    }

    /// Waits until Cluster API has made of the Cluster what it says now.
    async fn settled(&self) {
        let clusters = dynamic(&self.client, &scene::clusters());
        let what = "is as its topology says";
        eventually(&clusters, CLUSTER, what, PATIENCE, |found| {
            let Some(found) = found else { return false };
            let conditions = found.data.pointer("/status/conditions");
            let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
            let mut said = conditions.filter(|one| one["type"] == "TopologyReconciled");
            said.any(|one| {
                one["status"] == "True"
                    && one["observedGeneration"] == json!(found.metadata.generation)
            })
        })
        .await;
    }

    /// How often control plane and infrastructure have changed, beside their statuses.
    async fn generations(&self) -> (i64, i64) {
        let control_plane = self.api::<StewardControlPlane>();
        let control_plane = control_plane.get(&self.control_plane).await.unwrap();
        let infrastructure = self.api::<ButlerCluster>();
        let infrastructure = infrastructure.get(&self.infrastructure).await.unwrap();
        let generation = |metadata: &ObjectMeta| metadata.generation.unwrap();
        (
            generation(&control_plane.metadata),
            generation(&infrastructure.metadata),
        )
    }

    /// How everything is once Cluster API is content.
    async fn rest(&self) -> Rest {
        self.settled().await;
        Rest {
            mark: self.server.audit().mark(),
            generations: self.generations().await,
        }
    }

    /// Everything is at rest again. Since the last time, the control plane was changed as often as that, each time by one write, and
    /// the infrastructure was not even written to. Cluster API asks what a write of its own would change; that is none.
    async fn rest_after(&self, before: Rest, changes: u8) -> Rest {
        let rest = self.rest().await;
        let writes = self.server.audit().since(before.mark).in_namespace(TEAM);
        let writes = writes.writes().filter(|request| {
            ["stewardcontrolplanes", "butlerclusters"].contains(&request.resource.as_str())
                && !request.uri.contains("dryRun")
        });
        assert_eq!(writes.count(), usize::from(changes), "{writes}");
        let (control_plane, infrastructure) = before.generations;
        let expected = (control_plane + i64::from(changes), infrastructure);
        assert_eq!(rest.generations, expected);
        rest
    }
}

fn image(deployment: &Deployment) -> String {
    let pod = pod(deployment);
    let image = container(&pod, "kube-apiserver").image.clone();
    image.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_a_class_gets_its_control_plane_from_a_template_and_follows_its_topology() {
    let server = manager::start().await;
    let client = server.client_as("story");
    set_the_scene(&client).await;
    let steward = run_steward(&server);
    let templates = Api::<StewardControlPlaneTemplate>::namespaced(client.clone(), TEAM);
    create(&templates, template(BEFORE, "staff")).await;
    create(&templates, template(AFTER, "everybody")).await;
    let infrastructures = Api::<ButlerClusterTemplate>::namespaced(client.clone(), TEAM);
    create(&infrastructures, infrastructure_template()).await;
    let port = unused_port();
    for (kind, body) in [(classes(), class()), (scene::clusters(), cluster(port))] {
        let body: DynamicObject = serde_json::from_value(body).unwrap();
        let api = dynamic(&client, &kind);
        api.create(&PostParams::default(), &body).await.unwrap();
    }

    // The control plane is what the template says, with what the Cluster says of its own.
    let story = Story::begin(&server, client.clone()).await;
    let made = story.control_plane_when("is made", |_| true).await;
    assert_eq!((&*made.spec.version, made.spec.replicas), (OLD, 2));
    assert_eq!(made.spec.settings.registry, REGISTRY);
    assert!(made.spec.settings.addons.konnectivity.is_some());
    for (label, value) in [
        ("environment", "production"),
        (labels::CLUSTER_API_CLUSTER, CLUSTER),
        (OWNED, ""),
    ] {
        assert_eq!(made.labels()[label], value, "{label}");
    }

    // It runs, and everybody is told where.
    serve_at(&client, &story.control_plane, LOOPBACK).await;
    let deployment = story.api::<Deployment>();
    let deployment = deployment.get(&story.control_plane).await.unwrap();
    assert_eq!(
        image(&deployment),
        format!("{REGISTRY}/kube-apiserver:{OLD}")
    );
    let endpoint = json!({ "host": LOOPBACK, "port": port });
    let initialized = "/status/initialization/controlPlaneInitialized";
    let clusters = dynamic(&client, &scene::clusters());
    let what = "has a control plane";
    eventually(&clusters, CLUSTER, what, PATIENCE, |found| {
        found.is_some_and(|found| {
            found.data.pointer(initialized) == Some(&json!(true))
                && found.data["spec"]["controlPlaneEndpoint"] == endpoint
        })
    })
    .await;
    let infrastructure = story.api::<ButlerCluster>();
    let (name, what) = (&story.infrastructure, "is told");
    eventually(&infrastructure, name, what, PATIENCE, |found| {
        found.is_some_and(|found| json!(found.spec.control_plane_endpoint) == endpoint)
    })
    .await;

    // Cluster API looks again, finds all as it should be, and leaves to Steward what is Steward's.
    let rest = story.rest().await;
    let gate = json!([{ "conditionType": "Blessed" }]);
    story.change(json!({ "availabilityGates": gate })).await;
    let rest = story.rest_after(rest, 0).await;

    // More replicas, another version: each is one change, and what was set stays.
    let replicas = json!({ "topology": { "controlPlane": { "replicas": 3 } } });
    story.change(replicas).await;
    story
        .serve_when("has three replicas", |found| {
            let spec = found.spec.as_ref();
            spec.is_some_and(|spec| spec.replicas == Some(3))
        })
        .await;
    story
        .control_plane_when("counts three replicas", |found| {
            found["status"]["readyReplicas"] == 3
        })
        .await;
    let rest = story.rest_after(rest, 1).await;

    let version = json!({ "topology": { "version": NEW } });
    story.change(version).await;
    story
        .serve_when("is of the new version", |found| {
            image(found) == format!("{REGISTRY}/kube-apiserver:{NEW}")
        })
        .await;
    let upgraded = story
        .control_plane_when("runs the new version", |found| {
            found["status"]["version"] == NEW
        })
        .await;
    assert_eq!((&*upgraded.spec.version, upgraded.spec.replicas), (NEW, 3));
    assert_eq!(json!(upgraded.spec.control_plane_endpoint), endpoint);
    let rest = story.rest_after(rest, 1).await;

    // The class turns to another template, and its Clusters follow.
    let turned = json!({ "spec": { "controlPlane": control_plane_of(AFTER) } });
    let parameters = PatchParams::default();
    dynamic(&client, &classes())
        .patch(CLASS, &parameters, &Patch::Merge(turned))
        .await
        .unwrap();
    let services = story.api::<Service>();
    let (name, what) = (&story.control_plane, "is for everybody");
    eventually(&services, name, what, PATIENCE, |found| {
        let annotation = |found: &Service| found.annotations().get("example.com/audience").cloned();
        found.and_then(annotation).as_deref() == Some("everybody")
    })
    .await;
    let turned = story.control_plane_when("is the same", |_| true).await;
    assert_eq!((&*turned.spec.version, turned.spec.replicas), (NEW, 3));
    assert_eq!(turned.spec.settings.registry, REGISTRY);
    assert_eq!(json!(turned.spec.control_plane_endpoint), endpoint);
    story.rest_after(rest, 1).await;

    // With the Cluster goes what was made for it, and nothing of its class.
    clusters
        .delete(CLUSTER, &DeleteParams::default())
        .await
        .unwrap();
    let control_planes = story.api::<StewardControlPlane>();
    eventually_gone(&control_planes, &story.control_plane, PATIENCE).await;
    let tenants = story.api::<TenantControlPlane>();
    assert!(
        tenants
            .get_opt(&story.control_plane)
            .await
            .unwrap()
            .is_none()
    );
    eventually_gone(&clusters, CLUSTER, PATIENCE).await;
    let infrastructures = story.api::<ButlerCluster>();
    eventually_gone(&infrastructures, &story.infrastructure, PATIENCE).await;
    templates.get(AFTER).await.unwrap();
    dynamic(&client, &classes()).get(CLASS).await.unwrap();
    steward.begin();
}

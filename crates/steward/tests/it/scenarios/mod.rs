//! What people do with hosted control planes, on real servers: Steward with its real drivers, an etcd, and a node that runs
//! the API servers as their Deployments say.

mod additions;
mod admission;
mod changes;
mod expiry;
mod inside;
mod joining;
mod overrides;
mod sleeping;

use butler_api::{
    conditions::types,
    steward::{
        data_store::DataStore,
        tenant_control_plane::{
            ControlPlanePhase, TenantControlPlane, TenantControlPlaneStatus,
            status::resources::VersionState,
        },
    },
};
use butler_runtime::{conditions::holds, shutdown::Shutdown};
use butler_testkit::{ApiServer, Controllers, Options, eventually};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret, Service},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use steward::settings::Settings;

use crate::{
    etcd::Etcd,
    hosting::{LOOPBACK, PATIENCE, administrator, run_steward},
    node::Node,
    real::create,
    scene::{self, SYSTEM, TEAM, here},
};

/// A world with everything that hosts control planes. It goes when this is dropped.
struct World {
    node: Node,
    steward: Shutdown,
    client: Client,
    etcd: Etcd,
    _server: ApiServer,
}

impl Drop for World {
    fn drop(&mut self) {
        self.steward.begin();
    }
}

/// The parts of a control plane that serves on loopback, with one replica.
fn on_loopback(port: u16) -> Value {
    json!({
        "controlPlane": {
            "service": { "serviceType": "ClusterIP" }, "deployment": { "replicas": 1 },
        },
        "networkProfile": { "address": LOOPBACK, "port": port },
    })
}

/// What its status says of the version and the state in one word.
fn version(control_plane: &TenantControlPlane) -> VersionState {
    let status = control_plane.status.clone().unwrap_or_default();
    let resources = status.kubernetes_resources.unwrap_or_default();
    resources.version.unwrap_or_default()
}

impl World {
    async fn start() -> Self {
        let options = Options {
            controllers: Controllers::Housekeeping,
            ..Options::default()
        };
        Self::start_with(options).await
    }

    /// A world whose management cluster is of some kind.
    async fn start_with(options: Options) -> Self {
        let etcd = Etcd::start().await;
        let server = ApiServer::start(options).await.unwrap();
        let client = server.client_as("story");
        let namespaces = Api::<Namespace>::all(client.clone());
        for name in [SYSTEM, TEAM] {
            create(&namespaces, scene::namespace(name)).await;
        }
        let world = Self {
            node: Node::start(client.clone()),
            steward: run_steward(&server, &Settings::default()),
            client,
            etcd,
            _server: server,
        };
        world.add_store("default", &world.etcd).await;
        world
    }

    fn control_planes(&self) -> Api<TenantControlPlane> {
        Api::namespaced(self.client.clone(), TEAM)
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), TEAM)
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), TEAM)
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), TEAM)
    }

    fn stores(&self) -> Api<DataStore> {
        Api::all(self.client.clone())
    }

    async fn add_store(&self, name: &str, etcd: &Etcd) {
        let certificates = Api::<Secret>::namespaced(self.client.clone(), SYSTEM);
        create(&certificates, etcd.certificates(name)).await;
        let mut store = scene::store(name);
        store["spec"]["endpoints"] = json!([etcd.endpoint()]);
        create(&self.stores(), store).await;
    }

    /// Somebody asks for a control plane with these parts.
    async fn ask(&self, name: &str, parts: Value) {
        let body = scene::control_plane(&here(name), parts);
        create(&self.control_planes(), body).await;
    }

    /// Somebody changes parts of what they asked for.
    async fn edit(&self, name: &str, spec: &Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.control_planes()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until Steward has seen the newest wishes and the status is as it should be.
    async fn until(
        &self,
        name: &str,
        what: &str,
        mut is_so: impl FnMut(&TenantControlPlaneStatus) -> bool,
    ) -> TenantControlPlane {
        eventually(&self.control_planes(), name, what, PATIENCE, |found| {
            found.is_some_and(|found| {
                let status = found.status.as_ref();
                status.is_some_and(|status| {
                    status.observed_generation == found.metadata.generation && is_so(status)
                })
            })
        })
        .await
    }

    /// Waits until a control plane serves, with every pod of the newest kind and everything in it that nodes need.
    async fn ready(&self, name: &str) -> TenantControlPlane {
        let serves = |status: &TenantControlPlaneStatus| {
            let says = |type_: &str| holds(&status.conditions, type_);
            says(types::READY) && says(types::TENANT_CONFIGURED) && !says(types::ROLLING_OUT)
        };
        let ready = self.until(name, "is ready", serves).await;
        assert_eq!(version(&ready).status, ControlPlanePhase::Ready);
        ready
    }

    /// Waits until a Deployment is of some kind, and all that it asks for runs.
    async fn rolled_out(
        &self,
        name: &str,
        what: &str,
        mut is_so: impl FnMut(&Deployment) -> bool,
    ) -> Deployment {
        eventually(&self.deployments(), name, what, PATIENCE, |found| {
            found.is_some_and(|found| {
                let status = found.status.clone().unwrap_or_default();
                let wanted = found.spec.as_ref().and_then(|spec| spec.replicas);
                is_so(found)
                    && status.observed_generation == found.metadata.generation
                    && status.ready_replicas.unwrap_or_default() == wanted.unwrap_or(1)
            })
        })
        .await
    }

    /// The administrator of a tenant, by the kubeconfig that people are given.
    async fn administrator(&self, name: &str) -> Client {
        administrator(&self.client, name).await
    }
}

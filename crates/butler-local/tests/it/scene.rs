//! A cluster with a pool, machines, the controllers that grant addresses, and the network under test.

use std::{net::Ipv4Addr, sync::Arc};

use butler_api::{
    butler::{
        ip_allocation::IPAllocation, network_pool::NetworkPool, tenant_cluster::TenantCluster,
    },
    conditions::types,
    keys::names::SYSTEM_NAMESPACE,
};
use butler_controller::run::Arguments;
use butler_local::{Allocations, Cluster, ClusterNetwork, ClusterNetworkSettings};
use butler_runtime::{object::ObjectKey, shutdown::Shutdown, task};
use butler_testkit::{ApiServer, Options, eventually};
use k8s_openapi::api::{
    core::v1::{Namespace, Node, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::machines::{PATIENCE, ToyHands};

/// Who writes, as the audit log knows it.
pub(crate) const COMPONENT: &str = "butler-provider-local";
const POOL: &str = "local";
const NAMESPACE: &str = "default";

/// A process of the network, which can end and begin again.
struct Running {
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

pub(crate) struct Scene {
    pub(crate) server: ApiServer,
    pub(crate) hands: Arc<ToyHands>,
    network: Option<Running>,
    controller: Running,
}

pub(crate) fn machine_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 213, 76, number)
}

fn object<K: DeserializeOwned>(body: Value) -> K {
    serde_json::from_value(body).unwrap()
}

impl Scene {
    /// Three machines that are nodes, and nothing else; the pool has five addresses.
    pub(crate) async fn set() -> Self {
        let server = ApiServer::start(Options::default()).await.unwrap();
        let hands = Arc::new(ToyHands::new());
        let arguments = Arguments {
            kubeconfig: Some(server.kubeconfig().to_owned()),
            metrics_bind_address: "0".parse().unwrap(),
            health_probe_bind_address: "0".parse().unwrap(),
            leader_elect: false,
            leader_election_namespace: NAMESPACE.to_owned(),
            ip_orphan_grace_period: PATIENCE,
            max_concurrent_tc_reconciles: 1,
            enable_webhooks: false,
            webhook_port: 0,
            webhook_url: None,
            enable_kamaji_controllers: false,
            metrics_require_authorization: false,
        };
        let shutdown = Shutdown::new();
        let running = shutdown.clone();
        let task = task::spawn("controller", async {
            Box::pin(butler_controller::run::run(arguments, "0.0.0", running))
                .await
                .unwrap();
        });
        let mut scene = Self {
            server,
            hands,
            network: None,
            controller: Running { shutdown, task },
        };
        let system = json!({ "metadata": { "name": SYSTEM_NAMESPACE } });
        let namespaces = Api::<Namespace>::all(scene.server.client_as("story"));
        create(&namespaces, system).await;
        let pools: Api<NetworkPool> = scene.api_in(SYSTEM_NAMESPACE);
        let pool = json!({
            "metadata": { "name": POOL },
            "spec": {
                "cidr": "10.213.76.0/24",
                "tenantAllocation": { "ranges": [{ "start": "10.213.76.100", "end": "10.213.76.104" }] },
            },
        });
        create(&pools, pool).await;
        for number in 1..=3 {
            scene
                .hands
                .add(&format!("m{number}"), machine_address(number));
            scene.join(number).await;
        }
        scene.begin();
        scene
    }

    /// The network begins its work, as that of the management cluster.
    pub(crate) fn begin(&mut self) {
        self.begin_as(Cluster::Management {
            pool: ObjectKey::namespaced(SYSTEM_NAMESPACE, POOL),
        });
    }

    /// The network begins its work.
    pub(crate) fn begin_as(&mut self, cluster: Cluster) {
        let allocations = Allocations::default();
        let settings = ClusterNetworkSettings {
            cluster,
            cluster_client: self.server.client_as(COMPONENT),
            management_client: self.server.client_as(COMPONENT),
            allocations: allocations.clone(),
            hands: Arc::clone(&self.hands),
            manager: COMPONENT.to_owned(),
        };
        let shutdown = Shutdown::new();
        let network = ClusterNetwork::run(settings, shutdown.clone());
        let management = self.server.client_as(COMPONENT);
        let task = task::spawn("network", async move {
            tokio::select! {
                () = network => {}
                () = allocations.keep(management) => {}
            }
        });
        self.network = Some(Running { shutdown, task });
    }

    /// The process ends; machines stay as they are.
    pub(crate) async fn end(&mut self) {
        if let Some(Running { shutdown, task }) = self.network.take() {
            shutdown.begin();
            task.await.unwrap();
        }
    }

    /// All is over, and nothing went wrong on the way.
    pub(crate) async fn close(mut self) {
        self.end().await;
        self.controller.shutdown.begin();
        self.controller.task.await.unwrap();
        assert_eq!(self.hands.now().mistakes, Vec::<String>::new());
    }

    fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.server.client_as("story"), namespace)
    }

    pub(crate) fn services(&self) -> Api<Service> {
        self.api_in(NAMESPACE)
    }

    pub(crate) fn allocations(&self) -> Api<IPAllocation> {
        self.api_in(SYSTEM_NAMESPACE)
    }

    /// A tenant cluster that nobody works on.
    pub(crate) async fn add_tenant(&self, name: &str) {
        let tenant = json!({
            "metadata": { "name": name, "annotations": { "butler.butlerlabs.dev/paused": "true" } },
            "spec": { "kubernetesVersion": "v1.36.3", "workers": { "replicas": 0 } },
        });
        create(&self.api_in::<TenantCluster>(NAMESPACE), tenant).await;
    }

    /// The tenant cluster is granted so many addresses for its Services.
    pub(crate) async fn grant(&self, tenant: &str, name: &str, count: u8) {
        let range = json!({
            "metadata": { "name": name },
            "spec": {
                "poolRef": { "name": POOL },
                "tenantClusterRef": { "name": tenant, "namespace": NAMESPACE },
                "type": "loadbalancer",
                "count": count,
            },
        });
        create(&self.allocations(), range).await;
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.server.client_as("story"))
    }

    /// A machine becomes a node that is ready and has pods.
    pub(crate) async fn join(&self, number: u8) {
        let name = format!("n{number}");
        let node = json!({
            "metadata": { "name": name },
            "spec": { "podCIDR": format!("10.244.{number}.0/24"), "podCIDRs": [format!("10.244.{number}.0/24")] },
        });
        create(&self.nodes(), node).await;
        let addresses =
            json!([{ "type": "InternalIP", "address": machine_address(number).to_string() }]);
        let status = json!({ "status": { "addresses": addresses } });
        self.patch_node_status(&name, &status).await;
        self.set_ready(&name, true).await;
    }

    /// What the kubelet, or whoever misses it, says of a node.
    pub(crate) async fn set_ready(&self, node: &str, ready: bool) {
        self.set_ready_since(node, ready, "2026-01-01T00:00:00Z")
            .await;
    }

    /// The same, since then.
    pub(crate) async fn set_ready_since(&self, node: &str, ready: bool, since: &str) {
        let status = if ready { "True" } else { "Unknown" };
        let condition = json!({
            "type": "Ready",
            "status": status,
            "reason": "Story",
            "lastTransitionTime": since,
        });
        let body = json!({ "status": { "conditions": [condition] } });
        self.patch_node_status(node, &body).await;
    }

    async fn patch_node_status(&self, node: &str, body: &Value) {
        let patched = self
            .nodes()
            .patch_status(node, &PatchParams::default(), &Patch::Strategic(body))
            .await;
        patched.unwrap();
    }

    /// A Service with a load balancer, and more in its spec.
    pub(crate) async fn serve(&self, name: &str, more: Value) {
        let mut spec = json!({
            "type": "LoadBalancer",
            "selector": { "app": name },
            "ports": [{ "port": 80 }],
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let service = json!({ "metadata": { "name": name }, "spec": spec });
        create(&self.services(), service).await;
    }

    pub(crate) async fn patch_service(&self, name: &str, patch: Value) {
        let patched = self
            .services()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap();
    }

    pub(crate) async fn delete_service(&self, name: &str) {
        let deleted = self.services().delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }

    /// Endpoints of a Service on these nodes, and on no other.
    pub(crate) async fn set_endpoints(&self, service: &str, nodes: &[&str]) {
        let endpoint = |node: &&str| json!({ "addresses": ["10.244.9.9"], "nodeName": node, "conditions": { "ready": true } });
        let endpoints: Vec<_> = nodes.iter().map(endpoint).collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": { "name": service, "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4",
            "endpoints": endpoints,
        });
        let slices: Api<EndpointSlice> = self.api_in(NAMESPACE);
        let parameters = PatchParams::apply("story").force();
        slices
            .patch(service, &parameters, &Patch::Apply(slice))
            .await
            .unwrap();
    }

    /// Waits until the Service shows an address, and gives it.
    pub(crate) async fn address_of(&self, service: &str) -> Ipv4Addr {
        let shows = |found: Option<&Service>| found.and_then(ingress).is_some();
        let services = self.services();
        let found = eventually(&services, service, "shows an address", PATIENCE, shows).await;
        ingress(&found).unwrap()
    }

    /// Waits until the Service says this of its load balancer.
    pub(crate) async fn until_told(&self, service: &str, reason: &str, message: &str) -> Service {
        let told = |found: Option<&Service>| {
            let condition = found.and_then(condition);
            condition.is_some_and(|(found, words)| found == reason && words.contains(message))
        };
        let what = format!("says {reason}: {message}");
        eventually(&self.services(), service, &what, PATIENCE, told).await
    }
}

/// The address that a Service shows.
pub(crate) fn ingress(service: &Service) -> Option<Ipv4Addr> {
    let balancer = service.status.as_ref()?.load_balancer.as_ref()?;
    balancer
        .ingress
        .as_ref()?
        .first()?
        .ip
        .as_ref()?
        .parse()
        .ok()
}

/// Reason and message of what is said of a Service's load balancer.
pub(crate) fn condition(service: &Service) -> Option<(String, String)> {
    let conditions = service.status.as_ref()?.conditions.as_ref()?;
    let told = conditions
        .iter()
        .find(|condition| condition.type_ == types::LOAD_BALANCER_READY)?;
    Some((told.reason.clone(), told.message.clone()))
}

async fn create<K>(api: &Api<K>, body: Value)
where
    K: Resource<DynamicType: Default> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let made = api.create(&PostParams::default(), &object(body)).await;
    made.unwrap();
}

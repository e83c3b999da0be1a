//! One tenant cluster from its creation to its end, seen as its owner sees it.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::Context;
use butler_api::{
    butler::{machine_request::MachineRequest, tenant_cluster::TenantCluster},
    conditions::types,
};
use butler_runtime::conditions::holds;
use butler_testkit::{try_eventually, try_eventually_all, try_eventually_gone};
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};

use super::rest::{self, Rest};
use crate::{
    local::{installation::is_ready, shell::PATIENCE},
    steward::readiness::Door,
    tenants::{bars::WORKERS, scene},
};

/// How long a cluster took, each from its creation but for the last.
pub(super) struct Life {
    /// Its API server is ready.
    pub(super) serves: Duration,
    /// All of its machines are asked for.
    pub(super) machines: Duration,
    /// Its workers are Ready.
    pub(super) workers: Duration,
    /// Its status says so.
    pub(super) told: Duration,
    /// From its deletion until nothing of it is left.
    pub(super) gone: Duration,
}

impl fmt::Display for Life {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "by Butler: /readyz {:.2?}, machines asked for {:.2?}, workers Ready {:.2?}, status Ready {:.2?}; gone {:.2?} after \
             its deletion",
            self.serves, self.machines, self.workers, self.told, self.gone
        )
    }
}

/// A cluster that has come.
struct Opened {
    /// Its administrator.
    tenant: Client,
    /// When its API server was ready.
    serves: Instant,
    /// When its workers were.
    workers: Instant,
}

/// The management cluster.
pub(super) struct Management {
    client: Client,
    clusters: Api<TenantCluster>,
}

impl Management {
    /// By its administrator.
    pub(super) fn of(client: Client) -> Self {
        Self {
            clusters: Api::namespaced(client.clone(), scene::NAMESPACE),
            client,
        }
    }

    /// Has a cluster made and removed; and watches it at rest in between, if it is told for how long.
    pub(super) async fn live(
        &self,
        name: &str,
        window: Option<Duration>,
    ) -> anyhow::Result<(Life, Option<Rest>)> {
        let began = Instant::now();
        self.clusters
            .create(&PostParams::default(), &scene::cluster(name)?)
            .await
            .with_context(|| format!("could not create the tenant cluster {name}"))?;
        let coming = async {
            let namespace = self.namespace(name).await?;
            let (opened, machines) = tokio::try_join!(
                Box::pin(self.opened(&namespace, name)),
                Box::pin(self.machines(&namespace))
            )?;
            anyhow::Ok((namespace, opened, machines))
        };
        let coming = async {
            match Box::pin(coming).await {
                Err(error) => Err(error.context(self.words(name).await)),
                well => well,
            }
        };
        let ((namespace, opened, machines), told) =
            tokio::try_join!(coming, Box::pin(self.told(name)))?;
        let rest = match window {
            Some(window) => {
                let scene = rest::Scene::of(self.client.clone(), opened.tenant, &namespace);
                Some(Box::pin(scene.await?.watch(window)).await?)
            }
            None => None,
        };

        let deleted = Instant::now();
        self.clusters
            .delete(name, &DeleteParams::default())
            .await
            .with_context(|| format!("could not delete the tenant cluster {name}"))?;
        try_eventually_gone(&self.clusters, name, PATIENCE).await?;
        let namespaces = Api::<Namespace>::all(self.client.clone());
        try_eventually_gone(&namespaces, &namespace, PATIENCE).await?;
        let since = |then: Instant| then.duration_since(began);
        let life = Life {
            serves: since(opened.serves),
            machines: since(machines),
            workers: since(opened.workers),
            told: since(told),
            gone: deleted.elapsed(),
        };
        Ok((life, rest))
    }

    /// Where everything of a cluster is, as soon as it is known.
    async fn namespace(&self, name: &str) -> anyhow::Result<String> {
        let named = |found: &TenantCluster| found.status.as_ref()?.tenant_namespace.clone();
        let found = try_eventually(&self.clusters, name, "has a namespace", PATIENCE, |found| {
            found.is_some_and(|found| named(found).is_some())
        });
        named(&found.await?).context("the namespace of a tenant cluster is gone")
    }

    async fn opened(&self, namespace: &str, name: &str) -> anyhow::Result<Opened> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let door = Door::of_control_plane(&secrets, name).await?;
        let serves = door.opens().await?;
        let nodes = Api::<Node>::all(door.client());
        let what = format!("{WORKERS} nodes are Ready");
        try_eventually_all(&nodes, "", &what, PATIENCE, |nodes| {
            nodes.iter().filter(|node| is_ready(Some(node))).count() == WORKERS
        })
        .await?;
        Ok(Opened {
            tenant: door.client(),
            serves,
            workers: Instant::now(),
        })
    }

    async fn machines(&self, namespace: &str) -> anyhow::Result<Instant> {
        let requests = Api::<MachineRequest>::namespaced(self.client.clone(), namespace);
        let what = format!("{WORKERS} machines are asked for");
        try_eventually_all(&requests, "", &what, PATIENCE, |requests| {
            requests.len() == WORKERS
        })
        .await?;
        Ok(Instant::now())
    }

    async fn told(&self, name: &str) -> anyhow::Result<Instant> {
        try_eventually(&self.clusters, name, "is Ready", PATIENCE, |found| {
            let status = found.and_then(|found| found.status.as_ref());
            status.is_some_and(|status| holds(&status.conditions, types::READY))
        })
        .await?;
        Ok(Instant::now())
    }

    /// What a cluster says of itself.
    async fn words(&self, name: &str) -> String {
        let found = self.clusters.get(name).await.ok();
        let status = found.and_then(|found| found.status);
        let conditions = status.map(|status| status.conditions).unwrap_or_default();
        let mut ready = conditions.iter();
        let ready = ready.find(|condition| condition.type_ == types::READY);
        let words = ready.map_or("nothing", |ready| ready.message.as_str());
        format!("the tenant cluster {name} says: {words}")
    }
}

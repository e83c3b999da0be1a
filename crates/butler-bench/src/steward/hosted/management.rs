//! The management cluster: control planes come, serve and go, each seen as its owner sees it.

use std::time::{Duration, Instant};

use anyhow::Context;
use butler_api::{
    conditions::types,
    keys::{annotations, names},
    steward::{data_store::DataStore, tenant_control_plane::TenantControlPlane},
};
use butler_runtime::conditions::holds;
use butler_testkit::{Waitable, try_eventually, try_eventually_all};
use futures::future::try_join_all;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{Namespace, Pod, Secret, Service},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    local::shell::PATIENCE,
    steward::{
        manifests::{Wanted, control_plane},
        readiness::Door,
    },
};

/// Where all control planes are; nothing else is there.
const NAMESPACE: &str = "bench-steward";
/// Where their API servers listen.
const PORT: u16 = 6443;

/// How a control plane came up.
pub(super) struct Birth {
    /// From its creation to `/readyz` through its Service.
    pub(super) took: Duration,
    /// Seconds from `/readyz` to the status that says so; negative if the status was first.
    pub(super) status_after: f64,
    ready: Instant,
}

/// How long it took until control planes were gone.
pub(super) struct Removal {
    /// How many there were.
    pub(super) count: usize,
    /// They themselves.
    pub(super) control_planes: Duration,
    /// And all that was made for them, pods included.
    pub(super) everything: Duration,
}

/// The cluster.
pub(super) struct Management {
    client: Client,
}

impl Management {
    /// Waits until it can host control planes.
    pub(super) async fn of(client: Client) -> anyhow::Result<Self> {
        let stores = Api::<DataStore>::all(client.clone());
        let name = names::DEFAULT_DATA_STORE;
        try_eventually(&stores, name, "is ready", PATIENCE, |found| {
            let status = found.and_then(|found| found.status.as_ref());
            status.is_some_and(|status| holds(&status.conditions, types::READY))
        })
        .await
        .context("butleradm up has left no data store for control planes")?;
        let body = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        });
        let namespaces = Api::<Namespace>::all(client.clone());
        namespaces
            .create(&PostParams::default(), &serde_json::from_value(body)?)
            .await
            .context("could not make a namespace for control planes")?;
        Ok(Self { client })
    }

    /// Objects of a kind, all of which belong to control planes.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Asks Steward for a control plane.
    pub(super) async fn create(&self, name: &str, wanted: Wanted) -> anyhow::Result<()> {
        let body = control_plane(name, wanted, PORT)?;
        let created = self.api().create(&PostParams::default(), &body).await;
        created
            .map(drop)
            .with_context(|| format!("could not create the control plane {name}"))
    }

    /// Waits until a condition of a control plane holds.
    pub(super) async fn until(&self, name: &str, condition: &str) -> anyhow::Result<Instant> {
        let control_planes = self.api::<TenantControlPlane>();
        let seen = try_eventually(&control_planes, name, condition, PATIENCE, |found| {
            let status = found.and_then(|found| found.status.as_ref());
            status.is_some_and(|status| holds(&status.conditions, condition))
        });
        seen.await?;
        Ok(Instant::now())
    }

    /// Waits until a control plane has what nodes need.
    pub(super) async fn configured(&self, name: &str) -> anyhow::Result<()> {
        self.until(name, types::TENANT_CONFIGURED).await.map(drop)
    }

    /// The way to a control plane, by the kubeconfig that its administrator is given: through its Service.
    pub(super) async fn door(&self, name: &str) -> anyhow::Result<Door> {
        Door::of_control_plane(&self.api::<Secret>(), name).await
    }

    /// Has Steward make a control plane, and waits until it serves and its status says so.
    pub(super) async fn born(&self, name: &str) -> anyhow::Result<Birth> {
        let began = Instant::now();
        self.create(name, Wanted::Awake).await?;
        let opened = async { self.door(name).await?.opens().await };
        let (ready, said) = tokio::try_join!(opened, self.until(name, types::READY))?;
        let status_after = if said < ready {
            -ready.duration_since(said).as_secs_f64()
        } else {
            said.duration_since(ready).as_secs_f64()
        };
        Ok(Birth {
            took: ready.duration_since(began),
            status_after,
            ready,
        })
    }

    /// Has Steward make several at once, and tells how long it took until the last one served.
    pub(super) async fn born_together(&self, names: &[String]) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let births = try_join_all(names.iter().map(|name| self.born(name))).await?;
        let last = births.into_iter().map(|birth| birth.ready).max();
        Ok(last.unwrap_or(began).duration_since(began))
    }

    /// Deletes all control planes, those that were paused too, and waits until nothing of them is left.
    pub(super) async fn clear(&self) -> anyhow::Result<Removal> {
        let control_planes = self.api::<TenantControlPlane>();
        let all = control_planes.list(&ListParams::default()).await?.items;
        let paused = all.iter().filter(|found| {
            found
                .annotations()
                .contains_key(annotations::STEWARD_PAUSED)
        });
        for found in paused {
            self.pause(&found.name_any(), false).await?;
        }
        let began = Instant::now();
        let parameters = DeleteParams::default();
        let names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
        let deleting = names
            .iter()
            .map(|name| control_planes.delete(name, &parameters));
        try_join_all(deleting)
            .await
            .context("could not delete a control plane")?;
        let (gone, deployments, services, secrets, pods) = tokio::try_join!(
            Box::pin(self.gone::<TenantControlPlane>()),
            Box::pin(self.gone::<Deployment>()),
            Box::pin(self.gone::<Service>()),
            Box::pin(self.gone::<Secret>()),
            Box::pin(self.gone::<Pod>()),
        )?;
        let times = [gone, deployments, services, secrets, pods];
        let last = times.into_iter().max().unwrap_or(gone);
        Ok(Removal {
            count: all.len(),
            control_planes: gone.duration_since(began),
            everything: last.duration_since(began),
        })
    }

    /// Has Steward leave a control plane alone, or go on with it.
    pub(super) async fn pause(&self, name: &str, paused: bool) -> anyhow::Result<()> {
        let value = paused.then_some("");
        let body = json!({ "metadata": { "annotations": { annotations::STEWARD_PAUSED: value } } });
        let control_planes = self.api::<TenantControlPlane>();
        control_planes
            .patch(name, &PatchParams::default(), &Patch::Merge(body))
            .await
            .with_context(|| format!("could not pause the control plane {name}"))?;
        Ok(())
    }

    async fn gone<K>(&self) -> anyhow::Result<Instant>
    where
        K: Waitable + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        try_eventually_all(
            &self.api::<K>(),
            "",
            "all are gone",
            PATIENCE,
            <[K]>::is_empty,
        )
        .await?;
        Ok(Instant::now())
    }
}

//! Many control planes that are objects only: what Steward needs for each when nothing else takes the machine.
//!
//! The API server, the etcd with a user and a part for each tenant, and the process of Steward are real. Pods are played. One
//! real API server stands for all tenants: they all have its authority, so Steward connects to each with a certificate of its
//! own, and brings its inside in step. Everything is on loopback.

use std::time::{Duration, Instant};

use ::steward::{names::SecretRole, run::COMPONENT};
use anyhow::Context;
use butler_api::{
    conditions::types,
    keys::{labels, names, secret_keys, values},
    steward::{data_store::DataStore, tenant_control_plane::TenantControlPlane},
};
use butler_pki::Authority;
use butler_runtime::conditions::holds;
use butler_testkit::{ApiServer, Options, try_eventually_all};
use futures::{TryStreamExt, stream};
use k8s_openapi::{
    ByteString,
    api::{coordination::v1::Lease, core::v1::Secret},
};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tokio::time::sleep;

use super::{
    bare::BareServers,
    bars,
    manifests::{Wanted, control_plane},
    played,
    store::Store,
};
use crate::{
    fleet::USER_AGENT,
    laboratory, progress,
    replica::{Replica, Role},
    report::{Row, Unit, number},
    upkeep::{Rest, Size, memory_rows},
};

/// Where everything is.
const NAMESPACE: &str = "default";
/// How long the largest step may take.
const PATIENCE: Duration = Duration::from_mins(15);
/// Requests under way at the same time when objects are created.
const TOGETHER: usize = 8;
/// What is at rest is looked at after its last echoes.
const CALM: Duration = Duration::from_secs(5);
/// Writes that Steward is spared because each authority is brought; else it would make it.
const SPARED: f64 = 1.0;
/// Room for every Service.
const SERVICES: &str = "--service-cluster-ip-range=10.0.0.0/16";

/// Measures Steward alone.
pub(super) async fn measure(window: Duration) -> anyhow::Result<Vec<Row>> {
    let butler = laboratory::butler()?;
    progress("starting an API server, an etcd and an API server that stands for all tenants");
    let server = ApiServer::start(Options {
        apiserver_flags: vec![SERVICES.to_owned()],
        ..Options::default()
    })
    .await
    .context("could not start an API server (`cargo xtask assets` provides its binaries)")?;
    let store = Store::start().await?;
    let mut tenants = BareServers::prepare(&store, "tenants", 1).await?;
    tenants.start().await?;

    let client = server.client_as(USER_AGENT);
    let (secret, data_store) = store.objects(NAMESPACE)?;
    Api::<Secret>::default_namespaced(client.clone())
        .create(&PostParams::default(), &secret)
        .await?;
    Api::<DataStore>::all(client.clone())
        .create(&PostParams::default(), &data_store)
        .await?;
    let steward = Replica::start(&butler, &server, Role::Steward, "steward")?;
    steward
        .leads(&Api::<Lease>::default_namespaced(client.clone()))
        .await?;
    let fleet = Fleet {
        server: &server,
        steward: &steward,
        tenants: &tenants,
        client: client.clone(),
    };
    let rows = tokio::select! {
        rows = Box::pin(fleet.grow(window)) => rows?,
        failed = played::play(client) => return Err(failed),
    };
    steward.ask_to_stop().await?;
    steward.ended().await?;
    Ok(rows)
}

struct Fleet<'servers> {
    server: &'servers ApiServer,
    steward: &'servers Replica,
    tenants: &'servers BareServers,
    client: Client,
}

impl Fleet<'_> {
    async fn grow(&self, window: Duration) -> anyhow::Result<Vec<Row>> {
        sleep(CALM).await;
        let process = self.steward.process()?;
        let mut sizes = vec![Size {
            count: 0,
            memory: process.memory()?,
        }];
        let (mut settling, mut writes, mut created) = (Duration::ZERO, 0, 0);
        for count in bars::OBJECTS {
            let before = sizes.last().map_or(0, |size| size.count);
            progress(&format!(
                "control planes as objects only: from {before} to {count}"
            ));
            let (mark, began) = (self.server.audit().mark(), Instant::now());
            self.create(before, count).await?;
            self.settled(count).await?;
            settling = began.elapsed();
            sleep(CALM).await;
            let requests = self.server.audit().since(mark).by_user_agent(COMPONENT);
            writes = requests.writes().except_resource("leases").count();
            created = count - before;
            sizes.push(Size {
                count,
                memory: process.memory()?,
            });
        }
        let mut rows = vec![
            Row::seconds(
                format!("objects only: {created} more, first create → all settled"),
                settling,
            ),
            Row::new(
                format!("objects only: API writes for each of {created}"),
                number(writes) / number(created) + SPARED,
                Unit::Count,
            )
            .held_to(bars::WRITES_EACH),
        ];
        rows.extend(self.rest(window).await?);
        rows.extend(memory_rows("objects only", &sizes, bars::memory));
        Ok(rows)
    }

    async fn create(&self, from: usize, to: usize) -> anyhow::Result<()> {
        let (port, authority) = (self.tenants.port()?, self.tenants.authority());
        let secrets = &Api::<Secret>::default_namespaced(self.client.clone());
        let control_planes = &Api::<TenantControlPlane>::default_namespaced(self.client.clone());
        let numbers = stream::iter((from..to).map(anyhow::Ok));
        let created = numbers.try_for_each_concurrent(TOGETHER, |number| async move {
            let (name, parameters) = (format!("objects-{number:03}"), PostParams::default());
            let brought = own_authority(&name, authority)?;
            secrets.create(&parameters, &brought).await?;
            let body = control_plane(&name, Wanted::Awake, port)?;
            control_planes.create(&parameters, &body).await?;
            Ok(())
        });
        created.await.context("could not create a control plane")
    }

    /// Waits until all serve and have what nodes need.
    async fn settled(&self, count: usize) -> anyhow::Result<()> {
        let control_planes = Api::<TenantControlPlane>::default_namespaced(self.client.clone());
        let what = format!("all {count} are settled");
        let all = try_eventually_all(&control_planes, "", &what, PATIENCE, |all| {
            all.len() == count && all.iter().all(is_settled)
        });
        all.await.map(drop).map_err(|unmet| {
            // All of them would be some thousand lines.
            let report = unmet.to_string();
            let beginning = report.lines().next().unwrap_or_default().to_owned();
            anyhow::anyhow!(
                "{beginning}; the log of Steward:\n{}",
                self.steward.log_end()
            )
        })
    }

    /// What is done while nothing happens.
    async fn rest(&self, window: Duration) -> anyhow::Result<Vec<Row>> {
        let seconds = window.as_secs();
        progress(&format!("watching them at rest for {seconds} s"));
        let rest = Rest::of(self.server, self.steward, COMPONENT, window).await?;
        Ok(vec![
            Row::count(
                format!("objects only: writes in {seconds} s at rest, leases excepted"),
                rest.writes,
            )
            .held_to(bars::WRITES_AT_REST),
            Row::new(
                format!("objects only: CPU in {seconds} s at rest"),
                rest.cpu,
                Unit::PercentOfCore,
            ),
        ])
    }
}

/// The Secret by which somebody brings an authority of their own: that of the one API server which stands for all. It is
/// labelled, so that Steward knows it from the start.
fn own_authority(name: &str, authority: &Authority) -> anyhow::Result<Secret> {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let certificate = bytes(authority.certificate_pem());
    let key = bytes(authority.key_pem().expose());
    let body = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": format!("{name}{}", names::CERTIFICATE_AUTHORITY_SUFFIX),
            "labels": {
                labels::STEWARD_PROJECT: values::STEWARD_PROJECT,
                labels::STEWARD_NAME: name,
                labels::STEWARD_COMPONENT: SecretRole::Authority.as_str(),
            },
        },
        "data": {
            "ca.crt": certificate, "ca.key": key,
            secret_keys::TLS_CERTIFICATE: certificate, secret_keys::TLS_KEY: key,
        },
    });
    Ok(serde_json::from_value(body)?)
}

fn is_settled(control_plane: &TenantControlPlane) -> bool {
    let status = control_plane.status.as_ref();
    status.is_some_and(|status| {
        [types::READY, types::TENANT_CONFIGURED]
            .iter()
            .all(|condition| holds(&status.conditions, condition))
    })
}

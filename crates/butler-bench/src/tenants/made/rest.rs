//! A tenant cluster that nobody touches: what Butler writes meanwhile, in the management cluster and in the tenant, and what
//! both ends of the tunnel between them cost.
//!
//! Two components count their requests, and the numbers tell of every one that would change something. Who has no numbers here,
//! the process on the host and the tunnel, is known by what is written: every object keeps in its managed fields who changed
//! it last, and when.

use std::time::{Duration, Instant};

use ::steward::run::COMPONENT as STEWARD;
use anyhow::Context;
use butler_api::keys::field_managers;
use butler_controller::run::COMPONENT as CONTROLLER;
use butler_testkit::try_eventually;
use butler_tunnel::manifests::names;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, ObjectMeta},
    discovery::{ApiGroup, Discovery, verbs},
};
use tokio::time::sleep;

use crate::{
    local::shell::PATIENCE,
    process::Process,
    progress,
    report::{Row, Unit},
    tenants::{
        bars::{WORKERS, WRITES_AT_REST},
        scene::LOCAL,
    },
    watched::{Watched, process_in},
};

/// What is at rest is looked at after its last echoes: pods of a new cluster start, and each has a status.
const CALM: Duration = Duration::from_secs(20);
/// Managed fields have whole seconds.
const SECOND: Duration = Duration::from_secs(1);
/// What is renewed all the time, by design.
const NOT_COUNTED: &str = "Lease";

/// Where a tenant is watched.
pub(super) struct Scene<'names> {
    management: Client,
    tenant: Client,
    namespace: &'names str,
    components: Vec<Watched>,
}

/// What one end of the tunnel costs at rest.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// MiB of its process.
    resident: f64,
    /// MiB that its container cannot do without.
    working_set: f64,
    /// Percent of a core.
    cpu: f64,
}

/// What was seen of a tenant at rest.
pub(super) struct Rest {
    window: Duration,
    /// Requests of components that change something.
    writes: Vec<(&'static str, usize)>,
    /// Objects that one of ours has changed.
    touched: Vec<String>,
    servers: Vec<Cost>,
    agents: Vec<Cost>,
}

impl<'names> Scene<'names> {
    /// A tenant that has all of its workers.
    pub(super) async fn of(
        management: Client,
        tenant: Client,
        namespace: &'names str,
    ) -> anyhow::Result<Self> {
        let mut components = Vec::new();
        for component in [CONTROLLER, STEWARD] {
            components.push(Watched::of(management.clone(), component).await?);
        }
        Ok(Self {
            management,
            tenant,
            namespace,
            components,
        })
    }

    /// Leaves it alone for so long, and tells what happened all the same.
    pub(super) async fn watch(&self, window: Duration) -> anyhow::Result<Rest> {
        let servers = self.servers().await?;
        let agents = self.agents().await?;
        sleep(CALM).await;
        progress(&format!(
            "watching a tenant cluster at rest for {} s",
            window.as_secs()
        ));
        let before = self.writes().await?;
        let began = Timestamp::now();
        sleep(SECOND).await;
        let (servers, agents) = (Meter::of(servers)?, Meter::of(agents)?);
        sleep(window).await;
        let (servers, agents) = (Meter::read(&servers)?, Meter::read(&agents)?);
        let after = self.writes().await?;
        let counted = before
            .into_iter()
            .zip(after)
            .map(|((component, before), (_, after))| (component, after.saturating_sub(before)));
        let mut touched = written(&self.management, "management cluster", began).await?;
        touched.extend(written(&self.tenant, "tenant", began).await?);
        for words in &touched {
            progress(&format!("written at rest: {words}"));
        }
        Ok(Rest {
            window,
            writes: counted.collect(),
            touched,
            servers,
            agents,
        })
    }

    async fn writes(&self) -> anyhow::Result<Vec<(&'static str, usize)>> {
        let mut writes = Vec::new();
        for component in &self.components {
            writes.push((component.component(), component.writes().await?));
        }
        Ok(writes)
    }

    /// The ends of the tunnel beside the API servers.
    async fn servers(&self) -> anyhow::Result<Vec<Process>> {
        let pods = Api::<Pod>::namespaced(self.management.clone(), self.namespace);
        let pods = pods.list(&ListParams::default()).await?.items;
        let has_server = |pod: &&Pod| {
            let spec = pod.spec.as_ref();
            let mut all = spec.into_iter().flat_map(|spec| {
                let sidecars = spec.init_containers.iter().flatten();
                spec.containers.iter().chain(sidecars)
            });
            all.any(|container| container.name == names::SERVER)
        };
        let servers = pods.iter().filter(has_server);
        servers.map(|pod| process_in(pod, names::SERVER)).collect()
    }

    /// The ends of the tunnel on the nodes, as soon as all of them are there.
    async fn agents(&self) -> anyhow::Result<Vec<Process>> {
        let workloads = Api::<DaemonSet>::namespaced(self.tenant.clone(), names::AGENT_NAMESPACE);
        let wanted = i32::try_from(WORKERS)?;
        try_eventually(&workloads, names::AGENT, "is ready", PATIENCE, |found| {
            let status = found.and_then(|found| found.status.as_ref());
            status.is_some_and(|status| status.number_ready == wanted)
        })
        .await?;
        let selector = format!("app.kubernetes.io/name={}", names::AGENT);
        let pods = Api::<Pod>::namespaced(self.tenant.clone(), names::AGENT_NAMESPACE);
        let pods = pods.list(&ListParams::default().labels(&selector)).await?;
        let agents = pods.items.iter();
        agents.map(|pod| process_in(pod, names::AGENT)).collect()
    }
}

/// A process whose time is taken.
struct Meter {
    process: Process,
    before: Duration,
    began: Instant,
}

impl Meter {
    fn of(processes: Vec<Process>) -> anyhow::Result<Vec<Self>> {
        let begun = processes.into_iter().map(|process| {
            Ok(Self {
                before: process.cpu_time()?,
                began: Instant::now(),
                process,
            })
        });
        begun.collect()
    }

    fn read(meters: &[Self]) -> anyhow::Result<Vec<Cost>> {
        let costs = meters.iter().map(|meter| {
            let used = meter.process.cpu_time()?.saturating_sub(meter.before);
            Ok(Cost {
                resident: meter.process.memory()?,
                working_set: meter.process.working_set()?,
                cpu: used.as_secs_f64() / meter.began.elapsed().as_secs_f64() * 100.0,
            })
        });
        costs.collect()
    }
}

/// What one of ours has changed in a cluster since a moment, leases excepted.
async fn written(client: &Client, place: &str, since: Timestamp) -> anyhow::Result<Vec<String>> {
    let kinds = Discovery::new(client.clone()).run().await?;
    let kinds = kinds.groups().flat_map(ApiGroup::recommended_resources);
    let mut touched = Vec::new();
    for (kind, capabilities) in kinds {
        if kind.kind == NOT_COUNTED || !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let objects = Api::<DynamicObject>::all_with(client.clone(), &kind);
        let objects = objects.list_metadata(&ListParams::default()).await;
        let objects = objects.with_context(|| format!("could not list each {}", kind.kind))?;
        for object in objects.items {
            let (kind, name) = (&kind.kind, object.name_any());
            let writers = writers(&object.metadata, since);
            touched.extend(writers.map(|writer| format!("{place}: {kind} {name} by {writer}")));
        }
    }
    Ok(touched)
}

/// Which of ours have changed an object since a moment.
fn writers(metadata: &ObjectMeta, since: Timestamp) -> impl Iterator<Item = &str> {
    let entries = metadata.managed_fields.iter().flatten();
    let recent =
        entries.filter(move |entry| entry.time.as_ref().is_some_and(|time| time.0 > since));
    recent
        .filter_map(|entry| entry.manager.as_deref())
        .filter(|manager| is_ours(manager))
}

/// Whether a field manager is a component of Butler, or a controller in one.
fn is_ours(manager: &str) -> bool {
    let component = manager.split('/').next().unwrap_or_default();
    let provider = component.strip_prefix(field_managers::PROVIDER_PREFIX);
    provider == Some(LOCAL)
        || [
            CONTROLLER,
            STEWARD,
            names::SERVER,
            names::AGENT,
            names::TCP_PROXY,
        ]
        .contains(&component)
}

impl Rest {
    /// What the numbers are called, and what they are held to.
    pub(super) fn rows(&self) -> Vec<Row> {
        let seconds = self.window.as_secs();
        let writes = self.writes.iter().map(|(component, writes)| {
            let what =
                format!("tenant at rest: writes of {component} in {seconds} s, leases excepted");
            Row::count(what, *writes).held_to(WRITES_AT_REST)
        });
        let mut rows: Vec<Row> = writes.collect();
        rows.push(
            Row::count(
                format!(
                    "tenant at rest: objects written by any of ours in {seconds} s, here and there"
                ),
                self.touched.len(),
            )
            .held_to(WRITES_AT_REST),
        );
        let mut whole = 0.0;
        for (end, costs) in [("server", &self.servers), ("agent", &self.agents)] {
            whole += costs.iter().map(|cost| cost.resident).sum::<f64>();
            rows.extend(tunnel(end, costs, seconds));
        }
        rows.push(Row::new(
            format!(
                "tunnel of a tenant: memory (RSS) of {} servers and {} agents",
                self.servers.len(),
                self.agents.len()
            ),
            whole,
            Unit::Mebibytes,
        ));
        rows
    }
}

/// The dearest of all ends of a kind.
fn tunnel(end: &str, costs: &[Cost], seconds: u64) -> [Row; 3] {
    let most = |of: fn(&Cost) -> f64| costs.iter().map(of).fold(0.0, f64::max);
    let row = |what: &str, value: f64, unit: Unit| {
        Row::new(
            format!("tunnel of a tenant: {what} of its {end}"),
            value,
            unit,
        )
    };
    [
        row("memory (RSS)", most(|cost| cost.resident), Unit::Mebibytes),
        row(
            "working set",
            most(|cost| cost.working_set),
            Unit::Mebibytes,
        ),
        row(
            &format!("CPU in {seconds} s at rest"),
            most(|cost| cost.cpu),
            Unit::PercentOfCore,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_tells_which_of_ours_has_written_it_lately() {
        let entry = |manager: &str, time: &str| json!({ "manager": manager, "operation": "Apply", "time": time });
        let metadata = json!({ "managedFields": [
            entry("steward/tcp", "2026-01-01T00:00:09Z"),
            entry("steward/tcp", "2026-01-01T00:00:11Z"),
            entry("butler-provider-local", "2026-01-01T00:00:12Z"),
            entry("butler-provider-nutanix", "2026-01-01T00:00:12Z"),
            entry("kube-controller-manager", "2026-01-01T00:00:12Z"),
            entry("stewardess", "2026-01-01T00:00:12Z"),
        ] });
        let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        let since = "2026-01-01T00:00:10.5Z".parse().unwrap();
        let found: Vec<&str> = writers(&metadata, since).collect();
        assert_eq!(found, ["steward/tcp", "butler-provider-local"]);
    }
}

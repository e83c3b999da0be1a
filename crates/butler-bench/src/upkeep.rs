//! What a process needs to look after many objects: memory as there are more, requests and CPU while nothing happens.

use std::time::{Duration, Instant};

use anyhow::ensure;
use butler_testkit::ApiServer;
use tokio::time::sleep;

use crate::{
    progress,
    replica::Replica,
    report::{Bar, Row, Unit, number},
};

/// A lease is renewed several times in this.
const RENEWALS: Duration = Duration::from_secs(6);

/// What a process does while nothing happens.
pub(crate) struct Rest {
    /// Requests that change something, leases excepted.
    pub(crate) writes: usize,
    /// Requests that change nothing. A watch is reopened every few minutes by design: it is what spares all others.
    pub(crate) reads: usize,
    /// Percent of a core.
    pub(crate) cpu: f64,
}

impl Rest {
    /// Watches a replica, known to the API server by its component's name, for so long.
    pub(crate) async fn of(
        server: &ApiServer,
        replica: &Replica,
        component: &str,
        window: Duration,
    ) -> anyhow::Result<Self> {
        let process = replica.process()?;
        let (mark, before) = (server.audit().mark(), process.cpu_time()?);
        let began = Instant::now();
        sleep(window).await;
        let cpu = process.cpu_time()?.saturating_sub(before).as_secs_f64();
        let cpu = cpu / began.elapsed().as_secs_f64() * 100.0;
        let requests = server.audit().since(mark).by_user_agent(component);
        let (renewals, requests) = requests.partition(|request| request.resource == "leases");
        ensure!(
            !renewals.writes().is_empty() || window < RENEWALS,
            "{component} did not renew its lease: was it alive?"
        );
        let requests = requests.filter(|request| request.verb != "watch");
        if !requests.is_empty() {
            progress(&format!("requests at rest:\n{requests}"));
        }
        let count = requests.count();
        let writes = requests.writes().count();
        Ok(Self {
            writes,
            reads: count - writes,
            cpu,
        })
    }
}

/// How many objects there are, and the memory in MiB of whoever looks after them.
pub(crate) struct Size {
    /// How many.
    pub(crate) count: usize,
    /// `VmRSS`.
    pub(crate) memory: f64,
}

/// What memory costs, with none, with some, and for each.
pub(crate) fn memory_rows(what: &str, sizes: &[Size], bar: fn(usize) -> Bar) -> Vec<Row> {
    let row = |size: &Size| {
        Row::new(
            format!("{what}: memory (RSS) with {}", size.count),
            size.memory,
            Unit::Mebibytes,
        )
        .held_to(bar(size.count))
    };
    let mut rows: Vec<Row> = sizes.iter().map(row).collect();
    if let [first, .., last] = sizes {
        let each = (last.memory - first.memory) / number(last.count - first.count);
        rows.push(Row::new(
            format!("{what}: memory (RSS) for each"),
            each,
            Unit::Mebibytes,
        ));
    }
    rows
}

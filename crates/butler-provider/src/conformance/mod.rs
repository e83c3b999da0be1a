//! Shows whether a provider keeps the contract: named cases, run against a real infrastructure or a model of it.
//!
//! ```no_run
//! # use butler_provider::conformance::{self, Subject};
//! # async fn show<S: Subject>(subject: S) {
//! let report = conformance::run(subject).await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```
//!
//! Every case begins with what is there and ends by deleting what it made, also when it fails. Nothing is assumed of the
//! infrastructure but what a [`Subject`] says.

mod bench;
mod load_balancers;
mod machines;
mod report;

use std::{future::Future, net::IpAddr, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use butler_api::normalize::machine_size::MachineSize;
use futures::{FutureExt as _, future::BoxFuture};

pub use report::{CaseReport, Outcome, Report};

use crate::{
    order::{Access, MachineIdentity},
    provider::Provider,
    secrets::UserData,
};
use bench::{Bench, Trouble};

/// How long a case may take.
const DEADLINE: Duration = Duration::from_mins(5);

/// A provider under examination, and the infrastructure beneath it as its owner sees it.
pub trait Subject: Send + Sync + 'static {
    /// What is examined.
    type Provider: Provider;

    /// A process that was started a moment ago and remembers nothing.
    fn start(&self) -> impl Future<Output = Arc<Self::Provider>> + Send;

    /// Settings and credentials that are right.
    fn access(&self) -> Access;

    /// Settings with credentials that are refused; `None` if the provider needs none.
    fn refused_access(&self) -> Option<Access>;

    /// The two smallest machines worth making, of different sizes.
    fn sizes(&self) -> [MachineSize; 2];

    /// A machine larger than the infrastructure can have.
    fn too_large(&self) -> MachineSize;

    /// A free address by its number, if addresses come from pools. Numbers are below 250.
    fn address(&self, number: u8) -> Option<IpAddr>;

    /// User data that leaves a trace in the machine.
    fn user_data(&self) -> UserData;

    /// Whether the trace of [`Subject::user_data`] is in the machine.
    fn has_trace(&self, identity: &MachineIdentity) -> impl Future<Output = bool> + Send;

    /// Everything that is there, asked of the infrastructure itself and not of the provider.
    fn inventory(&self) -> impl Future<Output = Inventory> + Send;

    /// Makes a machine without the provider, as before there was a request for it, and gives its id. `None` if that cannot be
    /// done here.
    fn plant(
        &self,
        name: &str,
        address: Option<IpAddr>,
    ) -> impl Future<Output = Option<String>> + Send;
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Machines.
    pub machines: Vec<FoundMachine>,
    /// Names or ids of load balancers.
    pub load_balancers: Vec<String>,
}

/// A machine that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMachine {
    /// Its name.
    pub name: String,
    /// Its size, as far as the infrastructure tells it apart from others: processors and MiB of memory.
    pub cpu: u32,
    /// Its memory.
    pub memory_mib: u32,
}

type Case<S> = for<'a> fn(&'a Bench<S>) -> BoxFuture<'a, Result<(), Trouble>>;

/// Examines a provider.
pub async fn run<S: Subject>(subject: S) -> Report {
    let subject = Arc::new(subject);
    let mut cases = machines::cases::<S>();
    cases.extend(load_balancers::cases::<S>());
    let mut report = Report::default();
    for (name, case) in cases {
        let bench = Bench::new(Arc::clone(&subject)).await;
        let run = AssertUnwindSafe(tokio::time::timeout(DEADLINE, case(&bench))).catch_unwind();
        let outcome = match run.await {
            Ok(Ok(Ok(()))) => Outcome::Passed,
            Ok(Ok(Err(Trouble::Skipped(why)))) => Outcome::Skipped(why),
            Ok(Ok(Err(Trouble::Failed(why)))) => Outcome::Failed(why),
            Ok(Err(_)) => Outcome::Failed(format!("it did not end within {DEADLINE:?}")),
            Err(_) => Outcome::Failed("it panicked".to_owned()),
        };
        bench.clear().await;
        report.cases.push(CaseReport { name, outcome });
    }
    report
}

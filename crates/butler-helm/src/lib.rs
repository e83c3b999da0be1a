//! Runs helm.
//!
//! Owns: how helm is called (its command lines, its environment, values on standard input), what it answers, and which of its
//! failures mean what to a person. A release that somebody's sudden end left half done can be taken over.
//!
//! Must not: know any chart, find or download helm (that is `butler-assets`), or write outside of the directory it is given.
//! Values that are secret never appear on a command line, in an error or in `Debug`.
//!
//! ```no_run
//! use std::time::Duration;
//! use butler_helm::{ChartSource, Helm, Release, ReleaseName, Upgrade, Values};
//!
//! # async fn story() -> Result<(), Box<dyn std::error::Error>> {
//! let helm = Helm::new("/opt/bin/helm", "/var/lib/butler/main/helm", "/etc/kubernetes/admin.conf");
//! let release = Release {
//!     name: ReleaseName::new("butler-system".parse()?, "butler".parse()?),
//!     chart: ChartSource::Path("charts/butler".into()),
//!     values: Values::from(serde_json::json!({ "controller": { "replicas": 1 } })),
//! };
//! let deployed = helm.upgrade(&release, &Upgrade::waiting(Duration::from_secs(300))).await?;
//! assert!(deployed.phase.is_deployed());
//! # Ok(())
//! # }
//! ```

mod arguments;
mod error;
mod helm;
mod release;
mod report;
mod run;
mod values;

pub use error::{HelmError, Refusal};
pub use helm::{Helm, Interrupted, Upgrade};
pub use release::{ChartSource, Release, ReleaseName};
pub use report::{ReleasePhase, ReleaseReport, ReleaseSummary};
pub use values::Values;

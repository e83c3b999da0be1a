//! Why a test server did not come up.

use std::path::PathBuf;
use std::time::Duration;

/// A failure to start or reach a test server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is missing and cannot be had.
    #[error("cannot find, download or build {program}, which a test server needs")]
    ProgramMissing {
        /// The program's name.
        program: String,
        /// Where was looked, and what to do.
        #[source]
        source: Box<butler_assets::Error>,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificates of the test server")]
    Certificates(#[source] butler_pki::Error),
    /// A file of the server could not be written or read.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The process that cleans up after the server could not be started or asked.
    #[error("cannot {action} the shell that keeps the test server's processes")]
    Supervisor {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// No free port could be had.
    #[error("cannot find a free port on 127.0.0.1")]
    Port(#[source] std::io::Error),
    /// Somebody else took the port between choosing and using it.
    #[error("the ports chosen for the test server were taken by others {attempts} times in a row")]
    PortTaken {
        /// How often it was tried.
        attempts: u32,
    },
    /// A process of the server ended by itself.
    #[error("{program} ended while the test server was starting; the end of its log:\n{log}")]
    Ended {
        /// Which one.
        program: &'static str,
        /// Its last words.
        log: String,
    },
    /// The server runs but does not become ready.
    #[error(
        "the API server was not ready after {} s ({last}); the end of its log:\n{log}",
        waited.as_secs()
    )]
    NotReady {
        /// How long it had.
        waited: Duration,
        /// The last answer to `/readyz`.
        last: String,
        /// The end of the API server's log.
        log: String,
    },
    /// A client could not be made.
    #[error("cannot make a client for {url}: {problem}")]
    Client {
        /// The server's address.
        url: String,
        /// What was wrong.
        problem: String,
    },
    /// A custom resource definition was refused.
    #[error("the API server refuses the custom resource definition {name}")]
    InstallDefinition {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// Custom resource definitions were accepted but are not served.
    #[error("custom resource definitions are not established:\n{unmet}")]
    NotEstablished {
        /// What was waited for and what was seen.
        unmet: Box<crate::Unmet>,
    },
}

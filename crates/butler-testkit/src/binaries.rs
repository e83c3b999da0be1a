//! Where the programs of a test server come from.

use std::path::PathBuf;

use crate::Error;

/// The directory that holds the programs.
const DIRECTORY_VARIABLE: &str = "BUTLER_ASSETS_DIR";

/// A program of a test server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
}

impl Program {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
        }
    }
}

/// The path of a program; `kubernetes` asks for a version other than the default one.
#[expect(
    clippy::unused_async,
    reason = "looking in a cache or downloading takes its time"
)]
pub(crate) async fn find(program: Program, kubernetes: Option<&str>) -> Result<PathBuf, Error> {
    let mut path = PathBuf::from(std::env::var_os(DIRECTORY_VARIABLE).unwrap_or_default());
    if let (Some(version), Program::KubeApiserver | Program::KubeControllerManager) =
        (kubernetes, program)
    {
        path.push(version);
    }
    path.push(program.name());
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::ProgramMissing {
        program: program.name(),
        path,
        variable: DIRECTORY_VARIABLE,
    })
}

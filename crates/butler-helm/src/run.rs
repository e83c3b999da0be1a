//! The one place of this crate that starts helm.

use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::error::HelmError;

/// Variables of ours that helm gets too: where programs are, and how one gets out. All others could change what helm does.
const KEPT: [&str; 10] = [
    "PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "TMPDIR",
];

/// What helm said and how it ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Directories for helm's own files, all in `home`: nothing is written to that of the user.
fn directories(home: &Path) -> [(&'static str, std::path::PathBuf); 5] {
    [
        ("HOME", home.to_owned()),
        ("HELM_CACHE_HOME", home.join("cache")),
        ("HELM_CONFIG_HOME", home.join("config")),
        ("HELM_DATA_HOME", home.join("data")),
        ("KUBECACHEDIR", home.join("discovery")),
    ]
}

/// Runs helm to its end, but no longer than `limit`. It ends with us: dropping the future kills it.
pub(crate) async fn run(
    program: &Path,
    home: &Path,
    arguments: &[OsString],
    input: Option<&str>,
    doing: &str,
    limit: Duration,
) -> Result<Ended, HelmError> {
    std::fs::create_dir_all(home).map_err(|source| HelmError::Home {
        path: home.to_owned(),
        source,
    })?;
    let started = |source| HelmError::Start {
        program: program.to_owned(),
        source,
    };
    let kept = KEPT
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(kept)
        .envs(directories(home))
        .stdin(input.map_or_else(Stdio::null, |_| Stdio::piped()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(started)?;
    let stdin = child.stdin.take();
    let feed = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A helm that ended before it read its values says why, and that is what counts.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let ended = async { tokio::join!(feed, child.wait_with_output()).1 };
    let Ok(ended) = tokio::time::timeout(limit, ended).await else {
        return Err(HelmError::Stuck {
            doing: doing.to_owned(),
            limit,
        });
    };
    let output = ended.map_err(started)?;
    Ok(Ended {
        status: output.status,
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

//! Whether containerd of a machine answers, seen from the host.

use std::{path::Path, time::Duration};

use anyhow::Context;
use tokio::net::UnixStream;

use super::shell;

/// How often it is tried: nothing tells when a socket has come.
const LOOK: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until containerd answers in the machine that has this first process.
pub(super) async fn answers(ctr: &Path, first_process: u32) -> anyhow::Result<()> {
    let socket = format!("/proc/{first_process}/root/run/containerd/containerd.sock");
    let listening = async {
        while UnixStream::connect(&socket).await.is_err() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, listening)
        .await
        .context("containerd of a machine does not answer")?;
    let asked = shell::program(ctr, ["--address", &socket, "version"]);
    shell::run(asked).await.map(drop)
}

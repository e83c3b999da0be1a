//! The numbers that a component tells: read as whoever collects metrics reads them, with a token of an account that may, from within
//! the network of its pod. From outside, the API server would lead there, but keeps tokens to itself.
//!
//! Must not: go on when the answer is anything but the numbers.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    os::fd::AsFd as _,
    time::Duration,
};

use anyhow::Context;
use butler_api::keys::names::METRICS_READER;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::json;
use tokio::sync::oneshot;

use crate::{local::installation::NAMESPACE, process::Process};

/// Who we are; the installation takes the account and its binding with it.
const NAME: &str = "butler-bench";
/// How long a component may take to tell its numbers.
const PATIENCE: Duration = Duration::from_secs(15);

/// An account that may read metrics.
pub(crate) struct Reader {
    accounts: Api<ServiceAccount>,
}

impl Reader {
    /// Makes the account, unless it is there.
    pub(crate) async fn of(client: Client) -> anyhow::Result<Self> {
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": NAME },
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": NAME },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": METRICS_READER },
            "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE }],
        });
        let parameters = PatchParams::apply(NAME);
        let bindings = Api::<ClusterRoleBinding>::all(client.clone());
        let accounts = Api::<ServiceAccount>::namespaced(client, NAMESPACE);
        accounts
            .patch(NAME, &parameters, &Patch::Apply(account))
            .await?;
        bindings
            .patch(NAME, &parameters, &Patch::Apply(binding))
            .await?;
        Ok(Self { accounts })
    }

    /// What the process tells on this port.
    pub(crate) async fn numbers(&self, process: Process, port: u16) -> anyhow::Result<String> {
        let request = TokenRequest {
            spec: TokenRequestSpec::default(),
            ..TokenRequest::default()
        };
        let parameters = PostParams::default();
        let issued = self
            .accounts
            .create_token_request(NAME, &parameters, &request);
        let issued = issued.await?.status;
        let token = issued.context("the API server has issued no token")?.token;
        beside(process, move || ask(port, &token)).await
    }
}

/// Does something in the network of a process. On a thread of its own, which ends with it: nobody else must find itself there.
async fn beside<T: Send + 'static>(
    process: Process,
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let done = enter(process).and_then(|()| work());
        // Nobody listens if the measurement was given up.
        drop(tell.send(done));
    });
    told.await
        .context("the thread in the network of a process ended early")?
}

fn enter(process: Process) -> anyhow::Result<()> {
    let path = format!("/proc/{}/ns/net", process.0);
    let network = File::open(&path).with_context(|| format!("could not open {path}"))?;
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("could not enter {path}; run this as root"))
}

fn ask(port: u16, token: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET /metrics HTTP/1.0\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    numbers_in(&answer).map(str::to_owned)
}

fn numbers_in(answer: &str) -> anyhow::Result<&str> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.lines().next().unwrap_or_default();
    let code = status.split(' ').nth(1);
    anyhow::ensure!(
        code == Some("200"),
        "the metrics cannot be read: {status}: {}",
        body.trim()
    );
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use butler_testkit::{requires, skip};

    use super::*;

    #[test]
    fn an_answer_is_numbers_or_says_why_not() {
        let numbers = numbers_in("HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\na 1\nb 2\n");
        assert_eq!(numbers.unwrap(), "a 1\nb 2\n");
        let refused = numbers_in("HTTP/1.0 403 Forbidden\r\n\r\nyou may not\n").unwrap_err();
        let words = "the metrics cannot be read: HTTP/1.0 403 Forbidden: you may not";
        assert_eq!(refused.to_string(), words);
        assert!(numbers_in("").is_err());
    }

    #[tokio::test]
    async fn a_component_is_asked_within_its_own_network_and_with_the_token() {
        requires!(skip::root());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let component = thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut head = [0; 512];
            let length = peer.read(&mut head).unwrap();
            peer.write_all(b"HTTP/1.0 200 OK\r\n\r\na 1\n").unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        let here = Process(std::process::id());
        let numbers = beside(here, move || ask(port, "secret")).await.unwrap();
        assert_eq!(numbers, "a 1\n");
        let asked = component.join().unwrap();
        assert!(
            asked.contains("authorization: Bearer secret\r\n"),
            "{asked}"
        );
    }
}

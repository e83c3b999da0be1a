//! The store of the chart `steward-etcd` from nothing: a real API server keeps its certificates, and a real etcd uses them.

use std::{collections::BTreeMap, time::Duration};

use butler_assets::Component;
use butler_pki::{inspect, is_issued_by};
use butler_testkit::{ApiServer, Options, Process, Supervisor, process::until};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use pretty_assertions::assert_eq;
use steward::own_etcd::{
    AdministratorArguments, Arguments, CertificatesArguments, administrator, certificates,
};

use crate::{
    etcd::{free_port, program},
    real::create,
    scene::{self, SYSTEM},
};

/// How long etcd may take to come up on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(1);
const STORE: &str = "gold";

fn common() -> Arguments {
    Arguments {
        name: STORE.to_owned(),
        namespace: SYSTEM.to_owned(),
        kubeconfig: None,
        patience: 0,
    }
}

fn of_members() -> CertificatesArguments {
    CertificatesArguments {
        common: common(),
        dns_names: vec![format!("{STORE}-0.{STORE}-members.{SYSTEM}.svc")],
    }
}

/// What is in each Secret, by its name and key.
async fn kept(client: &Client) -> BTreeMap<String, BTreeMap<String, String>> {
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM);
    let found = secrets.list(&ListParams::default()).await.unwrap();
    let text = |secret: &Secret| {
        let data = secret.data.iter().flatten();
        data.map(|(key, value)| (key.clone(), String::from_utf8(value.0.clone()).unwrap()))
            .collect()
    };
    let found = found.items.iter();
    found
        .map(|secret| (secret.name_any(), text(secret)))
        .collect()
}

/// An etcd as a pod of the chart runs it, on loopback.
async fn start(
    supervisor: &mut Supervisor,
    kept: &BTreeMap<String, BTreeMap<String, String>>,
    port: u16,
) -> Process {
    let file = |part: &str, key: &str| {
        let text = &kept[&format!("{STORE}-{part}")][key];
        let path = supervisor.write(&format!("{part}-{key}"), text).unwrap();
        path.display().to_string()
    };
    let (client, peer) = (
        format!("https://localhost:{port}"),
        format!("https://localhost:{}", free_port()),
    );
    let listen = |url: &str| url.replace("localhost", "127.0.0.1");
    let arguments = [
        format!("--name={STORE}-0"),
        format!(
            "--data-dir={}",
            supervisor.directory().join("data").display()
        ),
        format!("--initial-cluster={STORE}-0={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--listen-peer-urls={}", listen(&peer)),
        format!("--advertise-client-urls={client}"),
        format!("--listen-client-urls={}", listen(&client)),
        "--client-cert-auth=true".to_owned(),
        format!("--trusted-ca-file={}", file("server", "ca.crt")),
        format!("--cert-file={}", file("server", "tls.crt")),
        format!("--key-file={}", file("server", "tls.key")),
        "--peer-client-cert-auth=true".to_owned(),
        format!("--peer-trusted-ca-file={}", file("peer", "ca.crt")),
        format!("--peer-cert-file={}", file("peer", "tls.crt")),
        format!("--peer-key-file={}", file("peer", "tls.key")),
        "--enable-grpc-gateway=false".to_owned(),
        "--feature-gates=InitialCorruptCheck=true".to_owned(),
        "--watch-progress-notify-interval=5s".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    let etcd = program(Component::Etcd).await;
    supervisor.run("etcd", &etcd, &arguments).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_store_is_prepared_once_and_then_left_alone() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let client = server.client_as("story");
    let namespaces = Api::<Namespace>::all(client.clone());
    create(&namespaces, scene::namespace(SYSTEM)).await;

    certificates(&of_members(), &client).await.unwrap();
    let before = kept(&client).await;
    let names: Vec<_> = before.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["gold-ca", "gold-peer", "gold-peer-ca", "gold-server"]
    );
    let (clients, members) = (&before["gold-ca"], &before["gold-peer-ca"]);
    let (shown, peer) = (&before["gold-server"], &before["gold-peer"]);
    assert!(is_issued_by(&shown["tls.crt"], &clients["ca.crt"]).unwrap());
    assert!(is_issued_by(&peer["tls.crt"], &members["ca.crt"]).unwrap());
    assert!(!is_issued_by(&peer["tls.crt"], &clients["ca.crt"]).unwrap());

    let mut supervisor = Supervisor::start().unwrap();
    let port = free_port();
    let arguments = AdministratorArguments {
        common: common(),
        endpoints: vec![format!("127.0.0.1:{port}").parse().unwrap()],
    };
    // Nobody gets to administer a store that does not answer.
    assert!(administrator(&arguments, &client).await.is_err());
    assert_eq!(kept(&client).await, before);
    let etcd = start(&mut supervisor, &before, port).await;
    let done = until(READY_WITHIN, async || {
        administrator(&arguments, &client).await.ok()
    });
    assert!(
        done.await.is_some(),
        "the store cannot be used:\n{}",
        etcd.log_end()
    );
    let prepared = kept(&client).await;
    let root = &prepared["gold-root-client"];
    assert_eq!(inspect(&root["tls.crt"]).unwrap().common_name, "root");
    assert_eq!(root["ca.crt"], clients["ca.crt"]);

    // A second time there is nothing to do.
    let mark = server.audit().mark();
    certificates(&of_members(), &client).await.unwrap();
    administrator(&arguments, &client).await.unwrap();
    let writes = server.audit().since(mark).by_user_agent("story").writes();
    assert_eq!(writes.count(), 0, "{writes}");
    assert_eq!(kept(&client).await, prepared);

    // What somebody deletes is made again; the authority, and all that hangs on it, stays.
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM);
    for name in ["gold-server", "gold-root-client"] {
        secrets
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    certificates(&of_members(), &client).await.unwrap();
    administrator(&arguments, &client).await.unwrap();
    let repaired = kept(&client).await;
    assert_ne!(repaired["gold-root-client"], prepared["gold-root-client"]);
    for name in ["gold-ca", "gold-peer-ca", "gold-peer"] {
        assert_eq!(repaired[name], prepared[name]);
    }
}

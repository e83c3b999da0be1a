//! An API server that uses the tunnel, both ends of it as processes, and a tenant.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
};

use butler_pki::{Authority, LeafRequest, Usage, Validity};
use butler_testkit::{
    ApiServer, Identity, Options,
    process::{eventually_ended, until},
};
use butler_tunnel::manifests::{
    AgentMode, AgentSpec, EgressTransport, agent_objects, egress_selector_configuration, names,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{ConfigMap, Namespace, Node, Pod, Service, ServiceAccount},
};
use kube::{
    Api,
    api::{LogParams, PostParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    PATIENCE,
    isolated::{CONTROL_PLANE, NODE, Networks, POD, SERVICE},
    tenant,
};

const AGENT_PORT: u16 = 8132;
const PROXY_PORT: u16 = 8131;
const METRICS_PORT: u16 = 8133;
const API_SERVER: &str = "tunnel-test-kube-apiserver";

/// How the API server reaches the tunnel's server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Socket,
    Network,
}

/// The certificates of all, and where they are.
struct Office {
    directory: TempDir,
    authority: Authority,
}

impl Office {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("tenant-ca", validity()).unwrap();
        fs::write(directory.path().join("ca.crt"), authority.certificate_pem()).unwrap();
        Self {
            directory,
            authority,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn issue(&self, name: &str, usage: Usage, addresses: &[&str]) {
        let addresses = addresses
            .iter()
            .map(|address| address.parse::<IpAddr>().unwrap());
        let leaf = self
            .authority
            .issue(&LeafRequest {
                common_name: name.to_owned(),
                ip_addresses: addresses.collect(),
                dns_names: vec![format!("{WEBHOOK_SERVICE}.default.svc")],
                ..LeafRequest::new(usage, validity())
            })
            .unwrap();
        fs::write(self.path(&format!("{name}.crt")), &leaf.certificate_pem).unwrap();
        fs::write(self.path(&format!("{name}.key")), leaf.key_pem.expose()).unwrap();
    }
}

const WEBHOOK_SERVICE: &str = "webhook";

fn validity() -> Validity {
    Validity::starting(Timestamp::now(), SignedDuration::from_hours(1))
}

pub(crate) struct Scene {
    api: ApiServer,
    networks: Networks,
    office: Office,
    transport: Transport,
    processes: Vec<(&'static str, u32)>,
}

impl Scene {
    pub(crate) async fn start(networks: Networks, transport: Transport) -> Self {
        let office = Office::new();
        office.issue(
            "tunnel-server",
            Usage::Server,
            &[CONTROL_PLANE, "127.0.0.1"],
        );
        office.issue("tenant", Usage::Server, &[POD, SERVICE, NODE]);
        office.issue(API_SERVER, Usage::Client, &[]);
        let egress = egress_selector_configuration(&match transport {
            Transport::Socket => EgressTransport::Socket {
                path: office.text("tunnel.sock"),
            },
            Transport::Network => EgressTransport::Network {
                url: format!("https://127.0.0.1:{PROXY_PORT}"),
                authority: office.text("ca.crt"),
                client_certificate: office.text(&format!("{API_SERVER}.crt")),
                client_key: office.text(&format!("{API_SERVER}.key")),
            },
        });
        fs::write(office.path("egress.yaml"), egress).unwrap();
        let api = ApiServer::start(Options {
            apiserver_flags: vec![format!(
                "--egress-selector-config-file={}",
                office.text("egress.yaml")
            )],
            custom_resources: Vec::new(),
            ..Options::default()
        })
        .await
        .expect("an API server");
        let mut scene = Self {
            api,
            networks,
            office,
            transport,
            processes: Vec::new(),
        };
        scene.start_tenant();
        scene.create_objects().await;
        scene
    }

    /// Starts a process that ends with the API server, in the tenant's network or in ours.
    fn run(&mut self, name: &'static str, in_tenant: bool, line: &[String]) -> u32 {
        let mut words = line.to_vec();
        if in_tenant {
            words.insert(0, self.networks.enter());
            words.insert(0, "/usr/bin/env".to_owned());
            words.insert(1, "nsenter".to_owned());
        }
        let id = self
            .api
            .run(name, Path::new(&words[0]), &words[1..])
            .unwrap();
        self.processes.push((name, id));
        id
    }

    fn start_tenant(&mut self) {
        let program = std::env::current_exe().unwrap();
        let line = [
            "env".to_owned(),
            format!("{}={}", tenant::CERTIFICATE, self.office.text("tenant.crt")),
            format!("{}={}", tenant::KEY, self.office.text("tenant.key")),
            program.display().to_string(),
            "--exact".to_owned(),
            tenant::TEST.to_owned(),
        ];
        self.run("tenant", true, &line);
    }

    pub(crate) fn start_server(&mut self) -> u32 {
        let kubeconfig = self.api.kubeconfig_for(&Identity::user(names::SERVER_USER));
        let mut line = vec![
            env!("CARGO_BIN_EXE_butler").to_owned(),
            "tunnel".to_owned(),
            "server".to_owned(),
            format!("--cert-file={}", self.office.text("tunnel-server.crt")),
            format!("--key-file={}", self.office.text("tunnel-server.key")),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--agent-bind-address={CONTROL_PLANE}:{AGENT_PORT}"),
            format!("--metrics-bind-address=127.0.0.1:{METRICS_PORT}"),
            "--health-probe-bind-address=0".to_owned(),
        ];
        line.extend(match self.transport {
            Transport::Socket => vec![format!("--socket={}", self.office.text("tunnel.sock"))],
            Transport::Network => vec![
                format!("--proxy-bind-address=127.0.0.1:{PROXY_PORT}"),
                format!("--proxy-client-ca-file={}", self.office.text("ca.crt")),
                format!("--proxy-client-common-name={API_SERVER}"),
            ],
        });
        self.run("tunnel-server", false, &line)
    }

    pub(crate) fn start_agent(&mut self, number: usize) -> u32 {
        let line = [
            env!("CARGO_BIN_EXE_butler").to_owned(),
            "tunnel".to_owned(),
            "agent".to_owned(),
            format!("--server={CONTROL_PLANE}:{AGENT_PORT}"),
            format!("--ca-file={}", self.office.text("ca.crt")),
            format!("--token-file={}", self.office.text("token")),
            "--metrics-bind-address=0".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
        ];
        self.run(["tunnel-agent-0", "tunnel-agent-1"][number], true, &line)
    }

    pub(crate) async fn kill(&self, process: u32) {
        let killed = Command::new("kill")
            .args(["-9", &process.to_string()])
            .status();
        assert!(killed.unwrap().success());
        assert!(
            eventually_ended(&[process], PATIENCE).await,
            "{process} is gone"
        );
    }

    pub(crate) async fn cannot_be_reached_directly(&self) {
        for address in [POD, SERVICE, NODE] {
            let address = format!("{address}:{}", tenant::PORT);
            let error = tokio::net::TcpStream::connect(&address).await;
            let error = error.expect_err("there is no route");
            assert_eq!(error.kind(), std::io::ErrorKind::NetworkUnreachable);
        }
    }

    /// How many agents the server says are connected.
    pub(crate) async fn has_agents(&self, count: usize) {
        let line = format!("butler_tunnel_connections {count}");
        let found = until(PATIENCE, async || {
            let numbers = self.server_metrics().await.unwrap_or_default();
            numbers.lines().any(|found| found == line).then_some(())
        });
        assert!(found.await.is_some(), "{line} is not what the server says");
    }

    async fn server_metrics(&self) -> std::io::Result<String> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", METRICS_PORT)).await?;
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// The memory each process holds: all of it, and what is its own and not a file's.
    pub(crate) fn memory(&self) -> String {
        let resident = |(name, id): &(&'static str, u32)| {
            let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            let value = |field: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(field))?;
                Some(line.trim().to_owned())
            };
            Some(format!(
                "{name} {} (own {})",
                value("VmRSS:")?,
                value("RssAnon:")?
            ))
        };
        let lines: Vec<String> = self.processes.iter().filter_map(resident).collect();
        lines.join(", ")
    }

    async fn create_objects(&self) {
        let objects = agent_objects(&AgentSpec {
            image: "butler".to_owned(),
            image_pull_policy: None,
            server: format!("{CONTROL_PLANE}:{AGENT_PORT}").parse().unwrap(),
            server_name: None,
            server_user: names::SERVER_USER.to_owned(),
            mode: AgentMode::DaemonSet,
            host_network: false,
            host_aliases: Vec::new(),
            tolerations: Vec::new(),
            resources: None,
            extra_arguments: Vec::new(),
        });
        let parameters = PostParams::default();
        let client = self.api.client();
        let system = Api::<ServiceAccount>::namespaced(client.clone(), names::AGENT_NAMESPACE);
        let namespaces = Api::<Namespace>::all(client.clone());
        for namespace in [names::AGENT_NAMESPACE, "default"] {
            until(PATIENCE, async || namespaces.get(namespace).await.ok())
                .await
                .expect(namespace);
        }
        system
            .create(&parameters, &objects.service_account)
            .await
            .unwrap();
        let roles = Api::all(client.clone());
        roles
            .create(&parameters, &objects.cluster_role)
            .await
            .unwrap();
        let bindings = Api::all(client.clone());
        bindings
            .create(&parameters, &objects.cluster_role_binding)
            .await
            .unwrap();
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![names::AUDIENCE.to_owned()],
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let issued = system
            .create_token_request(names::AGENT, &parameters, &request)
            .await;
        fs::write(
            self.office.path("token"),
            issued.unwrap().status.unwrap().token,
        )
        .unwrap();

        let service: Service = object(json!({
            "metadata": { "name": WEBHOOK_SERVICE },
            "spec": { "clusterIP": SERVICE, "ports": [{ "port": tenant::PORT }] },
        }));
        let services = Api::namespaced(client.clone(), "default");
        services.create(&parameters, &service).await.unwrap();
        self.create_pod().await;
        let webhooks = Api::<ValidatingWebhookConfiguration>::all(client);
        webhooks.create(&parameters, &self.webhook()).await.unwrap();
    }

    /// A webhook behind a Service that is asked about config maps with a label.
    fn webhook(&self) -> ValidatingWebhookConfiguration {
        let authority = ByteString(self.office.authority.certificate_pem().as_bytes().to_vec());
        object(json!({
            "metadata": { "name": "tenant" },
            "webhooks": [{
                "name": "tenant.butler.example",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "caBundle": authority,
                    "service": {
                        "namespace": "default", "name": WEBHOOK_SERVICE, "path": "/review", "port": tenant::PORT,
                    },
                },
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 10,
                "objectSelector": { "matchLabels": { "review": "tenant" } },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
                }],
            }],
        }))
    }

    /// A pod on a node whose kubelet only an agent can reach.
    async fn create_pod(&self) {
        let client = self.api.client();
        let parameters = PostParams::default();
        let node: Node = object(json!({ "metadata": { "name": "worker" } }));
        let nodes = Api::<Node>::all(client.clone());
        nodes.create(&parameters, &node).await.unwrap();
        let status = json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": NODE }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": tenant::PORT } },
        } });
        let patch = kube::api::Patch::Merge(status);
        let parameters_of_patch = kube::api::PatchParams::default();
        nodes
            .patch_status("worker", &parameters_of_patch, &patch)
            .await
            .unwrap();
        let account: ServiceAccount = object(json!({ "metadata": { "name": "default" } }));
        let accounts = Api::namespaced(client.clone(), "default");
        accounts.create(&parameters, &account).await.unwrap();
        let pod: Pod = object(json!({
            "metadata": { "name": "talker" },
            "spec": {
                "nodeName": "worker",
                "automountServiceAccountToken": false,
                "containers": [{ "name": "talker", "image": "talker" }],
            },
        }));
        let pods = Api::<Pod>::namespaced(client, "default");
        pods.create(&parameters, &pod).await.unwrap();
        let status = json!({ "status": { "podIP": POD, "podIPs": [{ "ip": POD }] } });
        let patch = kube::api::Patch::Merge(status);
        pods.patch_status("talker", &parameters_of_patch, &patch)
            .await
            .unwrap();
    }

    /// What the API server answers to a write that the webhook must see.
    pub(crate) async fn ask_webhook(&self) -> String {
        let map: ConfigMap = object(json!({
            "metadata": { "generateName": "asked-", "labels": { "review": "tenant" } },
        }));
        let maps = Api::namespaced(self.api.client(), "default");
        match maps.create(&PostParams::default(), &map).await {
            Ok(_) => "created".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// What a pod answers to the API server.
    pub(crate) async fn ask_pod(&self) -> String {
        let path = format!(
            "/api/v1/namespaces/default/pods/https:talker:{}/proxy/",
            tenant::PORT
        );
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        self.api.client().request_text(request).await.unwrap()
    }

    pub(crate) async fn pod_log(&self) -> String {
        let pods = Api::<Pod>::namespaced(self.api.client(), "default");
        pods.logs("talker", &LogParams::default()).await.unwrap()
    }
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

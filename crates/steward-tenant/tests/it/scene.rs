//! What the stories have in common: a tenant's facts, its API server, and who talks to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use butler_assets::{Asset, Component, Resolver, Settings};
use butler_runtime::api_server::ApiError;
use butler_runtime::failure::Class;
use butler_runtime::kube_api_server::KubeApiServer;
use butler_testkit::audit::Requests;
use butler_testkit::{ApiServer, Controllers, Identity, Options};
use steward_tenant::{
    ImageOverride, KubeProxyFacts, Report, SUPER_ADMINISTRATOR, TenantFacts, TenantSide,
};
use tokio::sync::{Mutex, MutexGuard};

/// How long the API server and its companions may take to notice something.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// The user agent of what is tested.
const USER_AGENT: &str = "steward-tenant";

/// One server at a time: each takes a third of a small machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A tenant with all that it can have.
pub(crate) fn facts() -> TenantFacts {
    TenantFacts {
        name: "blue".parse().unwrap(),
        version: "v1.36.3".parse().unwrap(),
        serving_version: "v1.36.3".parse().unwrap(),
        endpoint: "10.40.0.200:6443".parse().unwrap(),
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        pod_cidrs: vec!["10.244.0.0/16".parse().unwrap()],
        cluster_domain: "cluster.local".parse().unwrap(),
        dns_service_addresses: Vec::new(),
        authority_pem: "an authority\n".to_owned(),
        certificate_names: Vec::new(),
        image_registry: "registry.k8s.io".to_owned(),
        cgroup_driver: None,
        kubelet_patches: Vec::new(),
        core_dns: Some(ImageOverride::default()),
        kube_proxy: Some(KubeProxyFacts::default()),
        tunnel: Vec::new(),
        tcp_proxy: Vec::new(),
        write_permissions: serde_json::from_str("{}").unwrap(),
        frozen: false,
    }
}

/// The path of a program.
pub(crate) async fn program(component: Component) -> PathBuf {
    let asset = Asset::default_of(component);
    let resolver = Resolver::new(Settings::from_env().unwrap());
    resolver.resolve(&asset).await.unwrap()
}

/// A tenant's API server, and the tenant side that looks after it.
pub(crate) struct Tenant {
    pub(crate) server: ApiServer,
    pub(crate) facts: TenantFacts,
    side: TenantSide,
    _turn: MutexGuard<'static, ()>,
}

impl Tenant {
    pub(crate) async fn start(controllers: Controllers) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let facts = facts();
        let server = ApiServer::start(Options {
            controllers,
            custom_resources: Vec::new(),
            apiserver_flags: vec![
                "--allow-privileged=true".to_owned(),
                "--enable-bootstrap-token-auth=true".to_owned(),
                format!("--service-cluster-ip-range={}", facts.service_cidrs[0]),
            ],
            ..Options::default()
        });
        let server = server.await.unwrap();
        let facts = TenantFacts {
            endpoint: server.url().trim_start_matches("https://").parse().unwrap(),
            authority_pem: server.authority_pem().to_owned(),
            ..facts
        };
        Self {
            server,
            facts,
            side: TenantSide::new(),
            _turn: turn,
        }
    }

    /// Who Steward is.
    pub(crate) fn steward(&self) -> kube::Client {
        let identity = Identity::user(SUPER_ADMINISTRATOR).in_group("system:masters");
        self.server.client_of(&identity, USER_AGENT)
    }

    /// The tenant's administrator, by the binding that the tenant side makes.
    pub(crate) fn administrator(&self) -> kube::Client {
        let identity = Identity::user("kubernetes-admin").in_group("kubeadm:cluster-admins");
        self.server.client_of(&identity, "kubectl")
    }

    pub(crate) async fn try_reconcile(&mut self) -> Result<Report, ApiError> {
        let api = KubeApiServer::new(self.steward());
        self.side.reconcile(&api, &self.facts).await
    }

    /// One pass, which must reach its end; its requests.
    pub(crate) async fn reconcile(&mut self) -> (Report, Requests) {
        let mark = self.server.audit().mark();
        let report = self.try_reconcile().await.unwrap();
        let requests = self.server.audit().since(mark).by_user_agent(USER_AGENT);
        (report, requests)
    }

    /// Passes until all is as it should be: namespaces and address ranges of a fresh server come a moment after it is ready.
    pub(crate) async fn furnish(&mut self) -> Report {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (report, _) = self.reconcile().await;
            if report.is_complete() {
                return report;
            }
            let hopeless = report.failure_class() == Some(Class::Terminal);
            assert!(
                !hopeless && Instant::now() < deadline,
                "{:#?}",
                report.parts
            );
        }
    }

    /// One pass that must write nothing.
    pub(crate) async fn assert_at_rest(&mut self, when: &str) {
        let (report, requests) = self.reconcile().await;
        let writes = requests.writes();
        assert!(writes.is_empty(), "{when}, nothing is written:\n{writes}");
        assert!(report.applied.is_empty() && report.deleted.is_empty());
        assert!(report.is_complete(), "{:#?}", report.parts);
    }
}

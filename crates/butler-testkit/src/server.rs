//! A real etcd and kube-apiserver.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use butler_pki::{Authority, Kubeconfig, Leaf, LeafRequest, ServiceAccountKey, Usage, Validity};
use jiff::{SignedDuration, Timestamp};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::OnceCell;

use crate::audit::AuditLog;
use butler_assets::Component;

use crate::binaries;
use crate::command_lines::{self, Files};
use crate::process::until;
use crate::supervisor::{self, Process, Supervisor};
use crate::{Error, Identity, Options, TestNamespace, crds, crypto};

/// How long a server may take to become ready on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(2);
/// How often a port may be lost to somebody else.
const PORT_ATTEMPTS: u32 = 5;
/// Longer than any test runs.
const CERTIFICATE_LIFE: SignedDuration = SignedDuration::from_hours(24);
/// The name of the cluster in kubeconfigs.
const CLUSTER: &str = "butler-testkit";
/// The user agent of the kit's own requests.
const USER_AGENT: &str = "butler-testkit";

static SHARED: OnceCell<ApiServer> = OnceCell::const_new();

/// A running API server with its etcd. Dropping it ends its processes and removes its files; so does the end of the test
/// process, in whatever way it ends.
#[derive(Debug)]
pub struct ApiServer {
    supervisor: Supervisor,
    processes: Vec<Process>,
    url: String,
    authority: Authority,
    admin_kubeconfig: PathBuf,
    kubeconfigs_written: AtomicU32,
}

impl ApiServer {
    /// The server that all tests of this process share, started by the first that asks. It has Butler's custom resources and
    /// no controllers of Kubernetes; tests keep apart by [`ApiServer::namespace`].
    ///
    /// # Panics
    /// If the server cannot be started.
    pub async fn shared() -> &'static Self {
        match SHARED
            .get_or_try_init(|| Self::start(Options::default()))
            .await
        {
            Ok(server) => server,
            Err(error) => fail(&error),
        }
    }

    /// A server of the test's own.
    pub async fn start(options: Options) -> Result<Self, Error> {
        crypto::install_provider();
        for _ in 0..PORT_ATTEMPTS {
            match Self::attempt(&options).await {
                Err(Error::PortTaken { .. }) => {}
                outcome => return outcome,
            }
        }
        Err(Error::PortTaken {
            attempts: PORT_ATTEMPTS,
        })
    }

    async fn attempt(options: &Options) -> Result<Self, Error> {
        let kubernetes = options.kubernetes.as_deref();
        let etcd = binaries::find(Component::Etcd, None).await?;
        let apiserver = binaries::find(Component::KubeApiserver, kubernetes).await?;
        let started = Instant::now();

        let mut supervisor = Supervisor::start()?;
        let directory = supervisor.directory().to_owned();
        // etcd first: it comes up while the certificates are made.
        let etcd = supervisor.run("etcd", &etcd, &command_lines::etcd(&directory))?;
        let port = free_port().map_err(Error::Port)?;
        let url = format!("https://127.0.0.1:{port}");
        let (authority, files) = write_files(&supervisor, &url)?;
        let arguments =
            command_lines::apiserver(&directory, port, &files, &options.apiserver_flags);
        let apiserver = supervisor.run("kube-apiserver", &apiserver, &arguments)?;

        let mut server = Self {
            supervisor,
            processes: vec![etcd, apiserver],
            url,
            authority,
            admin_kubeconfig: files.admin_kubeconfig.clone(),
            kubeconfigs_written: AtomicU32::new(0),
        };
        server.become_ready().await?;
        tracing::info!(url = server.url, elapsed = ?started.elapsed(), "the API server is ready");
        crds::install(server.client(), &options.custom_resources).await?;
        // Last, because the garbage collector learns of new kinds only every half minute.
        if let Some(list) = command_lines::controller_list(options.controllers) {
            let path = binaries::find(Component::KubeControllerManager, kubernetes).await?;
            let arguments = command_lines::controller_manager(&files, list);
            let name = "kube-controller-manager";
            server
                .processes
                .push(server.supervisor.run(name, &path, &arguments)?);
        }
        Ok(server)
    }

    async fn become_ready(&self) -> Result<(), Error> {
        let mut config = self.try_config(&Identity::admin(), USER_AGENT)?;
        // We ask again ourselves, and at once.
        config.default_retry = false;
        let client = self.try_client(config)?;
        let last = std::sync::Mutex::new(String::new());
        let outcome = until(READY_WITHIN, async || {
            if let Some(ended) = self.processes.iter().find(|process| !process.is_running()) {
                return Some(Err(ended_early(ended)));
            }
            match readyz(&client).await {
                Ok(()) => Some(Ok(())),
                Err(problem) => {
                    if let Ok(mut last) = last.lock() {
                        *last = problem;
                    }
                    None
                }
            }
        })
        .await;
        outcome.unwrap_or_else(|| {
            Err(Error::NotReady {
                waited: READY_WITHIN,
                last: last.into_inner().unwrap_or_default(),
                log: self
                    .processes
                    .last()
                    .map(Process::log_end)
                    .unwrap_or_default(),
            })
        })
    }

    /// Starts a further program beside the server, with which it ends. Its log is `<program>.log` in [`Self::directory`].
    /// Returns the number of its process.
    pub fn run(
        &mut self,
        program: &'static str,
        path: &Path,
        arguments: &[String],
    ) -> Result<u32, Error> {
        let process = self.supervisor.run(program, path, arguments)?;
        let id = process.id;
        self.processes.push(process);
        Ok(id)
    }

    /// A client that may do everything. Each call gives a client of its own, bound to the runtime it is called in.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn client(&self) -> Client {
        self.client_as(USER_AGENT)
    }

    /// A client that may do everything and whose requests carry this user agent, by which [`ApiServer::audit`] counts.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or if the user agent cannot be a header.
    pub fn client_as(&self, user_agent: &str) -> Client {
        self.client_of(&Identity::admin(), user_agent)
    }

    /// A client of somebody else, with what RBAC grants them.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or if the user agent cannot be a header.
    pub fn client_of(&self, identity: &Identity, user_agent: &str) -> Client {
        match self.try_client(self.config_of(identity, user_agent)) {
            Ok(client) => client,
            Err(error) => fail(&error),
        }
    }

    /// The configuration of a client that may do everything, for code that makes its own clients.
    ///
    /// # Panics
    /// If the user agent cannot be a header.
    pub fn config_as(&self, user_agent: &str) -> Config {
        self.config_of(&Identity::admin(), user_agent)
    }

    /// The configuration of a client of somebody else.
    ///
    /// # Panics
    /// If the user agent cannot be a header.
    pub fn config_of(&self, identity: &Identity, user_agent: &str) -> Config {
        match self.try_config(identity, user_agent) {
            Ok(config) => config,
            Err(error) => fail(&error),
        }
    }

    /// A kubeconfig file of a user who may do everything, for child processes.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin_kubeconfig
    }

    /// A kubeconfig file of somebody else.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn kubeconfig_for(&self, identity: &Identity) -> PathBuf {
        let number = self.kubeconfigs_written.fetch_add(1, Ordering::Relaxed);
        let path = self.directory().join(format!("user-{number}.kubeconfig"));
        let written = render_kubeconfig(&self.authority, &self.url, identity)
            .and_then(|content| supervisor::write(&path, content.expose()));
        match written {
            Ok(path) => path,
            Err(error) => fail(&error),
        }
    }

    /// Where the server listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The authority that signed the server's certificate and whose client certificates it trusts.
    pub fn authority_pem(&self) -> &str {
        self.authority.certificate_pem()
    }

    /// The directory with the server's data and logs; it goes with the server.
    pub fn directory(&self) -> &Path {
        self.supervisor.directory()
    }

    /// The processes of the server.
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.id).collect()
    }

    /// The log of all requests.
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(command_lines::audit_log(self.directory()))
    }

    /// A new namespace whose name begins with `prefix`.
    ///
    /// # Panics
    /// If the namespace cannot be made.
    pub async fn namespace(&self, prefix: &str) -> TestNamespace {
        TestNamespace::create(self.config_as(USER_AGENT), self.client(), prefix).await
    }

    fn try_config(&self, identity: &Identity, user_agent: &str) -> Result<Config, Error> {
        let problem = |problem: String| Error::Client {
            url: self.url.clone(),
            problem,
        };
        let kubeconfig = render_kubeconfig(&self.authority, &self.url, identity)?;
        let parsed = kube::config::Kubeconfig::from_yaml(kubeconfig.expose())
            .map_err(|error| problem(error.to_string()))?;
        let authority = CertificateDer::from_pem_slice(self.authority_pem().as_bytes())
            .map_err(|error| problem(error.to_string()))?;
        let url: http::Uri = self
            .url
            .parse()
            .map_err(|error: http::uri::InvalidUri| problem(error.to_string()))?;
        let user_agent = http::HeaderValue::from_str(user_agent)
            .map_err(|error| problem(format!("the user agent is no header: {error}")))?;
        let mut config = Config::new(url);
        config.root_cert = Some(vec![authority.to_vec()]);
        config.auth_info = parsed
            .auth_infos
            .into_iter()
            .next()
            .and_then(|named| named.auth_info)
            .ok_or_else(|| problem("the kubeconfig names no user".to_owned()))?;
        config.headers.push((http::header::USER_AGENT, user_agent));
        Ok(config)
    }

    fn try_client(&self, config: Config) -> Result<Client, Error> {
        Client::try_from(config).map_err(|error| Error::Client {
            url: self.url.clone(),
            problem: error.to_string(),
        })
    }
}

/// Makes all keys and certificates and writes what the programs read.
fn write_files(supervisor: &Supervisor, url: &str) -> Result<(Authority, Files), Error> {
    let authority = Authority::new("butler-testkit-ca", validity()).map_err(Error::Certificates)?;
    let serving = authority
        .issue(&LeafRequest {
            common_name: "kube-apiserver".to_owned(),
            dns_names: vec!["localhost".to_owned(), "kubernetes.default.svc".to_owned()],
            ip_addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ..LeafRequest::new(Usage::Server, validity())
        })
        .map_err(Error::Certificates)?;
    let accounts = ServiceAccountKey::generate().map_err(Error::Certificates)?;
    let admin = render_kubeconfig(&authority, url, &Identity::admin())?;
    let files = Files {
        authority: supervisor.write("ca.crt", authority.certificate_pem())?,
        authority_key: supervisor.write("ca.key", authority.key_pem().expose())?,
        serving_certificate: supervisor.write("apiserver.crt", &serving.certificate_pem)?,
        serving_key: supervisor.write("apiserver.key", serving.key_pem.expose())?,
        service_account_private: supervisor.write("sa.key", accounts.private_pem.expose())?,
        service_account_public: supervisor.write("sa.pub", &accounts.public_pem)?,
        audit_policy: supervisor.write("audit-policy.yaml", command_lines::AUDIT_POLICY)?,
        admin_kubeconfig: supervisor.write("admin.kubeconfig", admin.expose())?,
    };
    Ok((authority, files))
}

fn render_kubeconfig(
    authority: &Authority,
    url: &str,
    identity: &Identity,
) -> Result<butler_pki::SecretText, Error> {
    let client: Leaf = authority
        .issue(&LeafRequest {
            common_name: identity.user.clone(),
            organizations: identity.groups.clone(),
            ..LeafRequest::new(Usage::Client, validity())
        })
        .map_err(Error::Certificates)?;
    Kubeconfig {
        cluster: CLUSTER,
        user: &identity.user,
        server: url,
        authority_pem: authority.certificate_pem(),
        client: &client,
    }
    .render()
    .map_err(Error::Certificates)
}

fn validity() -> Validity {
    Validity::starting(Timestamp::now(), CERTIFICATE_LIFE)
}

/// A port nobody listens on now. Somebody may a moment later: the server is then started anew on another.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

fn ended_early(process: &Process) -> Error {
    if process.wrote("address already in use") {
        return Error::PortTaken { attempts: 1 };
    }
    Error::Ended {
        program: process.program,
        log: process.log_end(),
    }
}

async fn readyz(client: &Client) -> Result<(), String> {
    let request = http::Request::get("/readyz")
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    client
        .request_text(request)
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Ends the test: without its server there is nothing left to test.
#[expect(
    clippy::panic,
    reason = "a test that cannot have its server fails, with the reason in words"
)]
fn fail(error: &Error) -> ! {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    panic!("{text}")
}

//! Databases for tests: real servers on loopback, in a directory that goes with them, under an account that is not root's.

pub(crate) mod etcd;
pub(crate) mod mariadb;
pub(crate) mod nats;
pub(crate) mod postgresql;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use butler_assets::{Asset, Component, Resolver, Settings};
use butler_pki::{Authority, Leaf, LeafRequest, SecretText, Usage, Validity};
use butler_testkit::process::until;
use butler_testkit::{Process, Supervisor};
use jiff::{SignedDuration, Timestamp};
use steward_datastore::{
    AnyStore, ClientCertificate, Connection, Endpoint, Error, Schema, Standing, Store as _, Tenant,
    TenantState, TenantUid, Tls, User,
};

/// How long a server may take to come up on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(1);
/// Attempts to find a port that nobody takes before the server does.
const ATTEMPTS: u32 = 5;
/// The account under which servers run when the tests run as root.
const NOBODY: u32 = 65534;

/// The account that may do everything in a test server.
pub(crate) const ADMINISTRATOR: &str = "steward";
/// Its password, with what would have to be quoted.
pub(crate) const PASSWORD: &str = "it's \"a\" `very` \\secret\\ p@ss/word?";

/// A tenant for whom nothing is left to be done.
pub(crate) const COMPLETE: TenantState = TenantState {
    user: true,
    schema: true,
    granted: true,
    password: true,
};

/// A running server.
pub(crate) struct Server {
    pub(crate) supervisor: Supervisor,
    pub(crate) process: Option<Process>,
    pub(crate) authority: Authority,
    pub(crate) port: u16,
}

impl Server {
    /// A directory, an authority and a port, and nothing that runs yet.
    pub(crate) fn prepare() -> Self {
        let supervisor = Supervisor::start().unwrap();
        let server = Self {
            supervisor,
            process: None,
            authority: Authority::new("stores", year()).unwrap(),
            port: free_port(),
        };
        give_away(server.directory());
        let leaf = server.serving_certificate();
        server.write("server.crt", &leaf.certificate_pem);
        server.write("server.key", leaf.key_pem.expose());
        server.write("ca.crt", server.authority.certificate_pem());
        server
    }

    pub(crate) fn directory(&self) -> &Path {
        self.supervisor.directory()
    }

    /// A path in the directory, as an argument.
    pub(crate) fn path(&self, name: &str) -> String {
        self.directory().join(name).to_string_lossy().into_owned()
    }

    /// Writes a file that the server, and nobody else, can read.
    pub(crate) fn write(&self, name: &str, content: &str) -> String {
        let path = self.supervisor.write(name, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        give_away(&path);
        path.to_string_lossy().into_owned()
    }

    /// Copies a program to where the server's account can read it.
    pub(crate) fn program(&self, path: &Path) -> PathBuf {
        let copy = self.directory().join(path.file_name().unwrap());
        fs::copy(path, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        copy
    }

    /// Runs a program to its end under the server's account.
    pub(crate) fn run_once(&self, program: &Path, arguments: &[String]) {
        let mut words = as_server(program, arguments).into_iter();
        let output = Command::new(words.next().unwrap())
            .args(words)
            .current_dir(self.directory())
            .env("HOME", self.directory())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{} failed: {}{}",
            program.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Starts the server under its account.
    pub(crate) fn start(&mut self, name: &'static str, program: &Path, arguments: &[String]) {
        let words = as_server(program, arguments);
        let (first, rest) = words.split_first().unwrap();
        self.process = Some(self.supervisor.run(name, Path::new(first), rest).unwrap());
    }

    /// Waits until the store answers; nothing if somebody else took the port.
    pub(crate) async fn ready(self, connection: &Connection) -> Option<Self> {
        let store = AnyStore::new(connection.clone()).unwrap();
        let process = self.process.as_ref().unwrap();
        let answer = until(READY_WITHIN, async || {
            if !process.is_running() {
                return Some(false);
            }
            match store.check().await {
                Ok(()) | Err(Error::AuthenticationOff { .. }) => Some(true),
                Err(_) => None,
            }
        })
        .await;
        let log = process.log_end();
        match answer {
            Some(true) => Some(self),
            Some(false) if log.contains("already in use") => None,
            _ => panic!(
                "{} does not come up ({}):\n{log}",
                process.program,
                store
                    .check()
                    .await
                    .map_or_else(|error| error.in_full(), |()| "ready".to_owned())
            ),
        }
    }

    /// What a client with a certificate of this common name shows and trusts.
    pub(crate) fn tls_as(&self, common_name: &str) -> Tls {
        let leaf = self
            .authority
            .issue(&LeafRequest {
                common_name: common_name.to_owned(),
                ..LeafRequest::new(Usage::Client, year())
            })
            .unwrap();
        Tls {
            authority_pem: self.authority.certificate_pem().to_owned(),
            authority_key_pem: None,
            client: Some(ClientCertificate {
                certificate_pem: leaf.certificate_pem,
                key_pem: leaf.key_pem,
            }),
        }
    }

    /// What a client without a certificate trusts.
    pub(crate) fn tls(&self) -> Tls {
        Tls {
            authority_pem: self.authority.certificate_pem().to_owned(),
            authority_key_pem: None,
            client: None,
        }
    }

    fn serving_certificate(&self) -> Leaf {
        self.authority
            .issue(&LeafRequest {
                common_name: "store".to_owned(),
                dns_names: vec!["localhost".to_owned()],
                ip_addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
                ..LeafRequest::new(Usage::Both, year())
            })
            .unwrap()
    }
}

/// Starts a server, on another port if the first was taken.
pub(crate) async fn start(try_once: impl AsyncFn() -> Option<Server>) -> Server {
    for _ in 0..ATTEMPTS {
        if let Some(server) = Box::pin(try_once()).await {
            return server;
        }
    }
    panic!("the ports chosen for the server were taken by others {ATTEMPTS} times in a row");
}

/// A program of Butler's assets.
pub(crate) async fn asset(component: Component) -> PathBuf {
    Resolver::new(Settings::from_env().unwrap())
        .resolve(&Asset::default_of(component))
        .await
        .unwrap()
}

/// A tenant of its own for a test.
pub(crate) fn tenant() -> Tenant {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let uid: TenantUid = format!("1b4e28ba-2fa1-11d2-883f-{number:012x}")
        .parse()
        .unwrap();
    Tenant {
        schema: Schema::of(&uid),
        user: User::of(&uid),
        password: Some(SecretText::new(format!("secret{number}"))),
        standing: Standing::New,
        owner: uid,
    }
}

/// A tenant with these names.
pub(crate) fn named(schema: &str, user: &str) -> Tenant {
    Tenant {
        schema: schema.parse().unwrap(),
        user: user.parse().unwrap(),
        ..tenant()
    }
}

/// Another control plane that chose the names of this one.
pub(crate) fn namesake(tenant: &Tenant) -> Tenant {
    Tenant {
        schema: tenant.schema.clone(),
        user: tenant.user.clone(),
        ..self::tenant()
    }
}

/// Of two control planes that chose the same names, by two data stores that lead to one server, the first has what they are for,
/// whatever is done for the second.
pub(crate) async fn assert_names_have_one_holder(stores: [&AnyStore; 2], first: &Tenant) {
    let second = namesake(first);
    let [store, other] = stores;
    store.ensure_tenant(first).await.unwrap();
    let error = other.ensure_tenant(&second).await.unwrap_err();
    assert_eq!(error.reason(), "DataStoreNameTaken", "{}", error.in_full());
    other.revoke(&second).await.unwrap();
    other.drop_tenant(&second).await.unwrap();
    assert_eq!(store.tenant_state(first).await.unwrap(), COMPLETE);
    // The first one goes on as before, and leaves the names to whoever comes.
    store.ensure_tenant(first).await.unwrap();
    store.drop_tenant(first).await.unwrap();
    other.ensure_tenant(&second).await.unwrap();
    assert_eq!(other.tenant_state(&second).await.unwrap(), COMPLETE);
    other.drop_tenant(&second).await.unwrap();
    assert!(other.tenant_state(&second).await.unwrap().is_gone());
}

/// The same server, by another name of its host.
pub(crate) fn renamed(connection: Connection) -> AnyStore {
    let endpoints = connection.endpoints.into_iter();
    let endpoints = endpoints.map(|endpoint| Endpoint {
        host: "localhost".to_owned(),
        ..endpoint
    });
    AnyStore::new(Connection {
        endpoints: endpoints.collect(),
        ..connection
    })
    .unwrap()
}

/// The same tenant, known to be set up.
pub(crate) fn established(tenant: &Tenant) -> Tenant {
    Tenant {
        standing: Standing::Established,
        ..tenant.clone()
    }
}

pub(crate) fn year() -> Validity {
    Validity::starting(Timestamp::now(), SignedDuration::from_hours(24 * 365))
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn is_root() -> bool {
    butler_testkit::skip::root().check("").is_ok()
}

fn give_away(path: &Path) {
    if is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// The command as another account, where we are root, and with shared memory of its own, which PostgreSQL would leave
/// behind when it is killed.
fn as_server(program: &Path, arguments: &[String]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    if is_root() {
        words.extend(["unshare", "--ipc", "setpriv"].map(str::to_owned));
        words.extend([
            format!("--reuid={NOBODY}"),
            format!("--regid={NOBODY}"),
            "--clear-groups".to_owned(),
            "--no-new-privs".to_owned(),
        ]);
    }
    words.push(program.to_string_lossy().into_owned());
    words.extend(arguments.iter().cloned());
    words
}

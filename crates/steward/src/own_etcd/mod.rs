//! The etcd of the chart `steward-etcd`: its certificates, and who may administer it.
//!
//! `butler steward-etcd certificates` makes what is missing of the certificates, or ends soon, before the members start;
//! `butler steward-etcd administrator` turns authentication on, and only then hands out the certificate of the user root:
//! who finds it finds a store in which tenants are apart. Both are Jobs of the chart, and run again every week.
//!
//! Must not: write over an authority, or over a certificate that is good.

mod error;
mod plan;
mod vault;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use butler_api::{keys::names, steward::data_store::DataStoreDriver};
use butler_pki::Leaf;
use butler_runtime::{
    client::{self, Component},
    shutdown::Shutdown,
};
use jiff::Timestamp;
use kube::Client;
use steward_datastore::{ClientCertificate, Connection, Endpoint, EtcdStore, Store as _, Tls};

pub use error::Error;
pub use plan::{Ending, Found, Order, Part, Reason, Refusal, Wish, endings, plan};
use vault::Vault;

/// The component's name: its user agent.
const COMPONENT: &str = "steward-etcd";
/// The user to whom etcd refuses nothing.
const ROOT: &str = "root";
/// How a member reaches itself.
const LOCALHOST: &str = "localhost";
/// How soon is tried again what may succeed by itself: the network of a new pod, a member that starts.
const GLANCE: Duration = Duration::from_millis(300);
/// The parts that members need to start.
const OF_MEMBERS: [Part; 4] = [
    Part::Authority,
    Part::PeerAuthority,
    Part::Server,
    Part::Peer,
];
/// The parts that are needed to hand out the administrator's certificate.
const OF_ADMINISTRATOR: [Part; 2] = [Part::Authority, Part::Administrator];

/// Verbs of `butler steward-etcd`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Make the certificates that members need: those that are missing, or end soon
    Certificates(CertificatesArguments),
    /// Turn authentication on, then make the certificate of the user root
    Administrator(AdministratorArguments),
}

/// What both verbs need to know.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Name of the store; the names of its Secrets begin with it
    #[arg(long, value_name = "NAME", default_value = COMPONENT)]
    pub name: String,
    /// The namespace of the Secrets
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", default_value = names::STEWARD_NAMESPACE)]
    pub namespace: String,
    /// The kubeconfig of the management cluster; without it KUBECONFIG, the service account or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// For how many seconds to try again what may succeed by itself
    #[arg(long, value_name = "SECONDS", default_value_t = 240)]
    pub patience: u64,
}

/// Flags of `butler steward-etcd certificates`.
#[derive(Clone, Debug, clap::Args)]
pub struct CertificatesArguments {
    /// Where, and for how long.
    #[command(flatten)]
    pub common: Arguments,
    /// A name under which members are reached; may be given several times
    #[arg(long = "dns-name", value_name = "NAME", required = true)]
    pub dns_names: Vec<String>,
}

/// Flags of `butler steward-etcd administrator`.
#[derive(Clone, Debug, clap::Args)]
pub struct AdministratorArguments {
    /// Where, and for how long.
    #[command(flatten)]
    pub common: Arguments,
    /// A member, as host:port; may be given several times
    #[arg(long = "endpoint", value_name = "HOST:PORT", required = true)]
    pub endpoints: Vec<Endpoint>,
}

impl Command {
    const fn common(&self) -> &Arguments {
        match self {
            Self::Certificates(arguments) => &arguments.common,
            Self::Administrator(arguments) => &arguments.common,
        }
    }
}

/// Carries out a verb, and tries again for a while if it fails by something that may pass.
pub async fn run(command: Command, version: &str, shutdown: Shutdown) -> Result<(), Error> {
    client::install_crypto();
    let common = command.common();
    let component = Component::new(COMPONENT, version)?;
    let configuration = client::configuration(common.kubeconfig.as_deref()).await?;
    let client = client::client(configuration, &component)?;
    let patience = Duration::from_secs(common.patience);
    let token = shutdown.token();
    tokio::select! {
        () = token.cancelled() => Err(Error::Interrupted),
        done = persistently(&command, &client, patience) => done,
    }
}

async fn persistently(command: &Command, client: &Client, patience: Duration) -> Result<(), Error> {
    let began = Instant::now();
    let mut told = String::new();
    loop {
        let attempt = match command {
            Command::Certificates(arguments) => certificates(arguments, client).await,
            Command::Administrator(arguments) => administrator(arguments, client).await,
        };
        match attempt {
            Err(error) if error.may_pass() && began.elapsed() < patience => {
                let words = error.in_full();
                if words != told {
                    tracing::warn!(problem = %words, "trying again");
                    told = words;
                }
                tokio::time::sleep(GLANCE).await;
            }
            done => return done,
        }
    }
}

/// Makes what members need, until nothing is missing.
pub async fn certificates(arguments: &CertificatesArguments, client: &Client) -> Result<(), Error> {
    let Arguments {
        name, namespace, ..
    } = &arguments.common;
    let vault = Vault::new(client.clone(), namespace, name);
    let wish = Wish {
        store: name.clone(),
        parts: BTreeSet::from(OF_MEMBERS),
        names: arguments.dns_names.iter().cloned().collect(),
    };
    loop {
        let now = Timestamp::now();
        let contents = vault.open(OF_MEMBERS).await?;
        let found = contents.found();
        let orders = plan(&wish, &found, now)?;
        if orders.is_empty() {
            for ending in endings(&wish, &found, now) {
                tracing::warn!(store = name, "{ending}");
            }
            tracing::info!(store = name, "the certificates of the members are good");
            return Ok(());
        }
        for Order { part, reason } in orders {
            let data = match part.issuer() {
                None => vault::new_authority(&wish, part, now)?,
                Some(issuer) => {
                    let authority = contents.authority(issuer, name)?;
                    let leaf = vault::new_leaf(&wish, part, &authority, now)?;
                    vault::leaf_data(part, &leaf, &authority)
                }
            };
            vault.keep(part, data, &contents).await?;
            tracing::info!(secret = part.secret(name), %reason, "made a certificate");
        }
    }
}

/// Makes the store one in which tenants are apart, and hands out the certificate of its administrator.
pub async fn administrator(
    arguments: &AdministratorArguments,
    client: &Client,
) -> Result<(), Error> {
    let Arguments {
        name, namespace, ..
    } = &arguments.common;
    let vault = Vault::new(client.clone(), namespace, name);
    let part = Part::Administrator;
    let now = Timestamp::now();
    let wish = Wish {
        store: name.clone(),
        parts: BTreeSet::from([part]),
        names: BTreeSet::new(),
    };
    let contents = vault.open(OF_ADMINISTRATOR).await?;
    let authority = contents.authority(Part::Authority, name)?;
    let order = plan(&wish, &contents.found(), now)?.pop();
    let leaf = match (order, contents.leaf(part)) {
        (None, Some(leaf)) => leaf,
        _ => vault::new_leaf(&wish, part, &authority, now)?,
    };
    let store = store(&arguments.endpoints, &leaf, authority.certificate_pem())?;
    if store.require_login().await? {
        tracing::info!(store = name, "authentication is on from now");
    }
    store.check().await?;
    if let Some(order) = order {
        let data = vault::leaf_data(part, &leaf, &authority);
        vault.keep(part, data, &contents).await?;
        let (secret, reason) = (part.secret(name), order.reason);
        tracing::info!(secret, %reason, "made a certificate");
    }
    tracing::info!(store = name, "the store can be used");
    Ok(())
}

fn store(endpoints: &[Endpoint], leaf: &Leaf, authority_pem: &str) -> Result<EtcdStore, Error> {
    let connection = Connection {
        driver: DataStoreDriver::Etcd,
        endpoints: endpoints.to_vec(),
        administrator: None,
        tls: Some(Tls {
            authority_pem: authority_pem.to_owned(),
            authority_key_pem: None,
            client: Some(ClientCertificate {
                certificate_pem: leaf.certificate_pem.clone(),
                key_pem: leaf.key_pem.clone(),
            }),
        }),
    };
    Ok(EtcdStore::new(connection)?)
}

//! Tenants in a NATS server: a `JetStream` key-value bucket.
//!
//! NATS accounts are made in the server's configuration and not by its clients, so there is one account, Steward's, and a
//! store keeps one tenant (see [`crate::claim::is_shareable`]). The bucket's description says whose it is.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::context::{GetStreamErrorKind, KeyValueErrorKind};
use async_nats::jetstream::kv::{Config, Operation, Store as Bucket};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use butler_api::steward::data_store::DataStoreDriver;
use futures::TryStreamExt as _;
use rustls::ClientConfig;

use crate::connection::Connection;
use crate::error::Error;
use crate::store::{Copied, Standing, Store, Tenant, TenantState, within};
use crate::tls;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const CLIENT_NAME: &str = "butler-steward";
/// How many values of a key kine looks back on.
const HISTORY: i64 = 10;
/// Members from which on three copies are kept.
const QUORUM: usize = 3;

/// A NATS server or cluster.
#[derive(Debug)]
pub struct NatsStore {
    connection: Connection,
    tls: Option<Arc<ClientConfig>>,
}

impl NatsStore {
    /// The store of these settings.
    pub fn new(connection: Connection) -> Result<Self, Error> {
        let tls = match &connection.tls {
            Some(tls) => Some(Arc::new(tls::client_config(tls)?)),
            None => None,
        };
        Ok(Self { connection, tls })
    }

    async fn open(&self) -> Result<Context, Error> {
        let mut options = ConnectOptions::new()
            .name(CLIENT_NAME)
            .connection_timeout(CONNECT_WITHIN)
            .max_reconnects(1);
        if let Some(account) = &self.connection.administrator {
            options = options
                .user_and_password(account.user.clone(), account.password.expose().to_owned());
        }
        if let Some(tls) = &self.tls {
            options = options
                .tls_client_config(ClientConfig::clone(tls))
                .require_tls(true);
        }
        let members: Vec<String> = self
            .connection
            .endpoints
            .iter()
            .map(|endpoint| format!("nats://{endpoint}"))
            .collect();
        let client: Client = options.connect(members).await.map_err(|error| {
            let place = self.connection.place();
            match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    Error::LoginRefused {
                        place,
                        source: error.into(),
                    }
                }
                _ => Error::Unreachable {
                    place,
                    source: error.into(),
                },
            }
        })?;
        Ok(jetstream::new(client))
    }

    fn config(&self, tenant: &Tenant) -> Config {
        Config {
            bucket: tenant.schema.as_str().to_owned(),
            description: description(tenant),
            history: HISTORY,
            num_replicas: if self.connection.endpoints.len() < QUORUM {
                1
            } else {
                QUORUM
            },
            ..Config::default()
        }
    }
}

impl Store for NatsStore {
    fn driver(&self) -> DataStoreDriver {
        DataStoreDriver::Nats
    }

    fn place(&self) -> String {
        self.connection.place()
    }

    async fn check(&self) -> Result<(), Error> {
        within("answer", async {
            let context = self.open().await?;
            context
                .query_account()
                .await
                .map(drop)
                .map_err(|error| Error::Unhealthy {
                    place: self.connection.place(),
                    problem: format!("JetStream cannot be used by Steward's account: {error}"),
                })
        })
        .await
    }

    async fn tenant_state(&self, tenant: &Tenant) -> Result<TenantState, Error> {
        within("show the tenant", async {
            let context = self.open().await?;
            let exists = owner(&context, tenant).await?.is_some();
            Ok(TenantState {
                user: exists,
                schema: exists,
                granted: exists,
                password: true,
            })
        })
        .await
    }

    async fn ensure_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        within("make the tenant", async {
            let context = self.open().await?;
            match owner(&context, tenant).await? {
                Some(owner) if !is_ours(&owner, tenant) => Err(Error::NotOurs {
                    what: format!("the bucket \"{}\" of NATS", tenant.schema),
                    why: format!("its description is \"{owner}\""),
                }),
                Some(_) => Ok(()),
                None => context
                    .create_key_value(self.config(tenant))
                    .await
                    .map(drop)
                    .map_err(|error| failure(tenant, "create", error)),
            }
        })
        .await
    }

    async fn revoke(&self, _tenant: &Tenant) -> Result<(), Error> {
        // There is no account of the tenant's.
        Ok(())
    }

    async fn drop_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        within("remove the tenant", async {
            let context = self.open().await?;
            let ours = owner(&context, tenant)
                .await?
                .is_some_and(|owner| is_ours(&owner, tenant));
            if !ours {
                return Ok(());
            }
            match context.delete_key_value(tenant.schema.as_str()).await {
                Ok(_) => Ok(()),
                Err(error) => match owner(&context, tenant).await? {
                    // Somebody was quicker.
                    None => Ok(()),
                    Some(_) => Err(failure(tenant, "delete", error)),
                },
            }
        })
        .await
    }

    async fn count(&self, tenant: &Tenant) -> Result<u64, Error> {
        within("count the tenant's keys", async {
            let context = self.open().await?;
            if owner(&context, tenant).await?.is_none() {
                return Ok(0);
            }
            let bucket = bucket(&context, tenant).await?;
            let keys = keys(&bucket, tenant).await?;
            Ok(u64::try_from(keys.len()).unwrap_or_default())
        })
        .await
    }

    async fn copy_to(&self, tenant: &Tenant, target: &Self) -> Result<Copied, Error> {
        let (from, to) = (self.open().await?, target.open().await?);
        let (from, to) = (bucket(&from, tenant).await?, bucket(&to, tenant).await?);
        let mut copied = Copied::default();
        for key in keys(&from, tenant).await? {
            let entry = from
                .entry(key.as_str())
                .await
                .map_err(|error| failure(tenant, "read a key of", error))?;
            let Some(entry) = entry.filter(|entry| entry.operation == Operation::Put) else {
                continue;
            };
            to.put(&key, entry.value)
                .await
                .map_err(|error| failure(tenant, "write a key of", error))?;
            copied.entries += 1;
        }
        Ok(copied)
    }
}

fn description(tenant: &Tenant) -> String {
    format!("kine of the control plane {}", tenant.user)
}

fn is_ours(owner: &str, tenant: &Tenant) -> bool {
    tenant.standing == Standing::Established || owner == description(tenant)
}

/// The description of the tenant's bucket; none if there is no bucket.
async fn owner(context: &Context, tenant: &Tenant) -> Result<Option<String>, Error> {
    match context.get_stream(format!("KV_{}", tenant.schema)).await {
        Ok(stream) => Ok(Some(
            stream
                .cached_info()
                .config
                .description
                .clone()
                .unwrap_or_default(),
        )),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(said)
                if said.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            _ => Err(failure(tenant, "read", error)),
        },
    }
}

async fn bucket(context: &Context, tenant: &Tenant) -> Result<Bucket, Error> {
    context.get_key_value(tenant.schema.as_str()).await.map_err(
        |error: async_nats::error::Error<KeyValueErrorKind>| failure(tenant, "open", error),
    )
}

/// The keys that have a value, in the order in which they got it.
async fn keys(bucket: &Bucket, tenant: &Tenant) -> Result<Vec<String>, Error> {
    let keys = bucket
        .keys()
        .await
        .map_err(|error| failure(tenant, "list the keys of", error))?;
    keys.try_collect()
        .await
        .map_err(|error| failure(tenant, "list the keys of", error))
}

fn failure(
    tenant: &Tenant,
    verb: &str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    Error::Request {
        action: format!("{verb} the bucket \"{}\"", tenant.schema),
        source: error.into(),
    }
}

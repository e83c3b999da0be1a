//! Tenants in a NATS server: a `JetStream` key-value bucket.
//!
//! NATS accounts are made in the server's configuration and not by its clients, so there is one account, Steward's, and a
//! store keeps one tenant (see [`crate::claim::is_shareable`]). The bucket's description says whose it is.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::context::{GetStreamErrorKind, KeyValueErrorKind};
use async_nats::jetstream::kv::{Config, Operation, Store as Bucket};
use async_nats::jetstream::stream::{self, Info};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use butler_api::steward::data_store::DataStoreDriver;
use futures::TryStreamExt as _;
use rustls::ClientConfig;

use crate::connection::Connection;
use crate::error::Error;
use crate::names::User;
use crate::store::{Copied, Standing, Store, Tenant, TenantState, within};
use crate::tls;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const CLIENT_NAME: &str = "butler-steward";
/// How many values of a key kine looks back on.
const HISTORY: i64 = 10;
/// The size of messages, in bytes, above which a frozen bucket takes none: all of kine's are larger, as values come with
/// their revisions, and deletions are told in a header. Buckets have no rights of their own, and one that is sealed, in NATS'
/// own sense, cannot be opened again.
const FROZEN_SIZE: i32 = 1;
/// The size of messages that stands for any.
const ANY_SIZE: i32 = -1;
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

    async fn identity(&self, tenant: &Tenant) -> Result<Option<String>, Error> {
        within("say which server it is", async {
            // Each member of a cluster has a name of its own, but all of them know since when a bucket is there.
            let stream = stream(&self.open().await?, tenant).await?;
            Ok(stream.map(|stream| stream.created.to_string()))
        })
        .await
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
            let found = stream(&context, tenant).await?;
            let exists = found.is_some();
            let takes = |stream: Info| stream.config.max_message_size != FROZEN_SIZE;
            Ok(TenantState {
                user: exists,
                schema: exists,
                granted: found.is_some_and(takes),
                password: true,
            })
        })
        .await
    }

    async fn ensure_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        Box::pin(within("make the tenant", async {
            let context = self.open().await?;
            match stream(&context, tenant).await? {
                Some(stream) if !is_ours(&stream, tenant) => Err(Error::NotOurs {
                    what: format!("the bucket \"{}\" of NATS", tenant.schema),
                    why: format!("its description is \"{}\"", owner(&stream)),
                }),
                Some(stream) if stream.config.max_message_size == FROZEN_SIZE => {
                    take_messages(&context, tenant, stream, ANY_SIZE).await
                }
                Some(_) => Ok(()),
                None => context
                    .create_key_value(self.config(tenant))
                    .await
                    .map(drop)
                    .map_err(|error| failure(tenant, "create", error)),
            }
        }))
        .await
    }

    async fn freeze(&self, tenant: &Tenant) -> Result<(), Error> {
        within("stop the tenant's writes", async {
            let context = self.open().await?;
            match stream(&context, tenant).await? {
                Some(stream) if stream.config.max_message_size == FROZEN_SIZE => Ok(()),
                Some(stream) => take_messages(&context, tenant, stream, FROZEN_SIZE).await,
                None => Err(Error::Request {
                    action: "stop the tenant's writes".to_owned(),
                    source: format!("there is no bucket \"{}\"", tenant.schema).into(),
                }),
            }
        })
        .await
    }

    async fn is_frozen(&self, tenant: &Tenant) -> Result<bool, Error> {
        within("show the tenant's rights", async {
            let stream = stream(&self.open().await?, tenant).await?;
            Ok(stream.is_some_and(|stream| stream.config.max_message_size == FROZEN_SIZE))
        })
        .await
    }

    async fn revoke(&self, tenant: &Tenant) -> Result<(), Error> {
        within("revoke the tenant's access", async {
            let context = self.open().await?;
            // There is no account of the tenant's: what can be taken away is that its bucket takes writes.
            match stream(&context, tenant).await? {
                Some(stream)
                    if is_ours(&stream, tenant)
                        && stream.config.max_message_size != FROZEN_SIZE =>
                {
                    take_messages(&context, tenant, stream, FROZEN_SIZE).await
                }
                _ => Ok(()),
            }
        })
        .await
    }

    async fn drop_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        within("remove the tenant", async {
            let context = self.open().await?;
            let ours = stream(&context, tenant)
                .await?
                .is_some_and(|stream| is_ours(&stream, tenant));
            if !ours {
                return Ok(());
            }
            match context.delete_key_value(tenant.schema.as_str()).await {
                Ok(_) => Ok(()),
                Err(error) => match stream(&context, tenant).await? {
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
            if stream(&context, tenant).await?.is_none() {
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

/// Whose the bucket is: the control plane's, whatever name it chose.
fn description(tenant: &Tenant) -> String {
    format!("kine of the control plane {}", User::of(&tenant.owner))
}

fn owner(stream: &Info) -> &str {
    stream.config.description.as_deref().unwrap_or_default()
}

fn is_ours(stream: &Info, tenant: &Tenant) -> bool {
    tenant.standing == Standing::Established || owner(stream) == description(tenant)
}

/// What the server knows of the tenant's bucket; none if there is no bucket.
async fn stream(context: &Context, tenant: &Tenant) -> Result<Option<Info>, Error> {
    match context.get_stream(format!("KV_{}", tenant.schema)).await {
        Ok(stream) => Ok(Some(stream.cached_info().clone())),
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

/// Has a bucket take messages up to a size from now on.
async fn take_messages(
    context: &Context,
    tenant: &Tenant,
    stream: Info,
    size: i32,
) -> Result<(), Error> {
    let config = stream::Config {
        max_message_size: size,
        ..stream.config
    };
    context
        .update_stream(config)
        .await
        .map(drop)
        .map_err(|error| failure(tenant, "change", error))
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

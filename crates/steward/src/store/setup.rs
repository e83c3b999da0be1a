//! Gives a control plane its part of a store, and takes it away again. Every step may be repeated, and cut off at any point:
//! the password is in its Secret before the store learns of it, and the Secret says that all is done only when it is.

use std::fmt::Write as _;

use butler_api::{
    conditions::reasons,
    keys::annotations,
    steward::{
        data_store::{DataStore, DataStoreDriver},
        tenant_control_plane::TenantControlPlane,
    },
};
use butler_pki::{Authority, LeafRequest, SecretText, Usage, Validity};
use butler_runtime::{
    api_server::ApiServer,
    cache::Whole,
    failure::{Class, Failure},
    object::{Kind, ObjectKey},
    reconciler::Context,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use rand::RngExt as _;
use serde::Serialize;
use serde_json::json;
use steward_datastore::kine;

use super::{
    Resolver, StoreAccess, StoreError, StoreErrorKind, StoreGrant, StorePort, config_keys,
};
use crate::{
    names::{Names, SecretRole},
    secrets::{Data, Guard, LEAF_LIFE, bytes, checksum, overtaken, secret_kind, write_secret},
};

/// A control plane's part of its stores, to be set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreOrder {
    /// Why.
    pub reason: String,
    /// The `DataStore`.
    pub store: String,
    /// Further `DataStore`s that keep some resources.
    pub overrides: Vec<String>,
    /// The database, or the prefix of the keys.
    pub schema: String,
    /// The user.
    pub user: String,
    /// Whether a set-up of this schema and user was completed before.
    pub established: bool,
    /// Fingerprint of what the set-up depends on, but for the settings themselves.
    pub base: String,
    /// Over what the settings may be written.
    pub config: Guard,
    /// Over what the certificate may be written; nothing if it stays.
    pub certificate: Option<Guard>,
    /// When.
    pub at: Timestamp,
}

/// Fingerprint of a complete set-up with these settings.
pub fn setup_fingerprint(base: &str, config_checksum: &str) -> String {
    let parts = [("base", base), ("config", config_checksum)];
    checksum(
        &parts
            .map(|(name, text)| (name.to_owned(), bytes(text)))
            .into(),
    )
}

/// Sets a control plane's part up.
pub async fn ensure(
    names: &Names,
    order: &StoreOrder,
    port: &dyn StorePort,
    resolver: &Resolver,
    context: &Context,
) -> Result<(), Failure> {
    let api = context.api();
    if !is_wanted(names, api).await? {
        return Err(going(names));
    }
    let access = resolver.usable(&find(&order.store, context)?, api).await?;
    let (data, password) = settings(names, order, &access, api).await?;
    let grant = StoreGrant {
        uid: names.uid().to_owned(),
        schema: order.schema.clone(),
        user: order.user.clone(),
        password,
        established: order.established,
    };
    port.ensure(&access, &grant)
        .await
        .map_err(|error| failed(&order.store, &error))?;
    // Of these nothing is on record.
    let grant = StoreGrant {
        established: false,
        ..grant
    };
    for name in &order.overrides {
        let access = resolver.usable(&find(name, context)?, api).await?;
        port.ensure(&access, &grant)
            .await
            .map_err(|error| failed(name, &error))?;
    }
    if !is_wanted(names, api).await? {
        // Another replica has taken everything away meanwhile, and will not come back for this.
        let stores = std::iter::once(&order.store).chain(&order.overrides);
        let order = DiscardOrder {
            stores: stores.cloned().collect(),
            schema: order.schema.clone(),
            user: order.user.clone(),
            established: order.established,
            patience_is_over: false,
        };
        discard(names, &order, port, resolver, context).await?;
        return Err(going(names));
    }
    if let Some(guard) = &order.certificate
        && let Some(certificate) = certificate(&access, &order.user, order.at)?
    {
        write_secret(
            api,
            names,
            SecretRole::StoreCertificate,
            guard,
            &certificate,
            order.at,
        )
        .await?;
    }
    // Not guarded by a version: whoever changes the settings meanwhile changes what the fingerprint must be.
    let key = names.secret(SecretRole::StoreConfig);
    let setup = setup_fingerprint(&order.base, &checksum(&data));
    let patch =
        json!({ "metadata": { "annotations": { annotations::STEWARD_STORE_SETUP: setup } } });
    let marked = api.merge(&secret_kind(), &key, patch).await;
    marked.map(drop).map_err(|error| overtaken(error, &key))
}

/// Whether the control plane is there to stay, by the API server's own word: a cache may be late, and whatever is made in a
/// store for somebody who is gone stays there for good.
async fn is_wanted(names: &Names, api: &dyn ApiServer) -> Result<bool, Failure> {
    let kind = Kind::of::<TenantControlPlane>();
    let found = api.get(&kind, &names.itself()).await?;
    Ok(found.is_some_and(|found| {
        let metadata = &found["metadata"];
        metadata["uid"] == names.uid() && metadata["deletionTimestamp"].is_null()
    }))
}

fn going(names: &Names) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::DELETING,
        message: format!("{} is being deleted", names.itself()),
    }
}

pub(super) fn find(name: &str, context: &Context) -> Result<DataStore, Failure> {
    let found = context
        .cache::<Whole<DataStore>>()
        .get(&ObjectKey::cluster(name));
    found
        .map(|found| found.value.0.clone())
        .ok_or_else(|| Failure {
            class: Class::Stale,
            reason: reasons::DATA_STORE_NOT_FOUND,
            message: format!("the DataStore {name} is gone"),
        })
}

fn failed(store: &str, error: &StoreError) -> Failure {
    let message = format!("DataStore {store}: {error}");
    match error.kind {
        StoreErrorKind::Unreachable => Failure::retry(reasons::DATA_STORE_UNREACHABLE, message),
        StoreErrorKind::Refused => Failure::retry(reasons::CREDENTIALS_INVALID, message),
        StoreErrorKind::Taken => Failure::terminal(reasons::SCHEMA_TAKEN, message),
        StoreErrorKind::Failed => Failure::retry(reasons::FAILED, message),
        StoreErrorKind::Unsupported => Failure::terminal(reasons::UNSUPPORTED, message),
    }
}

/// The settings as they stand in their Secret, with a new password if there is none or somebody meddled with it.
async fn settings(
    names: &Names,
    order: &StoreOrder,
    access: &StoreAccess,
    api: &dyn ApiServer,
) -> Result<(Data, Option<SecretText>), Failure> {
    let key = names.secret(SecretRole::StoreConfig);
    let found = match &order.config {
        Guard::Absent => None,
        Guard::Version { .. } => api.get(&secret_kind(), &key).await?,
    };
    let found: Option<Secret> = found.and_then(|body| serde_json::from_value(body).ok());
    let kept = found.as_ref().and_then(untouched);
    let user = access.username.as_ref().map_or("", |user| user.expose());
    let (user, password) = match access.driver {
        DataStoreDriver::Etcd => (order.user.as_str(), None),
        // All control planes of such a store, that is one, have its own account.
        DataStoreDriver::Nats => (user, access.password.clone()),
        DataStoreDriver::MySql | DataStoreDriver::PostgreSql => {
            (order.user.as_str(), Some(kept.unwrap_or_else(new_password)))
        }
    };
    let data = config(access, &order.schema, user, password.as_ref());
    let existing = found.as_ref().and_then(|secret| secret.data.as_ref());
    if existing != Some(&data) {
        write_secret(
            api,
            names,
            SecretRole::StoreConfig,
            &order.config,
            &data,
            order.at,
        )
        .await?;
    }
    Ok((data, password))
}

/// The password in a Secret that is as we wrote it.
pub(super) fn untouched(secret: &Secret) -> Option<SecretText> {
    let data = secret.data.as_ref()?;
    let notes = secret.metadata.annotations.as_ref()?;
    let written = notes.get(annotations::STEWARD_CHECKSUM)?;
    let password = String::from_utf8(data.get(config_keys::PASSWORD)?.0.clone()).ok()?;
    (*written == checksum(data) && !password.is_empty()).then(|| SecretText::new(password))
}

fn new_password() -> SecretText {
    let random: [u8; 24] = rand::rng().random();
    let digits = random.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    SecretText::new(digits)
}

fn config(access: &StoreAccess, schema: &str, user: &str, password: Option<&SecretText>) -> Data {
    let password = password.map_or("", |password| password.expose());
    let first = access.endpoints.first().map_or("", String::as_str);
    let members = access.endpoints.iter().map(|member| member.parse());
    let members: Result<Vec<_>, _> = members.collect();
    // What cannot be read is refused when the store is asked for, before any pod is made.
    let endpoint = match (members, schema.parse()) {
        (Ok(members), Ok(schema)) => kine::endpoint(
            access.driver,
            &members,
            &schema,
            user,
            &SecretText::new(password),
        ),
        _ => None,
    };
    let connection = if access.driver == DataStoreDriver::Etcd {
        ""
    } else {
        first
    };
    let mut data = Data::from([
        (config_keys::CONNECTION.to_owned(), bytes(connection)),
        (config_keys::SCHEMA.to_owned(), bytes(schema)),
        (config_keys::USER.to_owned(), bytes(user)),
        (config_keys::PASSWORD.to_owned(), bytes(password)),
    ]);
    data.extend(endpoint.map(|url| (config_keys::ENDPOINT.to_owned(), bytes(url.expose()))));
    data
}

/// What the API server, or kine, shows to the store and checks it by.
fn certificate(access: &StoreAccess, user: &str, at: Timestamp) -> Result<Option<Data>, Failure> {
    let Some(authority_pem) = &access.authority_pem else {
        return Ok(None);
    };
    let mut data = Data::from([("ca.crt".to_owned(), bytes(authority_pem))]);
    let mut show = |certificate: &str, key: &SecretText| {
        data.insert("server.crt".to_owned(), bytes(certificate));
        data.insert("server.key".to_owned(), bytes(key.expose()));
    };
    match (access.driver, &access.authority_key, &access.client) {
        (_, Some(key), _) => {
            let request = LeafRequest {
                common_name: user.to_owned(),
                ..LeafRequest::new(Usage::Client, Validity::starting(at, LEAF_LIFE))
            };
            let authority = Authority::from_pem(authority_pem, key);
            let leaf = authority
                .and_then(|authority| authority.issue(&request))
                .map_err(|error| {
                    let message = format!(
                        "DataStore {}: cannot issue a client certificate: {error}",
                        access.name
                    );
                    Failure::retry(error.reason(), message)
                })?;
            show(&leaf.certificate_pem, &leaf.key_pem);
        }
        // To etcd, a certificate is who one is: its administrator's is not for others.
        (DataStoreDriver::Etcd, None, _) => {
            let message = format!(
                "DataStore {}: control planes need certificates of their own; give it tlsConfig.certificateAuthority.privateKey",
                access.name
            );
            return Err(Failure::retry(reasons::CREDENTIALS_INVALID, message));
        }
        (_, None, Some((certificate, key))) => show(certificate, key),
        _ => {}
    }
    Ok(Some(data))
}

/// A control plane's part of its stores, to be taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscardOrder {
    /// The `DataStore`s.
    pub stores: Vec<String>,
    /// The database, or the prefix of the keys.
    pub schema: String,
    /// The user.
    pub user: String,
    /// Whether the set-up was completed once.
    pub established: bool,
    /// Whether a store that is itself being deleted, and does not do what it is asked, is left to its fate.
    pub patience_is_over: bool,
}

/// Takes a control plane's part of some stores away. A store that is gone holds nobody.
pub async fn discard(
    names: &Names,
    order: &DiscardOrder,
    port: &dyn StorePort,
    resolver: &Resolver,
    context: &Context,
) -> Result<(), Failure> {
    let grant = StoreGrant {
        uid: names.uid().to_owned(),
        schema: order.schema.clone(),
        user: order.user.clone(),
        password: None,
        established: order.established,
    };
    for name in &order.stores {
        let Ok(store) = find(name, context) else {
            tracing::warn!(store = name, tenant = %names.itself(), "the data store is gone, and what was in it with it");
            continue;
        };
        let done = match resolver.access(&store, context.api()).await? {
            Ok(access) => port
                .discard(&access, &grant)
                .await
                .map_err(|error| failed(name, &error)),
            Err(problem) => Err(Failure::retry(reasons::CREDENTIALS_INVALID, problem)),
        };
        let is_leaving = store.metadata.deletion_timestamp.is_some();
        match done {
            Err(failure) if is_leaving && order.patience_is_over => {
                tracing::warn!(store = name, tenant = %names.itself(), %failure, "a data store that is being deleted keeps its remains");
            }
            done => done?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use butler_pki::is_issued_by;

    use super::*;
    use crate::testing::now;

    fn access(driver: DataStoreDriver) -> StoreAccess {
        StoreAccess {
            name: "default".to_owned(),
            driver,
            endpoints: vec!["db.example.com:5432".to_owned(), "other:5432".to_owned()],
            authority_pem: None,
            authority_key: None,
            client: None,
            username: None,
            password: None,
        }
    }

    #[test]
    fn settings_of_each_driver() {
        let told: Vec<_> = [
            DataStoreDriver::Etcd,
            DataStoreDriver::MySql,
            DataStoreDriver::PostgreSql,
            DataStoreDriver::Nats,
        ]
        .into_iter()
        .map(|driver| {
            let password = SecretText::new("p@ss/word");
            let data = config(&access(driver), "shop", "t1", Some(&password));
            let lines = data
                .iter()
                .map(|(key, value)| format!("{key}={}", String::from_utf8_lossy(&value.0)));
            lines.collect::<Vec<_>>().join("\n")
        })
        .collect();
        insta::assert_snapshot!(told.join("\n\n"), @"
        DB_CONNECTION_STRING=
        DB_PASSWORD=p@ss/word
        DB_SCHEMA=shop
        DB_USER=t1

        DB_CONNECTION_STRING=db.example.com:5432
        DB_ENDPOINT=mysql://t1:p@ss/word@tcp(db.example.com:5432)/shop
        DB_PASSWORD=p@ss/word
        DB_SCHEMA=shop
        DB_USER=t1

        DB_CONNECTION_STRING=db.example.com:5432
        DB_ENDPOINT=postgres://t1:p%40ss%2Fword@db.example.com:5432,other:5432/shop?target_session_attrs=read-write
        DB_PASSWORD=p@ss/word
        DB_SCHEMA=shop
        DB_USER=t1

        DB_CONNECTION_STRING=db.example.com:5432
        DB_ENDPOINT=nats://t1:p%40ss%2Fword@db.example.com:5432?bucket=shop&noEmbed,nats://other:5432
        DB_PASSWORD=p@ss/word
        DB_SCHEMA=shop
        DB_USER=t1
        ");
    }

    #[test]
    fn a_password_that_somebody_changed_is_not_used() {
        let data = config(
            &access(DataStoreDriver::MySql),
            "shop",
            "t1",
            Some(&SecretText::new("one")),
        );
        let secret = |data: &Data, written: &str| {
            let body = json!({
                "metadata": { "annotations": { annotations::STEWARD_CHECKSUM: written } }, "data": data,
            });
            serde_json::from_value::<Secret>(body).unwrap()
        };
        let written = checksum(&data);
        assert_eq!(
            untouched(&secret(&data, &written)),
            Some(SecretText::new("one"))
        );
        let mut changed = data.clone();
        changed.insert(config_keys::PASSWORD.to_owned(), bytes("two"));
        assert_eq!(untouched(&secret(&changed, &written)), None);
    }

    /// A store with TLS, and its authority.
    fn encrypted(driver: DataStoreDriver) -> (Authority, StoreAccess) {
        let life = Validity::starting(now(), LEAF_LIFE);
        let authority = Authority::new("stores", life).unwrap();
        let access = StoreAccess {
            authority_pem: Some(authority.certificate_pem().to_owned()),
            client: Some(("administrator".to_owned(), SecretText::new("key"))),
            ..access(driver)
        };
        (authority, access)
    }

    #[test]
    fn a_control_plane_gets_a_certificate_of_its_own_where_there_is_an_authority() {
        for driver in [DataStoreDriver::Etcd, DataStoreDriver::PostgreSql] {
            let (authority, access) = encrypted(driver);
            let access = StoreAccess {
                authority_key: Some(authority.key_pem().clone()),
                ..access
            };
            let data = certificate(&access, "t1", now()).unwrap();
            let shown = data.unwrap()["server.crt"].clone();
            let shown = String::from_utf8(shown.0).unwrap();
            assert!(is_issued_by(&shown, authority.certificate_pem()).unwrap());
        }
    }

    #[test]
    fn the_administrators_certificate_of_an_etcd_is_nobody_elses() {
        let (_, access) = encrypted(DataStoreDriver::Etcd);
        let failure = certificate(&access, "t1", now()).unwrap_err();
        assert_eq!(failure.reason, reasons::CREDENTIALS_INVALID);
        let (_, access) = encrypted(DataStoreDriver::PostgreSql);
        let data = certificate(&access, "t1", now()).unwrap();
        assert_eq!(data.unwrap()["server.crt"], bytes("administrator"));
    }

    #[test]
    fn passwords_are_long_and_never_the_same() {
        let (one, other) = (new_password(), new_password());
        assert_eq!(one.expose().len(), 48);
        assert_ne!(one, other);
    }
}

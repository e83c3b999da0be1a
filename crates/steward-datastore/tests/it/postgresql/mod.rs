//! The life of a tenant in a PostgreSQL server.

mod names;

use std::cell::RefCell;
use std::time::Duration;

use butler_testkit::process::until;
use butler_testkit::requires;
use futures::future::join_all;
use pretty_assertions::assert_eq;
use steward_datastore::quote::postgresql::identifier;
use steward_datastore::{
    AnyStore, Copied, Error, Leftovers, Standing, Store as _, Tenant, TenantState, migrate,
};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use crate::servers::postgresql::{PostgreSql, installed};
use crate::servers::{ADMINISTRATOR, COMPLETE, PASSWORD, named, renamed, tenant};

/// How long a session may take to notice something; less than a freeze waits for a write.
const PATIENCE: Duration = Duration::from_secs(5);
/// kine's table as older versions of kine make it.
const OLD_TABLE: &str = "\
    CREATE TABLE kine (id SERIAL PRIMARY KEY, name VARCHAR(630), created INTEGER, deleted INTEGER, \
    create_revision INTEGER, prev_revision INTEGER, lease INTEGER, value bytea, old_value bytea)";

/// A connection, and what moves its bytes.
struct Connected {
    client: Client,
    transport: JoinSet<()>,
}

async fn connect(
    server: &PostgreSql,
    user: &str,
    password: &str,
    database: &str,
) -> Result<Connected, tokio_postgres::Error> {
    let (client, connection) = Config::new()
        .host("127.0.0.1")
        .port(server.server.port)
        .user(user)
        .password(password)
        .dbname(database)
        .connect(NoTls)
        .await?;
    let mut transport = JoinSet::new();
    transport.spawn(async move {
        let _ = connection.await;
    });
    Ok(Connected { client, transport })
}

async fn enter(server: &PostgreSql, tenant: &Tenant) -> Result<Connected, tokio_postgres::Error> {
    let password = tenant.password.as_ref().unwrap().expose();
    connect(
        server,
        tenant.user.as_str(),
        password,
        tenant.schema.as_str(),
    )
    .await
}

async fn administrator(server: &PostgreSql, database: &str) -> Client {
    let mut connected = connect(server, ADMINISTRATOR, PASSWORD, database)
        .await
        .unwrap();
    // It ends with the client, or with the test's runtime.
    connected.transport.detach_all();
    connected.client
}

async fn exists(server: &PostgreSql, database: &str) -> bool {
    let client = administrator(server, "postgres").await;
    client
        .query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&database])
        .await
        .unwrap()
        .is_some()
}

fn code(outcome: Result<Connected, tokio_postgres::Error>) -> SqlState {
    outcome.err().unwrap().code().unwrap().clone()
}

#[tokio::test]
async fn a_tenant_keeps_its_table_until_it_is_revoked_and_is_gone_when_it_is_dropped() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let (store, tenant) = (server.store(), tenant());
    store.check().await.unwrap();
    assert_eq!(
        store.tenant_state(&tenant).await.unwrap(),
        TenantState::default()
    );
    assert_eq!(store.count(&tenant).await.unwrap(), 0);
    store.drop_tenant(&tenant).await.unwrap();

    for _again in 0..2 {
        store.ensure_tenant(&tenant).await.unwrap();
        assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    }
    let connected = enter(server, &tenant).await.unwrap();
    connected.client.batch_execute(OLD_TABLE).await.unwrap();
    connected
        .client
        .batch_execute("INSERT INTO kine (name) VALUES ('/registry/a')")
        .await
        .unwrap();
    assert_eq!(store.count(&tenant).await.unwrap(), 1);

    for _again in 0..2 {
        store.revoke(&tenant).await.unwrap();
        let state = store.tenant_state(&tenant).await.unwrap();
        assert_eq!(
            state,
            TenantState {
                schema: true,
                ..TenantState::default()
            }
        );
    }
    connected
        .client
        .batch_execute("SELECT 1")
        .await
        .unwrap_err();
    assert_eq!(
        code(enter(server, &tenant).await),
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION
    );
    store.ensure_tenant(&tenant).await.unwrap();
    enter(server, &tenant).await.unwrap();
    assert_eq!(store.count(&tenant).await.unwrap(), 1);

    for _again in 0..2 {
        store.drop_tenant(&tenant).await.unwrap();
        assert!(store.tenant_state(&tenant).await.unwrap().is_gone());
    }
    assert!(!exists(server, tenant.schema.as_str()).await);
}

#[tokio::test]
async fn a_tenant_cannot_enter_the_database_of_another() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let (store, one, other) = (server.store(), tenant(), tenant());
    store.ensure_tenant(&one).await.unwrap();
    store.ensure_tenant(&other).await.unwrap();
    let intruder = Tenant {
        schema: other.schema.clone(),
        ..one.clone()
    };
    assert_eq!(
        code(enter(server, &intruder).await),
        SqlState::INSUFFICIENT_PRIVILEGE
    );
    let connected = enter(server, &one).await.unwrap();
    for attack in [
        format!(
            "DROP DATABASE {}",
            identifier(other.schema.as_str()).unwrap()
        ),
        format!("SET ROLE {}", identifier(other.user.as_str()).unwrap()),
        format!(
            "ALTER ROLE {} PASSWORD 'mine'",
            identifier(other.user.as_str()).unwrap()
        ),
        "CREATE ROLE more SUPERUSER".to_owned(),
        "CREATE DATABASE more".to_owned(),
    ] {
        let error = connected.client.batch_execute(&attack).await.unwrap_err();
        assert_eq!(
            error.code(),
            Some(&SqlState::INSUFFICIENT_PRIVILEGE),
            "{attack}"
        );
    }
    assert_eq!(store.tenant_state(&other).await.unwrap(), COMPLETE);
}

#[tokio::test]
async fn a_changed_password_reaches_the_server_and_none_is_in_its_log() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let (store, old) = (server.store(), tenant());
    store.ensure_tenant(&old).await.unwrap();
    let new = Tenant {
        password: Some(butler_pki::SecretText::new("chän'ged\\\"`$")),
        ..old.clone()
    };
    assert_eq!(
        store.tenant_state(&new).await.unwrap(),
        TenantState {
            password: false,
            ..COMPLETE
        }
    );
    store.ensure_tenant(&new).await.unwrap();
    assert_eq!(store.tenant_state(&new).await.unwrap(), COMPLETE);
    assert_eq!(code(enter(server, &old).await), SqlState::INVALID_PASSWORD);

    let log = std::fs::read_to_string(server.server.directory().join("postgres.log")).unwrap();
    assert!(log.contains("CREATE ROLE"), "statements are logged");
    for password in [old.password.unwrap(), new.password.unwrap()] {
        assert!(!log.contains(&format!("'{}'", password.expose())));
        assert!(!log.contains("chän"));
    }
}

#[tokio::test]
async fn an_administrator_need_not_be_a_superuser() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let client = administrator(server, "postgres").await;
    client
        .batch_execute("CREATE ROLE clerk LOGIN CREATEDB CREATEROLE PASSWORD 'clerk'")
        .await
        .unwrap();
    let store = AnyStore::new(server.connection_as("clerk", "clerk")).unwrap();
    let tenant = tenant();
    store.check().await.unwrap();
    assert!(store.identity(&tenant).await.unwrap().is_some());
    for _again in 0..2 {
        store.ensure_tenant(&tenant).await.unwrap();
    }
    assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    let connected = enter(server, &tenant).await.unwrap();
    connected.client.batch_execute(OLD_TABLE).await.unwrap();
    store.revoke(&tenant).await.unwrap();
    store.drop_tenant(&tenant).await.unwrap();
    assert!(store.tenant_state(&tenant).await.unwrap().is_gone());
}

#[tokio::test]
async fn a_check_says_what_is_wrong() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let client = administrator(server, "postgres").await;
    client
        .batch_execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        .await
        .unwrap();
    let check = async |connection| {
        AnyStore::new(connection)
            .unwrap()
            .check()
            .await
            .unwrap_err()
    };

    let error = check(server.connection_as("guest", "guest")).await;
    assert_eq!(
        error.to_string(),
        "Steward's account at the data store may not create databases and roles: ALTER ROLE it with CREATEDB CREATEROLE"
    );
    let error = check(server.connection_as("guest", "hunter2")).await;
    assert_eq!(
        error.reason(),
        "DataStoreLoginRefused",
        "{}",
        error.in_full()
    );
    assert!(!error.in_full().contains("hunter2") && !format!("{error:?}").contains("hunter2"));

    let mut connection = server.connection();
    connection.endpoints[0].port = 1;
    let error = check(connection).await;
    assert!(
        error.may_pass() && error.reason() == "DataStoreUnreachable",
        "{}",
        error.in_full()
    );

    let stranger = butler_pki::Authority::new("stranger", crate::servers::year()).unwrap();
    let mut connection = server.connection();
    connection.tls.as_mut().unwrap().authority_pem = stranger.certificate_pem().to_owned();
    let error = check(connection).await;
    assert_eq!(
        error.reason(),
        "DataStoreUnreachable",
        "{}",
        error.in_full()
    );

    let mut connection = server.connection();
    connection.tls = None;
    AnyStore::new(connection).unwrap().check().await.unwrap();
}

#[tokio::test]
async fn a_fleet_is_set_up_at_once() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let store = server.store();
    let tenants: Vec<Tenant> = (0..3).map(|_| tenant()).collect();
    let outcomes = join_all(
        tenants
            .iter()
            .chain(&tenants)
            .map(|tenant| store.ensure_tenant(tenant)),
    )
    .await;
    for outcome in outcomes {
        outcome.unwrap();
    }
    for tenant in &tenants {
        assert_eq!(store.tenant_state(tenant).await.unwrap(), COMPLETE);
    }
}

#[tokio::test]
async fn a_tenant_needs_a_password_and_a_name_that_fits() {
    requires!(installed());
    let store = PostgreSql::shared().await.store();
    let without = Tenant {
        password: None,
        ..tenant()
    };
    assert!(matches!(
        store.ensure_tenant(&without).await.unwrap_err(),
        Error::NoPassword { .. }
    ));
    let long = named(&"s".repeat(64), "short");
    let error = store.ensure_tenant(&long).await.unwrap_err();
    assert_eq!(
        error.reason(),
        "InvalidDataStoreName",
        "{}",
        error.in_full()
    );
}

#[tokio::test]
async fn a_tenant_moves_with_all_its_rows_and_numbers_go_on() {
    requires!(installed());
    let (old, new) = (PostgreSql::shared().await, PostgreSql::start().await);
    let tenant = tenant();
    old.store().ensure_tenant(&tenant).await.unwrap();
    let source = enter(old, &tenant).await.unwrap();
    source.client.batch_execute(OLD_TABLE).await.unwrap();
    source
        .client
        .batch_execute(
            "INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value, old_value) \
             SELECT '/registry/pods/' || n, 1, 0, 0, n, 0, decode(md5(n::text), 'hex'), NULL \
             FROM generate_series(1, 5000) n",
        )
        .await
        .unwrap();

    let copied = migrate(&old.store(), &new.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap();
    assert_eq!(
        copied,
        Copied {
            entries: 5000,
            ..Copied::default()
        }
    );
    let target = enter(&new, &tenant).await.unwrap();
    let digest = "SELECT md5(string_agg(k::text, ',' ORDER BY id)) FROM kine k";
    let read =
        async |client: &Client| -> String { client.query_one(digest, &[]).await.unwrap().get(0) };
    assert_eq!(read(&source.client).await, read(&target.client).await);
    let next = "INSERT INTO kine (name) VALUES ('/next') RETURNING id::bigint";
    assert_eq!(
        target
            .client
            .query_one(next, &[])
            .await
            .unwrap()
            .get::<_, i64>(0),
        5001
    );

    // Back again, over what was left there.
    let error = migrate(&new.store(), &old.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "TargetInUse");
    let returning = Tenant {
        standing: Standing::Established,
        ..tenant.clone()
    };
    migrate(&new.store(), &old.store(), &returning, Leftovers::Remove)
        .await
        .unwrap();
    assert_eq!(old.store().count(&tenant).await.unwrap(), 5001);
}

#[tokio::test]
async fn a_store_by_two_names_is_one_store_and_loses_nothing() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let (store, tenant) = (server.store(), tenant());
    store.ensure_tenant(&tenant).await.unwrap();
    let connected = enter(server, &tenant).await.unwrap();
    connected.client.batch_execute(OLD_TABLE).await.unwrap();
    let write = "INSERT INTO kine (name) VALUES ('/registry/a')";
    connected.client.batch_execute(write).await.unwrap();

    let same = renamed(server.connection());
    let error = migrate(&store, &same, &tenant, Leftovers::Remove)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "SameDataStore", "{}", error.in_full());
    assert_eq!(store.count(&tenant).await.unwrap(), 1);
    connected.client.batch_execute(write).await.unwrap();
}

/// Waits until a session in the tenant's database waits for another one.
async fn until_somebody_waits_in(observer: &Client, tenant: &Tenant) {
    let waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'";
    let seen = until(PATIENCE, async || {
        let rows = observer.query(waiting, &[&tenant.schema.as_str()]).await;
        (!rows.unwrap().is_empty()).then_some(())
    });
    seen.await.expect("the freeze waits for the write");
}

#[tokio::test]
async fn nobody_writes_into_what_is_copied_until_it_is_set_up_again() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let (store, tenant) = (server.store(), tenant());
    store.ensure_tenant(&tenant).await.unwrap();
    let connected = enter(server, &tenant).await.unwrap();
    connected.client.batch_execute(OLD_TABLE).await.unwrap();
    let write = "INSERT INTO kine (name) VALUES ('/registry/a')";
    connected.client.batch_execute(write).await.unwrap();

    // A write that is under way is waited for, and is in what is copied.
    connected.client.batch_execute("BEGIN").await.unwrap();
    connected.client.batch_execute(write).await.unwrap();
    let observer = administrator(server, "postgres").await;
    let order = RefCell::new(Vec::new());
    let freeze = async {
        store.freeze(&tenant).await.unwrap();
        order.borrow_mut().push("the freeze holds");
    };
    let commit = async {
        until_somebody_waits_in(&observer, &tenant).await;
        order.borrow_mut().push("the write ends");
        connected.client.batch_execute("COMMIT").await.unwrap();
    };
    tokio::join!(freeze, commit);
    assert_eq!(order.into_inner(), ["the write ends", "the freeze holds"]);
    store.freeze(&tenant).await.unwrap();
    assert!(store.is_frozen(&tenant).await.unwrap());
    assert_eq!(store.count(&tenant).await.unwrap(), 2);
    for refused in [write, "DELETE FROM kine", "UPDATE kine SET name = 'x'"] {
        let error = connected.client.batch_execute(refused).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    }
    let rows = connected.client.query("SELECT * FROM kine", &[]).await;
    assert_eq!(rows.unwrap().len(), 2);
    assert!(!store.tenant_state(&tenant).await.unwrap().granted);

    for _again in 0..2 {
        store.ensure_tenant(&tenant).await.unwrap();
        assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    }
    connected.client.batch_execute(write).await.unwrap();
}

#[tokio::test]
async fn a_control_plane_that_never_started_moves_too() {
    requires!(installed());
    let (old, new) = (PostgreSql::shared().await, PostgreSql::start().await);
    let tenant = tenant();
    old.store().ensure_tenant(&tenant).await.unwrap();
    let copied = migrate(&old.store(), &new.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap();
    assert_eq!(copied, Copied::default());
    assert!(old.store().is_frozen(&tenant).await.unwrap());
    assert_eq!(new.store().tenant_state(&tenant).await.unwrap(), COMPLETE);
}

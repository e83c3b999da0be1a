//! The life of a tenant in a `MariaDB` server.

mod names;

use butler_testkit::requires;
use futures::future::join_all;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, OptsBuilder, Row};
use pretty_assertions::assert_eq;
use steward_datastore::quote::mysql::{SESSION_MODE, identifier};
use steward_datastore::{
    AnyStore, Copied, Error, Leftovers, Store as _, Tenant, TenantState, migrate,
};

use crate::servers::mariadb::{MariaDb, installed};
use crate::servers::{ADMINISTRATOR, COMPLETE, PASSWORD, established, named, renamed, tenant};

/// kine's table, as far as these tests need it.
const TABLE: &str = "\
    CREATE TABLE kine (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(630) CHARACTER SET ascii, \
    created INTEGER, deleted INTEGER, create_revision BIGINT UNSIGNED, prev_revision BIGINT UNSIGNED, lease INTEGER, \
    value MEDIUMBLOB, old_value MEDIUMBLOB)";

async fn connect(
    server: &MariaDb,
    user: &str,
    password: &str,
    database: Option<&str>,
) -> Result<Conn, mysql_async::Error> {
    let opts: Opts = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(server.server.port)
        .prefer_socket(false)
        .user(Some(user))
        .pass(Some(password))
        .db_name(database)
        .init(vec![SESSION_MODE])
        .into();
    Conn::new(opts).await
}

async fn enter(server: &MariaDb, tenant: &Tenant) -> Result<Conn, mysql_async::Error> {
    let password = tenant.password.as_ref().unwrap().expose();
    connect(
        server,
        tenant.user.as_str(),
        password,
        Some(tenant.schema.as_str()),
    )
    .await
}

async fn administrator(server: &MariaDb) -> Conn {
    connect(server, ADMINISTRATOR, PASSWORD, None)
        .await
        .unwrap()
}

fn number<T>(outcome: Result<T, mysql_async::Error>) -> u16 {
    match outcome.err().unwrap() {
        mysql_async::Error::Server(error) => error.code,
        other => panic!("no answer of the server: {other}"),
    }
}

async fn exists(server: &MariaDb, database: &str) -> bool {
    let found: Vec<String> = administrator(server)
        .await
        .exec(
            "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?",
            (database,),
        )
        .await
        .unwrap();
    !found.is_empty()
}

#[tokio::test]
async fn a_tenant_keeps_its_table_until_it_is_revoked_and_is_gone_when_it_is_dropped() {
    requires!(installed());
    let server = MariaDb::shared().await;
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
    let mut connected = enter(server, &tenant).await.unwrap();
    connected.query_drop(TABLE).await.unwrap();
    connected
        .query_drop("INSERT INTO kine (name) VALUES ('/registry/a')")
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
    connected.query_drop("SELECT 1").await.unwrap_err();
    enter(server, &tenant).await.unwrap_err();
    store.ensure_tenant(&tenant).await.unwrap();
    assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    assert_eq!(store.count(&tenant).await.unwrap(), 1);

    for _again in 0..2 {
        store.drop_tenant(&tenant).await.unwrap();
        assert!(store.tenant_state(&tenant).await.unwrap().is_gone());
    }
    assert!(!exists(server, tenant.schema.as_str()).await);
}

#[tokio::test]
async fn a_tenant_cannot_enter_a_database_of_a_similar_name() {
    requires!(installed());
    let server = MariaDb::shared().await;
    let store = server.store();
    let one = named("fleet_a", "fleet_a");
    let neighbours = [
        named("fleet-a", "fleet-a"),
        named("fleetxa", "fleetxa"),
        tenant(),
    ];
    store.ensure_tenant(&one).await.unwrap();
    for other in &neighbours {
        store.ensure_tenant(other).await.unwrap();
        let intruder = Tenant {
            schema: other.schema.clone(),
            ..one.clone()
        };
        assert_eq!(
            number(enter(server, &intruder).await),
            1044,
            "{}",
            other.schema
        );
        let mut connected = enter(server, &one).await.unwrap();
        let elsewhere = identifier(other.schema.as_str()).unwrap();
        assert_eq!(
            number(
                connected
                    .query_drop(format!("CREATE TABLE {elsewhere}.t (a INT)"))
                    .await
            ),
            1142
        );
        assert_eq!(
            number(
                connected
                    .query_drop(format!("DROP DATABASE {elsewhere}"))
                    .await
            ),
            1044
        );
        assert_eq!(
            number(connected.query_drop("CREATE DATABASE more").await),
            1044
        );
    }
    // The longer of two similar names goes; the other stays.
    store.drop_tenant(&established(&one)).await.unwrap();
    for other in &neighbours {
        assert_eq!(store.tenant_state(other).await.unwrap(), COMPLETE);
    }
}

#[tokio::test]
async fn a_changed_password_reaches_the_server() {
    requires!(installed());
    let server = MariaDb::shared().await;
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
    assert_eq!(number(enter(server, &old).await), 1045);
}

#[tokio::test]
async fn a_check_says_what_is_wrong() {
    requires!(installed());
    let server = MariaDb::shared().await;
    administrator(server)
        .await
        .query_drop("CREATE USER guest@'%' IDENTIFIED BY 'guest'")
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
        error.reason(),
        "DataStoreAccessDenied",
        "{}",
        error.in_full()
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

    // A member that is down is passed over.
    let mut connection = server.connection();
    connection
        .endpoints
        .insert(0, "127.0.0.1:1".parse().unwrap());
    AnyStore::new(connection).unwrap().check().await.unwrap();
}

#[tokio::test]
async fn a_fleet_is_set_up_at_once() {
    requires!(installed());
    let server = MariaDb::shared().await;
    let store = server.store();
    let tenants: Vec<Tenant> = (0..4).map(|_| tenant()).collect();
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
async fn a_tenant_needs_a_password() {
    requires!(installed());
    let store = MariaDb::shared().await.store();
    let without = Tenant {
        password: None,
        ..tenant()
    };
    assert!(matches!(
        store.ensure_tenant(&without).await.unwrap_err(),
        Error::NoPassword { .. }
    ));
}

#[tokio::test]
async fn a_tenant_moves_with_all_its_rows_and_numbers_go_on() {
    requires!(installed());
    let (old, new) = (MariaDb::shared().await, MariaDb::start().await);
    let tenant = named("moving-tenant", "moving-tenant");
    old.store().ensure_tenant(&tenant).await.unwrap();
    let mut source = enter(old, &tenant).await.unwrap();
    source.query_drop(TABLE).await.unwrap();
    source
        .query_drop(
            "INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value, old_value) \
             SELECT concat('/registry/pods/', seq), 1, 0, 0, seq, 0, unhex(md5(seq)), NULL FROM seq_1_to_1234",
        )
        .await
        .unwrap();
    source
        .query_drop("INSERT INTO kine (name, value) VALUES ('/registry/large', repeat('x', 3000000)), ('/registry/larger', repeat('y', 3000000))")
        .await
        .unwrap();

    let copied = migrate(&old.store(), &new.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap();
    assert_eq!(
        copied,
        Copied {
            entries: 1236,
            ..Copied::default()
        }
    );
    // The connection from before was ended, for the sake of its rights.
    source.ping().await.unwrap_err();
    let mut source = enter(old, &tenant).await.unwrap();
    let mut target = enter(&new, &tenant).await.unwrap();
    let all = "SELECT id, name, created, deleted, create_revision, prev_revision, lease, value, old_value \
               FROM kine ORDER BY id";
    let originals: Vec<Row> = source.exec(all, ()).await.unwrap();
    let arrivals: Vec<Row> = target.exec(all, ()).await.unwrap();
    let values = |rows: Vec<Row>| rows.into_iter().map(Row::unwrap).collect::<Vec<_>>();
    assert!(values(originals) == values(arrivals), "the copy differs");
    target
        .query_drop("INSERT INTO kine (name) VALUES ('/next')")
        .await
        .unwrap();
    let last: Option<u64> = source
        .query_first("SELECT max(id) FROM kine")
        .await
        .unwrap();
    assert_eq!(target.last_insert_id(), last.map(|last| last + 1));
}

#[tokio::test]
async fn a_store_by_two_names_is_one_store_and_loses_nothing() {
    requires!(installed());
    let server = MariaDb::shared().await;
    let (store, tenant) = (server.store(), tenant());
    store.ensure_tenant(&tenant).await.unwrap();
    let mut connected = enter(server, &tenant).await.unwrap();
    connected.query_drop(TABLE).await.unwrap();
    let write = "INSERT INTO kine (name) VALUES ('/registry/a')";
    connected.query_drop(write).await.unwrap();
    let same = renamed(server.connection());
    let error = migrate(&store, &same, &tenant, Leftovers::Remove)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "SameDataStore", "{}", error.in_full());
    assert_eq!(store.count(&tenant).await.unwrap(), 1);
    let mut connected = enter(server, &tenant).await.unwrap();
    connected.query_drop(write).await.unwrap();
}

#[tokio::test]
async fn nobody_writes_into_what_is_copied_until_it_is_set_up_again() {
    requires!(installed());
    let server = MariaDb::shared().await;
    let (store, tenant) = (server.store(), tenant());
    store.ensure_tenant(&tenant).await.unwrap();
    let mut before = enter(server, &tenant).await.unwrap();
    before.query_drop(TABLE).await.unwrap();
    let write = "INSERT INTO kine (name) VALUES ('/registry/a')";
    before.query_drop(write).await.unwrap();
    for _again in 0..2 {
        store.freeze(&tenant).await.unwrap();
        assert!(store.is_frozen(&tenant).await.unwrap());
    }
    before.query_drop(write).await.unwrap_err();
    let mut meanwhile = enter(server, &tenant).await.unwrap();
    for refused in [write, "DELETE FROM kine", "UPDATE kine SET name = 'x'"] {
        assert_eq!(number(meanwhile.query_drop(refused).await), 1142);
    }
    let kept: Option<u64> = meanwhile
        .query_first("SELECT count(*) FROM kine")
        .await
        .unwrap();
    assert_eq!(kept, Some(1));
    assert!(!store.tenant_state(&tenant).await.unwrap().granted);

    for _again in 0..2 {
        store.ensure_tenant(&tenant).await.unwrap();
        assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    }
    // Connections with the rights of that time are gone.
    meanwhile.query_drop(write).await.unwrap_err();
    let mut after = enter(server, &tenant).await.unwrap();
    after.query_drop(write).await.unwrap();
}

//! Names that belong to somebody else, and names that are attacks.

use butler_testkit::requires;
use pretty_assertions::assert_eq;
use steward_datastore::Store as _;
use steward_datastore::quote::postgresql::identifier;

use super::{OLD_TABLE, administrator, connect, enter, exists};
use crate::servers::postgresql::{PostgreSql, installed};
use crate::servers::{
    ADMINISTRATOR, COMPLETE, assert_names_have_one_holder, established, named, renamed,
};

#[tokio::test]
async fn what_belongs_to_somebody_else_is_neither_taken_nor_dropped() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let store = server.store();
    let client = administrator(server, "postgres").await;
    client
        .batch_execute("CREATE DATABASE accounting")
        .await
        .unwrap();
    client
        .batch_execute("CREATE ROLE accountant LOGIN PASSWORD 'x'")
        .await
        .unwrap();
    client
        .batch_execute("CREATE DATABASE ledger OWNER accountant")
        .await
        .unwrap();
    client
        .batch_execute("CREATE ROLE chief SUPERUSER LOGIN PASSWORD 'x'")
        .await
        .unwrap();

    for (schema, user) in [
        ("accounting", "newcomer"),
        ("ledger", "newcomer"),
        ("newcomers", "accountant"),
        ("newcomers", "chief"),
        ("newcomers", ADMINISTRATOR),
    ] {
        let tenant = named(schema, user);
        let error = store.ensure_tenant(&tenant).await.unwrap_err();
        assert_eq!(
            error.reason(),
            "DataStoreNameTaken",
            "{schema} {user}: {}",
            error.in_full()
        );
        store.drop_tenant(&tenant).await.unwrap();
    }
    // On record or not, an account that may do everything is no tenant's, and a database of another owner is not ours.
    for tenant in [named("newcomers", "chief"), named("ledger", "newcomer")] {
        assert_eq!(
            store
                .ensure_tenant(&established(&tenant))
                .await
                .unwrap_err()
                .reason(),
            "DataStoreNameTaken"
        );
        store.drop_tenant(&established(&tenant)).await.unwrap();
    }
    assert!(exists(server, "accounting").await && exists(server, "ledger").await);
    connect(server, "accountant", "x", "ledger").await.unwrap();
    connect(server, "chief", "x", "postgres").await.unwrap();
}

#[tokio::test]
async fn a_database_on_record_whose_owner_is_ours_is_given_to_its_tenant() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let (store, tenant) = (server.store(), named("old_tenant", "old_tenant"));
    let client = administrator(server, "postgres").await;
    client
        .batch_execute("CREATE DATABASE old_tenant")
        .await
        .unwrap();
    administrator(server, "old_tenant")
        .await
        .batch_execute(OLD_TABLE)
        .await
        .unwrap();
    assert_eq!(
        store.ensure_tenant(&tenant).await.unwrap_err().reason(),
        "DataStoreNameTaken"
    );
    store.ensure_tenant(&established(&tenant)).await.unwrap();
    assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    let connected = enter(server, &tenant).await.unwrap();
    connected
        .client
        .batch_execute("INSERT INTO kine (name) VALUES ('/a')")
        .await
        .unwrap();
    store.drop_tenant(&established(&tenant)).await.unwrap();
    assert!(!exists(server, "old_tenant").await);
}

#[tokio::test]
async fn names_that_two_choose_are_those_of_the_first_by_whatever_store_they_come() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let (store, other) = (server.store(), renamed(server.connection()));
    let first = named("shared_name", "shared_name");
    Box::pin(assert_names_have_one_holder([&store, &other], &first)).await;
}

#[tokio::test]
async fn the_server_reads_a_quoted_attack_as_the_name_it_is() {
    requires!(installed());
    let server = PostgreSql::shared().await;
    let client = administrator(server, "postgres").await;
    client.batch_execute("CREATE ROLE bystander").await.unwrap();
    let long = "x".repeat(63);
    for name in [
        "a\"; DROP ROLE bystander; --",
        "\"",
        "\"\"",
        "'",
        "a'b",
        "`",
        "\\",
        "\\\"",
        "$$",
        "-- ",
        "/*",
        "a;b",
        " ",
        "ä",
        "\u{202e}a",
        "\u{1f600}",
        "Robert'); DROP ROLE bystander;--",
        "\n",
        long.as_str(),
    ] {
        let quoted = identifier(name).unwrap();
        client
            .batch_execute(&format!("CREATE ROLE {quoted}"))
            .await
            .unwrap();
        let found = client
            .query("SELECT 1 FROM pg_roles WHERE rolname = $1", &[&name])
            .await
            .unwrap();
        assert_eq!(found.len(), 1, "{name:?}");
        client
            .batch_execute(&format!("DROP ROLE {quoted}"))
            .await
            .unwrap();
    }
    client.batch_execute("DROP ROLE bystander").await.unwrap();
}

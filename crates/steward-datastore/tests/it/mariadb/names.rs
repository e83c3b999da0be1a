//! Names that belong to somebody else, and names that are attacks.

use butler_testkit::requires;
use mysql_async::prelude::Queryable as _;
use pretty_assertions::assert_eq;
use steward_datastore::quote::mysql::{account, identifier, literal};
use steward_datastore::{Store as _, Tenant, TenantState};

use super::{administrator, connect, enter, exists, number};
use crate::servers::mariadb::{MariaDb, installed};
use crate::servers::{
    ADMINISTRATOR, COMPLETE, assert_names_have_one_holder, established, named, renamed,
};

#[tokio::test]
async fn a_grant_of_an_older_installation_that_reaches_similar_names_is_narrowed() {
    requires!(installed());
    let server = MariaDb::shared().await;
    let (store, tenant) = (server.store(), named("old_tenant", "old_tenant"));
    let mut conn = administrator(server).await;
    let password = literal(tenant.password.as_ref().unwrap().expose()).unwrap();
    for statement in [
        "CREATE DATABASE old_tenant".to_owned(),
        format!("CREATE USER 'old_tenant'@'%' IDENTIFIED BY {password}"),
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX ON `old_tenant`.* TO 'old_tenant'@'%'".to_owned(),
        "CREATE DATABASE `old-tenant`".to_owned(),
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    let neighbour = Tenant {
        schema: "old-tenant".parse().unwrap(),
        ..tenant.clone()
    };
    enter(server, &neighbour)
        .await
        .expect("this is what is wrong with it");
    assert_eq!(
        store.tenant_state(&tenant).await.unwrap(),
        TenantState {
            granted: false,
            ..COMPLETE
        }
    );

    store.ensure_tenant(&established(&tenant)).await.unwrap();
    assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    enter(server, &tenant).await.unwrap();
    assert_eq!(number(enter(server, &neighbour).await), 1044);
}

#[tokio::test]
async fn what_belongs_to_somebody_else_is_neither_taken_nor_dropped() {
    requires!(installed());
    let server = MariaDb::shared().await;
    let store = server.store();
    let mut conn = administrator(server).await;
    for statement in [
        "CREATE DATABASE accounting",
        "CREATE TABLE accounting.ledger (a INT)",
        "CREATE DATABASE payroll",
        "CREATE USER accountant@'%' IDENTIFIED BY 'x'",
        "GRANT ALL ON payroll.* TO accountant@'%'",
        "CREATE USER chief@'%' IDENTIFIED BY 'x'",
        "GRANT ALL ON *.* TO chief@'%'",
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    for (schema, user) in [
        ("accounting", "newcomer"),
        ("payroll", "newcomer"),
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
    let chief = established(&named("newcomers", "chief"));
    assert_eq!(
        store.ensure_tenant(&chief).await.unwrap_err().reason(),
        "DataStoreNameTaken"
    );
    store.drop_tenant(&chief).await.unwrap();
    store
        .drop_tenant(&established(&named("payroll", "newcomer")))
        .await
        .unwrap();
    assert!(exists(server, "accounting").await && exists(server, "payroll").await);
    connect(server, "accountant", "x", Some("payroll"))
        .await
        .unwrap();
    connect(server, "chief", "x", None).await.unwrap();
}

#[tokio::test]
async fn names_that_two_choose_are_those_of_the_first_by_whatever_store_they_come() {
    requires!(installed());
    let server = MariaDb::shared().await;
    let (store, other) = (server.store(), renamed(server.connection()));
    let first = named("shared_name", "shared_name");
    Box::pin(assert_names_have_one_holder([&store, &other], &first)).await;
}

#[tokio::test]
async fn the_server_reads_a_quoted_attack_as_the_name_it_is() {
    requires!(installed());
    let server = MariaDb::shared().await;
    let mut conn = administrator(server).await;
    conn.query_drop("CREATE DATABASE bystander").await.unwrap();
    let long = "x".repeat(64);
    for name in [
        "a`; DROP DATABASE bystander; -- ;",
        "`",
        "``",
        "'",
        "a'b",
        "\"",
        "\\",
        "\\`",
        "%",
        "a_b",
        "-- x",
        "/*",
        "a;b",
        "ä",
        "\u{202e}a",
        "x'); DROP DATABASE bystander;--",
        long.as_str(),
    ] {
        let quoted = identifier(name).unwrap();
        conn.query_drop(format!("CREATE DATABASE {quoted}"))
            .await
            .unwrap();
        assert!(exists(server, name).await, "{name:?}");
        conn.query_drop(format!("DROP DATABASE {quoted}"))
            .await
            .unwrap();
        let text: Option<String> = conn
            .query_first(format!("SELECT {}", literal(name).unwrap()))
            .await
            .unwrap();
        assert_eq!(text.as_deref(), Some(name));
    }
    for name in [
        "a'@'localhost",
        "a\\",
        "a`b",
        "x'; DROP DATABASE bystander; -- x",
    ] {
        let quoted = account(name).unwrap();
        conn.query_drop(format!("CREATE USER {quoted}"))
            .await
            .unwrap();
        let found: Vec<String> = conn
            .exec(
                "SELECT User FROM mysql.user WHERE User = ? AND Host = '%'",
                (name,),
            )
            .await
            .unwrap();
        assert_eq!(found, [name]);
        conn.query_drop(format!("DROP USER {quoted}"))
            .await
            .unwrap();
    }
    conn.query_drop("DROP DATABASE bystander").await.unwrap();
}

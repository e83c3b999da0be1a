//! Settings as they are given.

use pretty_assertions::assert_eq;

use super::*;
use crate::AnyStore;

fn open_postgresql(endpoints: Vec<Endpoint>) -> Connection {
    Connection {
        driver: DataStoreDriver::PostgreSql,
        endpoints,
        administrator: Some(Credentials {
            user: "steward".to_owned(),
            password: SecretText::new("hunter2"),
        }),
        tls: None,
    }
}

#[test]
fn a_password_is_not_shown_by_debug() {
    let shown = format!("{:?}", open_postgresql(Vec::new()));
    assert!(
        shown.contains("steward") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn a_store_without_members_is_none() {
    let error = AnyStore::new(open_postgresql(Vec::new())).unwrap_err();
    assert_eq!(
        error.in_full(),
        "cannot use the settings of the data store: spec.endpoints is empty: name at least one member as host:port"
    );
}

#[test]
fn endpoints_are_a_host_and_a_port() {
    for text in ["etcd:2379", "10.0.0.1:2379", "[::1]:2379", "my_db.svc:1"] {
        assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "etcd",
        "https://etcd:2379",
        "etcd:0",
        "etcd:99999",
        "::1:2379",
        "[etcd]:2379",
        "a/b:1",
        "a@b:1",
        "a)b:1",
        ":1",
        "a b:1",
        "a?b:1",
    ] {
        text.parse::<Endpoint>().unwrap_err();
    }
}

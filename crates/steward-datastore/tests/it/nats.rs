//! The life of a tenant in a NATS server.

use async_nats::jetstream;
use async_nats::jetstream::kv::Config;
use pretty_assertions::assert_eq;
use steward_datastore::{AnyStore, Copied, Leftovers, Store as _, migrate};

use crate::servers::nats::Nats;
use crate::servers::{COMPLETE, assert_names_have_one_holder, established, named, renamed, tenant};

/// The server, as kine would speak to it.
async fn context(server: &Nats) -> jetstream::Context {
    let connection = server.connection(None);
    let account = connection.administrator.unwrap();
    let authority = server.server.path("ca.crt");
    let client = async_nats::ConnectOptions::with_user_and_password(
        account.user,
        account.password.expose().to_owned(),
    )
    .add_root_certificates(authority.into())
    .require_tls(true)
    .connect(format!("nats://127.0.0.1:{}", server.server.port))
    .await
    .unwrap();
    jetstream::new(client)
}

#[tokio::test]
async fn a_tenant_has_a_bucket_until_it_is_dropped() {
    let server = Nats::start().await;
    let (store, tenant) = (server.store(), tenant());
    store.check().await.unwrap();
    assert!(store.tenant_state(&tenant).await.unwrap().is_gone());
    assert_eq!(store.count(&tenant).await.unwrap(), 0);
    store.drop_tenant(&tenant).await.unwrap();

    for _again in 0..2 {
        store.ensure_tenant(&tenant).await.unwrap();
        assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    }
    let bucket = context(&server)
        .await
        .get_key_value(tenant.schema.as_str())
        .await
        .unwrap();
    bucket.put("registry.pods.a", "1".into()).await.unwrap();
    bucket.put("registry.pods.a", "2".into()).await.unwrap();
    bucket.put("registry.pods.b", "1".into()).await.unwrap();
    bucket.delete("registry.pods.b").await.unwrap();
    assert_eq!(store.count(&tenant).await.unwrap(), 1);

    for _again in 0..2 {
        store.revoke(&tenant).await.unwrap();
        assert!(!store.tenant_state(&tenant).await.unwrap().is_complete());
    }
    bucket
        .put("registry.pods.a", "33".into())
        .await
        .unwrap_err();
    bucket
        .put("registry.pods.c", "11".into())
        .await
        .unwrap_err();
    bucket.delete("registry.pods.a").await.unwrap_err();
    assert_eq!(store.count(&tenant).await.unwrap(), 1, "the state stays");
    store.ensure_tenant(&tenant).await.unwrap();
    bucket.put("registry.pods.a", "3".into()).await.unwrap();

    store.revoke(&tenant).await.unwrap();
    for _again in 0..2 {
        store.drop_tenant(&tenant).await.unwrap();
        assert!(store.tenant_state(&tenant).await.unwrap().is_gone());
    }
}

#[tokio::test]
async fn a_server_that_speaks_openly_keeps_tenants_too() {
    let server = Nats::start_unencrypted().await;
    let (store, tenant) = (server.store(), tenant());
    store.check().await.unwrap();
    store.ensure_tenant(&tenant).await.unwrap();
    assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    store.drop_tenant(&tenant).await.unwrap();
    assert!(store.tenant_state(&tenant).await.unwrap().is_gone());
}

#[tokio::test]
async fn a_bucket_of_somebody_else_is_neither_taken_nor_deleted() {
    let server = Nats::start().await;
    let (store, tenant) = (server.store(), named("metrics", "newcomer"));
    let foreign = Config {
        bucket: "metrics".to_owned(),
        ..Config::default()
    };
    context(&server)
        .await
        .create_key_value(foreign)
        .await
        .unwrap();
    assert_eq!(
        store.ensure_tenant(&tenant).await.unwrap_err().reason(),
        "DataStoreNameTaken"
    );
    store.revoke(&tenant).await.unwrap();
    store.drop_tenant(&tenant).await.unwrap();
    let state = store.tenant_state(&tenant).await.unwrap();
    assert!(state.schema && state.granted, "it is left as it is");
    // One that is on record as the tenant's is taken as it is: older installations left no mark.
    store.ensure_tenant(&established(&tenant)).await.unwrap();
    store.drop_tenant(&established(&tenant)).await.unwrap();
    assert!(store.tenant_state(&tenant).await.unwrap().is_gone());
}

#[tokio::test]
async fn a_check_says_what_is_wrong() {
    let server = Nats::start().await;
    let check = async |connection| {
        AnyStore::new(connection)
            .unwrap()
            .check()
            .await
            .unwrap_err()
    };
    let error = check(server.connection(Some("hunter2"))).await;
    assert_eq!(
        error.reason(),
        "DataStoreLoginRefused",
        "{}",
        error.in_full()
    );
    assert!(!error.in_full().contains("hunter2") && !format!("{error:?}").contains("hunter2"));

    let mut connection = server.connection(None);
    connection.endpoints[0].port = 1;
    let error = check(connection).await;
    assert!(
        error.may_pass() && error.reason() == "DataStoreUnreachable",
        "{}",
        error.in_full()
    );

    let stranger = butler_pki::Authority::new("stranger", crate::servers::year()).unwrap();
    let mut connection = server.connection(None);
    connection.tls.as_mut().unwrap().authority_pem = stranger.certificate_pem().to_owned();
    let error = check(connection).await;
    assert_eq!(
        error.reason(),
        "DataStoreUnreachable",
        "{}",
        error.in_full()
    );
}

#[tokio::test]
async fn a_tenant_moves_with_all_its_keys_in_their_order() {
    let (old, new) = (Nats::start().await, Nats::start().await);
    let tenant = tenant();
    old.store().ensure_tenant(&tenant).await.unwrap();
    let source = context(&old)
        .await
        .get_key_value(tenant.schema.as_str())
        .await
        .unwrap();
    for number in 0..300 {
        source
            .put(
                format!("registry.{}", number % 200),
                number.to_string().into(),
            )
            .await
            .unwrap();
    }
    source.delete("registry.7").await.unwrap();

    let copied = migrate(&old.store(), &new.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap();
    assert_eq!(
        copied,
        Copied {
            entries: 199,
            ..Copied::default()
        }
    );
    let target = context(&new)
        .await
        .get_key_value(tenant.schema.as_str())
        .await
        .unwrap();
    for number in 0..200 {
        let key = format!("registry.{number}");
        assert_eq!(
            source.get(key.as_str()).await.unwrap(),
            target.get(key.as_str()).await.unwrap(),
            "{key}"
        );
    }
    // What was written last has the highest number still.
    let late = target.entry("registry.99").await.unwrap().unwrap().revision;
    let early = target
        .entry("registry.199")
        .await
        .unwrap()
        .unwrap()
        .revision;
    assert!(early < late);
}

#[tokio::test]
async fn names_that_two_choose_are_those_of_the_first_by_whatever_store_they_come() {
    let server = Nats::start().await;
    let (store, other) = (server.store(), renamed(server.connection(None)));
    let first = named("shared_name", "shared_name");
    Box::pin(assert_names_have_one_holder([&store, &other], &first)).await;
}

#[tokio::test]
async fn a_store_by_two_names_is_one_store_and_loses_nothing() {
    let server = Nats::start().await;
    let (store, tenant) = (server.store(), tenant());
    store.ensure_tenant(&tenant).await.unwrap();
    let context = context(&server).await;
    let bucket = context.get_key_value(tenant.schema.as_str()).await.unwrap();
    bucket.put("registry.a", "1".into()).await.unwrap();
    let same = renamed(server.connection(None));
    let error = migrate(&store, &same, &tenant, Leftovers::Remove)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "SameDataStore", "{error}");
    assert_eq!(store.count(&tenant).await.unwrap(), 1);
    bucket.put("registry.a", "2".into()).await.unwrap();
}

#[tokio::test]
async fn nobody_writes_into_what_is_copied_until_it_is_set_up_again() {
    let server = Nats::start().await;
    let (store, tenant) = (server.store(), tenant());
    store.ensure_tenant(&tenant).await.unwrap();
    let context = context(&server).await;
    let bucket = context.get_key_value(tenant.schema.as_str()).await.unwrap();
    bucket.put("registry.a", "1".into()).await.unwrap();
    for _again in 0..2 {
        store.freeze(&tenant).await.unwrap();
        assert!(store.is_frozen(&tenant).await.unwrap());
    }
    bucket.put("registry.a", "late".into()).await.unwrap_err();
    bucket.put("registry.b", "late".into()).await.unwrap_err();
    bucket.delete("registry.a").await.unwrap_err();
    let kept = bucket.get("registry.a").await.unwrap();
    assert_eq!(kept.as_deref(), Some(b"1".as_slice()));
    assert!(!store.tenant_state(&tenant).await.unwrap().granted);
    for _again in 0..2 {
        store.ensure_tenant(&tenant).await.unwrap();
        assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    }
    bucket.put("registry.a", "2".into()).await.unwrap();
}

//! Tenants that move from one etcd to another.

use butler_api::steward::data_store::DataStoreDriver;
use butler_proto::etcd::kv_client::KvClient;
use butler_proto::etcd::lease_client::LeaseClient;
use butler_proto::etcd::{LeaseGrantRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest};
use pretty_assertions::assert_eq;
use steward_datastore::{
    AnyStore, Connection, Copied, Error, KeyRange, Leftovers, Store as _, Tenant, migrate,
};
use tonic::Code;

use super::{key, put, put_as, settled, value};
use crate::servers::etcd::Etcd;
use crate::servers::{COMPLETE, established, renamed, tenant};

/// Fills a tenant's keys and answers their number.
async fn fill(etcd: &Etcd, tenant: &Tenant, keys: usize, size: usize) -> u64 {
    let channel = etcd.channel_as(tenant.user.as_str()).await;
    for number in 0..keys {
        let value = number
            .to_string()
            .into_bytes()
            .into_iter()
            .cycle()
            .take(size)
            .collect();
        let request = PutRequest {
            key: key(tenant, &format!("{number:05}")),
            value,
            lease: 0,
        };
        put(&channel, &request).await.unwrap();
    }
    etcd.store().count(tenant).await.unwrap()
}

#[tokio::test]
async fn a_tenant_moves_with_all_its_keys_and_its_perishable_ones_still_perish() {
    let (old, new) = (Etcd::shared().await, Etcd::start().await);
    let tenant = tenant();
    old.store().ensure_tenant(&tenant).await.unwrap();
    fill(old, &tenant, 250, 10_000).await;
    let channel = old.channel_as(tenant.user.as_str()).await;
    let lease = LeaseClient::new(channel.clone())
        .lease_grant(LeaseGrantRequest { ttl: 3600, id: 0 })
        .await
        .unwrap()
        .into_inner()
        .id;
    for name in ["events/a", "events/b"] {
        let request = PutRequest {
            key: key(&tenant, name),
            value: b"event".to_vec(),
            lease,
        };
        put(&channel, &request).await.unwrap();
    }

    let copied = migrate(&old.store(), &new.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap();
    assert_eq!(
        copied,
        Copied {
            entries: 252,
            perishable: 2,
            behind: 0
        }
    );
    assert_eq!(new.store().tenant_state(&tenant).await.unwrap(), COMPLETE);
    let range = KeyRange::of(&tenant.schema);
    let all = RangeRequest {
        key: range.start().to_vec(),
        range_end: range.end().to_vec(),
        ..RangeRequest::default()
    };
    let read = async |etcd: &Etcd| {
        let channel = etcd.channel_as(tenant.user.as_str()).await;
        let found = settled(async || KvClient::new(channel.clone()).range(all.clone()).await).await;
        found
            .unwrap()
            .kvs
            .into_iter()
            .map(|found| (found.key, found.value, found.lease))
            .collect::<Vec<_>>()
    };
    let (originals, arrivals) = (read(old).await, read(&new).await);
    let without_lease = |found: &[(Vec<u8>, Vec<u8>, i64)]| {
        found
            .iter()
            .map(|(key, value, lease)| (key.clone(), value.clone(), *lease != 0))
            .collect::<Vec<_>>()
    };
    assert_eq!(without_lease(&originals), without_lease(&arrivals));
    let renewed = arrivals.iter().find(|(_, _, lease)| *lease != 0).unwrap().2;
    let left = LeaseClient::new(new.channel_as("root").await)
        .lease_time_to_live(LeaseTimeToLiveRequest {
            id: renewed,
            keys: true,
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(left.keys.len(), 2, "one lease for both");
    assert!((3000..=3600).contains(&left.ttl), "{}", left.ttl);
}

#[tokio::test]
async fn a_tenant_that_comes_back_finds_what_it_brings_and_not_what_it_left() {
    let (one, two) = (Etcd::shared().await, Etcd::start().await);
    let tenant = tenant();
    one.store().ensure_tenant(&tenant).await.unwrap();
    fill(one, &tenant, 3, 1).await;
    migrate(&one.store(), &two.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap();
    put_as(
        &two,
        tenant.user.as_str(),
        key(&tenant, "00000"),
        b"new".to_vec(),
    )
    .await
    .unwrap();

    let error = migrate(&two.store(), &one.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "TargetInUse", "{error}");
    migrate(&two.store(), &one.store(), &tenant, Leftovers::Remove)
        .await
        .unwrap();
    assert_eq!(
        value(one, key(&tenant, "00000")).await,
        Some(b"new".to_vec())
    );
    assert_eq!(one.store().count(&tenant).await.unwrap(), 3);
}

#[tokio::test]
async fn a_move_that_fails_leaves_the_source_as_it_was_and_the_target_empty() {
    let (old, small) = (
        Etcd::shared().await,
        Etcd::start_with(&["--quota-backend-bytes=200000"]).await,
    );
    small.enable_authentication().await;
    let tenant = tenant();
    old.store().ensure_tenant(&tenant).await.unwrap();
    let keys = fill(old, &tenant, 100, 20_000).await;

    let error = migrate(&old.store(), &small.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap_err();
    assert!(
        error.in_full().contains("database space exceeded"),
        "{}",
        error.in_full()
    );
    assert_eq!(old.store().count(&tenant).await.unwrap(), keys);
    assert_eq!(old.store().tenant_state(&tenant).await.unwrap(), COMPLETE);
    assert!(small.store().tenant_state(&tenant).await.unwrap().is_gone());
    assert_eq!(small.store().count(&tenant).await.unwrap(), 0);
    // And the full store says so.
    let error = small.store().check().await.unwrap_err();
    assert_eq!(error.reason(), "DataStoreUnhealthy", "{error}");
}

#[tokio::test]
async fn a_store_by_two_names_is_one_store_and_loses_nothing() {
    let etcd = Etcd::shared().await;
    let tenant = tenant();
    etcd.store().ensure_tenant(&tenant).await.unwrap();
    let keys = fill(etcd, &tenant, 3, 1).await;
    for tenant in [&tenant, &established(&tenant)] {
        let error = migrate(
            &etcd.store(),
            &renamed(etcd.connection_as("root")),
            tenant,
            Leftovers::Remove,
        )
        .await
        .unwrap_err();
        assert_eq!(error.reason(), "SameDataStore", "{error}");
        assert!(!error.may_pass());
    }
    assert_eq!(etcd.store().count(&tenant).await.unwrap(), keys);
    assert_eq!(etcd.store().tenant_state(&tenant).await.unwrap(), COMPLETE);
}

#[tokio::test]
async fn nobody_writes_into_what_is_copied_until_it_is_set_up_again() {
    let (old, new) = (Etcd::shared().await, Etcd::start().await);
    let tenant = tenant();
    let user = tenant.user.as_str();
    old.store().ensure_tenant(&tenant).await.unwrap();
    fill(old, &tenant, 3, 1).await;
    migrate(&old.store(), &new.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap();

    // An API server that has not heard of the move yet goes on reading and showing that it is alive, and no more.
    let write = async |etcd: &Etcd, name: &str| {
        put_as(etcd, user, key(&tenant, name), b"late".to_vec()).await
    };
    assert_eq!(write(old, "00000").await, Err(Code::PermissionDenied));
    assert_eq!(write(old, "pods/a").await, Err(Code::PermissionDenied));
    assert_eq!(write(old, "leases").await, Err(Code::PermissionDenied));
    write(old, "leases/kube-node-lease/node").await.unwrap();
    write(old, "masterleases/10.0.0.1").await.unwrap();
    let channel = old.channel_as(user).await;
    let request = RangeRequest {
        key: key(&tenant, "00000"),
        ..RangeRequest::default()
    };
    let found = settled(async || KvClient::new(channel.clone()).range(request.clone()).await).await;
    assert_eq!(found.unwrap().kvs.len(), 1);
    assert!(old.store().is_frozen(&tenant).await.unwrap());
    assert!(!old.store().tenant_state(&tenant).await.unwrap().granted);
    write(&new, "00000").await.unwrap();

    // The way back.
    for tenant in [&tenant, &established(&tenant)] {
        for _again in 0..2 {
            old.store().freeze(tenant).await.unwrap();
        }
        for _again in 0..2 {
            old.store().ensure_tenant(tenant).await.unwrap();
            assert_eq!(old.store().tenant_state(tenant).await.unwrap(), COMPLETE);
        }
        write(old, "00000").await.unwrap();
    }
}

#[tokio::test]
async fn whoever_watched_the_old_store_is_not_ahead_of_the_new_one() {
    let (old, young) = (Etcd::start().await, Etcd::start().await);
    let tenant = tenant();
    old.store().ensure_tenant(&tenant).await.unwrap();
    fill(&old, &tenant, 500, 1).await;
    let revision = async |etcd: &Etcd| {
        let request = RangeRequest {
            key: key(&tenant, "00000"),
            ..RangeRequest::default()
        };
        let mut keys = KvClient::new(etcd.channel_as("root").await);
        let found = keys.range(request).await.unwrap().into_inner();
        (found.header.unwrap().revision, found.kvs.len())
    };
    assert!(revision(&young).await.0 < revision(&old).await.0);
    let copied = migrate(&old.store(), &young.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap();
    assert_eq!((copied.entries, copied.behind), (500, 0));
    let ((before, _), (after, keys)) = (revision(&old).await, revision(&young).await);
    assert!(before < after, "{before} {after}");
    assert_eq!(keys, 1);
    assert_eq!(young.store().count(&tenant).await.unwrap(), 500);
}

#[tokio::test]
async fn a_tenant_moves_neither_to_where_it_is_nor_to_another_kind_of_store() {
    let etcd = Etcd::shared().await;
    let tenant = tenant();
    let error = migrate(&etcd.store(), &etcd.store(), &tenant, Leftovers::Refuse)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "SameDataStore");
    let postgresql = AnyStore::new(Connection {
        driver: DataStoreDriver::PostgreSql,
        ..etcd.connection_as("root")
    })
    .unwrap();
    let error = migrate(&etcd.store(), &postgresql, &tenant, Leftovers::Refuse)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::DifferentDrivers { .. }), "{error}");
}

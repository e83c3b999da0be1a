//! The life of a tenant in an etcd.

mod moves;
mod owners;

use butler_proto::etcd::auth_client::AuthClient;
use butler_proto::etcd::kv_client::KvClient;
use butler_proto::etcd::permission::Type;
use butler_proto::etcd::{
    AuthRoleAddRequest, AuthRoleGrantPermissionRequest, AuthUserAddRequest, AuthUserDeleteRequest,
    AuthUserGrantRoleRequest, Permission, PutRequest, RangeRequest, UserAddOptions,
};
use futures::future::join_all;
use pretty_assertions::assert_eq;
use steward_datastore::{AnyStore, Endpoint, Store as _, Tenant, TenantState};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use crate::servers::etcd::Etcd;
use crate::servers::{COMPLETE, established, named, tenant};

fn key(tenant: &Tenant, name: &str) -> Vec<u8> {
    format!("/{}/{name}", tenant.schema).into_bytes()
}

/// Asks until users and roles do not change meanwhile: who meets such a change is told to try again, and real clients do.
async fn settled<T>(ask: impl AsyncFn() -> Result<Response<T>, Status>) -> Result<T, Status> {
    loop {
        match ask().await {
            Err(status) if status.message().ends_with("revision of auth store is old") => {}
            outcome => return outcome.map(Response::into_inner),
        }
    }
}

async fn put(channel: &Channel, request: &PutRequest) -> Result<(), Code> {
    let outcome = settled(async || KvClient::new(channel.clone()).put(request.clone()).await).await;
    outcome.map(drop).map_err(|status| status.code())
}

/// Writes a key as the owner of a client certificate.
async fn put_as(etcd: &Etcd, common_name: &str, key: Vec<u8>, value: Vec<u8>) -> Result<(), Code> {
    let request = PutRequest {
        key,
        value,
        lease: 0,
    };
    put(&etcd.channel_as(common_name).await, &request).await
}

async fn value(etcd: &Etcd, key: Vec<u8>) -> Option<Vec<u8>> {
    let request = RangeRequest {
        key,
        ..RangeRequest::default()
    };
    let channel = etcd.channel_as("root").await;
    let found = settled(async || KvClient::new(channel.clone()).range(request.clone()).await).await;
    found.unwrap().kvs.pop().map(|found| found.value)
}

async fn add_role(etcd: &Etcd, name: &str, permission: Option<Permission>) {
    let mut auth = AuthClient::new(etcd.channel_as("root").await);
    auth.role_add(AuthRoleAddRequest {
        name: name.to_owned(),
    })
    .await
    .unwrap();
    if permission.is_some() {
        grant_permission(etcd, name, permission).await;
    }
}

async fn grant_permission(etcd: &Etcd, role: &str, permission: Option<Permission>) {
    let request = AuthRoleGrantPermissionRequest {
        name: role.to_owned(),
        perm: permission,
    };
    AuthClient::new(etcd.channel_as("root").await)
        .role_grant_permission(request)
        .await
        .unwrap();
}

async fn grant_role(etcd: &Etcd, user: &str, role: &str) {
    let request = AuthUserGrantRoleRequest {
        user: user.to_owned(),
        role: role.to_owned(),
    };
    AuthClient::new(etcd.channel_as("root").await)
        .user_grant_role(request)
        .await
        .unwrap();
}

fn everything() -> Permission {
    Permission {
        perm_type: Type::Readwrite.into(),
        key: vec![0],
        range_end: vec![0],
    }
}

#[tokio::test]
async fn a_tenant_writes_its_keys_until_it_is_revoked_and_is_gone_when_it_is_dropped() {
    let etcd = Etcd::shared().await;
    let (store, tenant) = (etcd.store(), tenant());
    let user = tenant.user.as_str();
    assert_eq!(
        store.tenant_state(&tenant).await.unwrap(),
        TenantState {
            password: true,
            ..TenantState::default()
        }
    );
    assert_eq!(
        put_as(etcd, user, key(&tenant, "a"), b"1".to_vec()).await,
        Err(Code::PermissionDenied)
    );

    for _again in 0..2 {
        store.ensure_tenant(&tenant).await.unwrap();
        assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    }
    put_as(etcd, user, key(&tenant, "a"), b"1".to_vec())
        .await
        .unwrap();
    assert_eq!(store.count(&tenant).await.unwrap(), 1);

    for _again in 0..2 {
        store.revoke(&tenant).await.unwrap();
        assert!(!store.tenant_state(&tenant).await.unwrap().is_complete());
    }
    assert_eq!(
        put_as(etcd, user, key(&tenant, "a"), b"2".to_vec()).await,
        Err(Code::PermissionDenied)
    );
    assert_eq!(value(etcd, key(&tenant, "a")).await, Some(b"1".to_vec()));
    store.ensure_tenant(&tenant).await.unwrap();
    put_as(etcd, user, key(&tenant, "a"), b"2".to_vec())
        .await
        .unwrap();

    for _again in 0..2 {
        store.drop_tenant(&tenant).await.unwrap();
        assert!(store.tenant_state(&tenant).await.unwrap().is_gone());
        assert_eq!(store.count(&tenant).await.unwrap(), 0);
    }
    assert_eq!(
        put_as(etcd, user, key(&tenant, "a"), b"3".to_vec()).await,
        Err(Code::PermissionDenied)
    );
}

#[tokio::test]
async fn dropping_a_tenant_leaves_neighbours_of_similar_names_alone() {
    let etcd = Etcd::shared().await;
    let store = etcd.store();
    let dropped = named("fleet-1", "fleet-1");
    let neighbours = [
        named("fleet-10", "fleet-10"),
        named("fleet", "fleet"),
        named("fleet-1.x", "fleet-1.x"),
    ];
    for tenant in neighbours.iter().chain([&dropped]) {
        store.ensure_tenant(tenant).await.unwrap();
        put_as(
            etcd,
            tenant.user.as_str(),
            key(tenant, "registry/pods/a"),
            b"pod".to_vec(),
        )
        .await
        .unwrap();
    }
    store.drop_tenant(&established(&dropped)).await.unwrap();
    for tenant in &neighbours {
        assert_eq!(
            value(etcd, key(tenant, "registry/pods/a")).await,
            Some(b"pod".to_vec())
        );
        assert_eq!(store.tenant_state(tenant).await.unwrap(), COMPLETE);
    }
}

#[tokio::test]
async fn very_many_keys_are_dropped() {
    let etcd = Etcd::shared().await;
    let (store, tenant) = (etcd.store(), tenant());
    store.ensure_tenant(&tenant).await.unwrap();
    let channel = etcd.channel_as(tenant.user.as_str()).await;
    for number in 0..2100 {
        let request = PutRequest {
            key: key(&tenant, &format!("{number:05}")),
            ..PutRequest::default()
        };
        put(&channel, &request).await.unwrap();
    }
    assert_eq!(store.count(&tenant).await.unwrap(), 2100);
    store.drop_tenant(&tenant).await.unwrap();
    assert_eq!(store.count(&tenant).await.unwrap(), 0);
}

#[tokio::test]
async fn a_fleet_is_set_up_at_once() {
    let etcd = Etcd::shared().await;
    let store = etcd.store();
    let tenants: Vec<Tenant> = (0..16).map(|_| tenant()).collect();
    // Twice each, as two replicas of a controller might.
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
async fn keys_of_somebody_else_under_the_name_are_neither_taken_nor_deleted() {
    let etcd = Etcd::shared().await;
    let (store, tenant) = (etcd.store(), named("registry", "newcomer"));
    let foreign = key(&tenant, "namespaces/kube-system");
    put_as(etcd, "root", foreign.clone(), b"x".to_vec())
        .await
        .unwrap();
    let error = store.ensure_tenant(&tenant).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the prefix /registry/ of etcd exists already and does not belong to this control plane: \
         it has 1 keys, but no role of this name reaches them; choose another name, or remove it"
    );
    assert!(!error.may_pass());
    store.drop_tenant(&tenant).await.unwrap();
    // The same with a role of that name which has nothing to do with tenants.
    add_role(etcd, "registry", None).await;
    store.ensure_tenant(&tenant).await.unwrap_err();
    store.drop_tenant(&tenant).await.unwrap();
    assert_eq!(value(etcd, foreign).await, Some(b"x".to_vec()));
}

#[tokio::test]
async fn what_another_control_plane_has_under_the_name_is_neither_taken_nor_deleted() {
    let etcd = Etcd::shared().await;
    let store = etcd.store();
    // Of another management cluster, say, or by another DataStore that leads to the same etcd.
    let (first, second) = (named("shop", "shop-of-one"), named("shop", "shop-of-two"));
    store.ensure_tenant(&first).await.unwrap();
    put_as(etcd, "shop-of-one", key(&first, "a"), b"1".to_vec())
        .await
        .unwrap();
    let error = store.ensure_tenant(&second).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the prefix /shop/ of etcd exists already and does not belong to this control plane: its key \
             steward.butlerlabs.dev/owner/shop names the control plane with the UID {}; \
             choose another name, or remove it",
            first.owner
        )
    );
    assert!(!error.may_pass());
    // Neither by its removal, nor while the first one's state moves elsewhere.
    store.revoke(&second).await.unwrap();
    store.drop_tenant(&second).await.unwrap();
    assert_eq!(store.tenant_state(&first).await.unwrap(), COMPLETE);
    assert!(!store.tenant_state(&second).await.unwrap().user);
    store.revoke(&first).await.unwrap();
    store.ensure_tenant(&second).await.unwrap_err();
    store.drop_tenant(&second).await.unwrap();
    assert_eq!(value(etcd, key(&first, "a")).await, Some(b"1".to_vec()));

    // Its own set-up, cut off or not, is no obstacle; nor is what is left of one that is gone.
    store.ensure_tenant(&first).await.unwrap();
    store.drop_tenant(&first).await.unwrap();
    add_role(etcd, "shop", None).await;
    store.ensure_tenant(&second).await.unwrap();
    assert_eq!(store.tenant_state(&second).await.unwrap(), COMPLETE);
}

#[tokio::test]
async fn keys_that_nobodys_role_reaches_are_nobodys_to_take() {
    let etcd = Etcd::shared().await;
    let (store, tenant) = (etcd.store(), tenant());
    store.ensure_tenant(&tenant).await.unwrap();
    put_as(etcd, tenant.user.as_str(), key(&tenant, "a"), b"1".to_vec())
        .await
        .unwrap();
    let mut auth = AuthClient::new(etcd.channel_as("root").await);
    auth.user_delete(AuthUserDeleteRequest {
        name: tenant.user.to_string(),
    })
    .await
    .unwrap();
    let error = store.ensure_tenant(&tenant).await.unwrap_err();
    assert_eq!(error.reason(), "DataStoreNameTaken", "{error}");
    store.drop_tenant(&tenant).await.unwrap();
    assert_eq!(store.count(&tenant).await.unwrap(), 1);
    // What is on record is put right.
    store.ensure_tenant(&established(&tenant)).await.unwrap();
    assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
}

#[tokio::test]
async fn roles_and_users_of_somebody_else_are_not_taken_over() {
    let etcd = Etcd::shared().await;
    let store = etcd.store();
    add_role(etcd, "operators", Some(everything())).await;
    let error = store
        .ensure_tenant(&named("operators", "newcomer-2"))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "DataStoreNameTaken", "{error}");

    let mut auth = AuthClient::new(etcd.channel_as("root").await);
    for (user, role) in [("backup", "operators"), ("chief", "root")] {
        auth.user_add(AuthUserAddRequest {
            name: user.to_owned(),
            options: Some(UserAddOptions { no_password: true }),
        })
        .await
        .unwrap();
        grant_role(etcd, user, role).await;
        let theirs = named(&format!("schema-of-{user}"), user);
        let error = store.ensure_tenant(&theirs).await.unwrap_err();
        assert_eq!(error.reason(), "DataStoreNameTaken", "{error}");
        // Nor is the user removed with the tenant.
        store.drop_tenant(&theirs).await.unwrap();
        assert!(store.tenant_state(&theirs).await.unwrap().user);
    }
    // Whoever has the role root is no tenant's, whatever is on record.
    let chief = established(&named("schema-of-chief", "chief"));
    assert_eq!(
        store.ensure_tenant(&chief).await.unwrap_err().reason(),
        "DataStoreNameTaken"
    );
}

#[tokio::test]
async fn what_was_granted_behind_our_back_is_taken_away() {
    let etcd = Etcd::shared().await;
    let (store, tenant) = (etcd.store(), tenant());
    store.ensure_tenant(&tenant).await.unwrap();
    grant_permission(etcd, tenant.schema.as_str(), Some(everything())).await;
    add_role(etcd, "too-much", Some(everything())).await;
    grant_role(etcd, tenant.user.as_str(), "too-much").await;
    assert!(!store.tenant_state(&tenant).await.unwrap().granted);
    put_as(
        etcd,
        tenant.user.as_str(),
        b"/elsewhere".to_vec(),
        Vec::new(),
    )
    .await
    .unwrap();

    store.ensure_tenant(&established(&tenant)).await.unwrap();
    assert_eq!(store.tenant_state(&tenant).await.unwrap(), COMPLETE);
    assert_eq!(
        put_as(
            etcd,
            tenant.user.as_str(),
            b"/elsewhere".to_vec(),
            Vec::new()
        )
        .await,
        Err(Code::PermissionDenied)
    );
}

#[tokio::test]
async fn an_etcd_that_asks_nobody_who_they_are_keeps_no_tenants() {
    let etcd = Etcd::start_open().await;
    let store = etcd.store();
    assert_eq!(
        store.check().await.unwrap_err().reason(),
        "DataStoreAuthenticationOff"
    );
    assert_eq!(
        store.ensure_tenant(&tenant()).await.unwrap_err().reason(),
        "DataStoreAuthenticationOff"
    );
}

#[tokio::test]
async fn a_check_says_what_is_wrong() {
    let etcd = Etcd::shared().await;
    etcd.store().check().await.unwrap();

    let tenant = tenant();
    etcd.store().ensure_tenant(&tenant).await.unwrap();
    let as_tenant = AnyStore::new(etcd.connection_as(tenant.user.as_str())).unwrap();
    assert_eq!(
        as_tenant.check().await.unwrap_err().reason(),
        "DataStoreAccessDenied"
    );

    let nobody = AnyStore::new(etcd.connection_as("nobody")).unwrap();
    let error = nobody.check().await.unwrap_err();
    assert_eq!(
        error.reason(),
        "DataStoreLoginRefused",
        "{}",
        error.in_full()
    );
    nobody.tenant_state(&tenant).await.unwrap_err();

    let mut stranger = etcd.connection_as("root");
    let other = Etcd::start_open().await;
    stranger.tls.clone_from(&other.connection_as("root").tls);
    let error = AnyStore::new(stranger).unwrap().check().await.unwrap_err();
    assert_eq!(
        error.reason(),
        "DataStoreUnreachable",
        "{}",
        error.in_full()
    );

    let mut without = etcd.connection_as("root");
    without.tls = without.tls.map(|tls| steward_datastore::Tls {
        client: None,
        ..tls
    });
    assert_eq!(
        AnyStore::new(without).unwrap_err().reason(),
        "InvalidSettings"
    );
}

#[tokio::test]
async fn a_member_that_is_down_is_passed_over() {
    let etcd = Etcd::shared().await;
    let mut connection = etcd.connection_as("root");
    let down = Endpoint {
        host: "127.0.0.1".to_owned(),
        port: 1,
    };
    connection.endpoints.insert(0, down.clone());
    AnyStore::new(connection.clone())
        .unwrap()
        .check()
        .await
        .unwrap();

    connection.endpoints = vec![down];
    let error = AnyStore::new(connection)
        .unwrap()
        .check()
        .await
        .unwrap_err();
    assert!(
        error.may_pass() && error.in_full().contains("127.0.0.1:1"),
        "{}",
        error.in_full()
    );
}

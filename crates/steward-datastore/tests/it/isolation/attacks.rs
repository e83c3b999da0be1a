//! What a tenant could try, each answered with whether it was let.

use butler_proto::etcd::auth_client::AuthClient;
use butler_proto::etcd::compare::TargetUnion;
use butler_proto::etcd::kv_client::KvClient;
use butler_proto::etcd::lease_client::LeaseClient;
use butler_proto::etcd::maintenance_client::MaintenanceClient;
use butler_proto::etcd::permission::Type;
use butler_proto::etcd::request_op::Request;
use butler_proto::etcd::watch_client::WatchClient;
use butler_proto::etcd::watch_request::RequestUnion;
use butler_proto::etcd::{
    AuthRoleGrantPermissionRequest, AuthUserGrantRoleRequest, CompactionRequest, Compare,
    DeleteRangeRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, Permission, PutRequest, RangeRequest, RequestOp, SnapshotRequest,
    TxnRequest, WatchCreateRequest, WatchRequest,
};
use futures::{StreamExt as _, stream};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use steward_datastore::KeyRange;
use tonic::{Code, Status};

use super::Member;

/// Fails unless exactly what is the tenant's own was answered.
pub(super) fn judge(
    form: &str,
    attacker: &Member,
    key: &[u8],
    range_end: &[u8],
    own: bool,
    answer: &Result<(), Status>,
) -> Result<(), TestCaseError> {
    let right = match answer {
        Ok(()) => own,
        Err(status) => !own && status.code() == Code::PermissionDenied,
    };
    prop_assert!(
        right,
        "{form} of {:?}..{:?} by {} was answered with {answer:?}",
        String::from_utf8_lossy(key),
        String::from_utf8_lossy(range_end),
        attacker.tenant.schema
    );
    Ok(())
}

/// Answers by the form in which was asked.
pub(super) type Answers = Vec<(&'static str, Result<(), Status>)>;

/// Every way to learn something about keys.
pub(super) async fn read_forms(attacker: &Member, key: &[u8], range_end: &[u8]) -> Answers {
    let mut kv = KvClient::new(attacker.channel.clone());
    let range = RangeRequest {
        key: key.to_vec(),
        range_end: range_end.to_vec(),
        ..RangeRequest::default()
    };
    let count = RangeRequest {
        count_only: true,
        ..range.clone()
    };
    let keys = RangeRequest {
        keys_only: true,
        limit: 1,
        ..range.clone()
    };
    let compare = TxnRequest {
        compare: vec![Compare {
            key: key.to_vec(),
            range_end: range_end.to_vec(),
            target_union: Some(TargetUnion::Version(0)),
            ..Compare::default()
        }],
        ..TxnRequest::default()
    };
    let read = RequestOp {
        request: Some(Request::RequestRange(range.clone())),
    };
    let mut answers: Answers = vec![
        ("range", kv.range(range).await.map(drop)),
        ("count", kv.range(count).await.map(drop)),
        ("keys", kv.range(keys).await.map(drop)),
        ("compare", kv.txn(compare).await.map(drop)),
        ("watch", watch(attacker, key, range_end).await),
    ];
    for (form, request) in in_transactions(&read) {
        answers.push((form, kv.txn(request).await.map(drop)));
    }
    answers
}

/// Every way to change keys.
pub(super) async fn write_forms(attacker: &Member, key: &[u8], range_end: &[u8]) -> Answers {
    let mut kv = KvClient::new(attacker.channel.clone());
    let delete = DeleteRangeRequest {
        key: key.to_vec(),
        range_end: range_end.to_vec(),
    };
    let mut answers: Answers = vec![("delete", kv.delete_range(delete.clone()).await.map(drop))];
    let delete = RequestOp {
        request: Some(Request::RequestDeleteRange(delete)),
    };
    for (form, request) in in_transactions(&delete) {
        answers.push((form, kv.txn(request).await.map(drop)));
    }
    if KeyRange::of(&attacker.tenant.schema).contains(key) {
        return answers;
    }
    let put = PutRequest {
        key: key.to_vec(),
        value: b"overwritten".to_vec(),
        lease: 0,
    };
    let leased = PutRequest {
        lease: attacker.lease,
        ..put.clone()
    };
    answers.push(("put", kv.put(put.clone()).await.map(drop)));
    answers.push(("put with a lease", kv.put(leased).await.map(drop)));
    let put = RequestOp {
        request: Some(Request::RequestPut(put)),
    };
    for (form, request) in in_transactions(&put) {
        answers.push((form, kv.txn(request).await.map(drop)));
    }
    answers
}

/// The operation as compare-and-swap: done if the comparison holds, if it does not, and within another transaction.
fn in_transactions(operation: &RequestOp) -> [(&'static str, TxnRequest); 3] {
    let success = TxnRequest {
        success: vec![operation.clone()],
        ..TxnRequest::default()
    };
    let failure = TxnRequest {
        failure: vec![operation.clone()],
        ..TxnRequest::default()
    };
    let nested = RequestOp {
        request: Some(Request::RequestTxn(success.clone())),
    };
    [
        ("swap", success),
        ("swap that is not made", failure),
        (
            "swap in a swap",
            TxnRequest {
                success: vec![nested],
                ..TxnRequest::default()
            },
        ),
    ]
}

/// A watch that is refused is cancelled at once.
async fn watch(attacker: &Member, key: &[u8], range_end: &[u8]) -> Result<(), Status> {
    let request = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(WatchCreateRequest {
            key: key.to_vec(),
            range_end: range_end.to_vec(),
            start_revision: 1,
        })),
    };
    // The stream stays open, as that of a client that goes on watching.
    let requests = stream::iter([request]).chain(stream::pending());
    let mut answers = WatchClient::new(attacker.channel.clone())
        .watch(requests)
        .await?
        .into_inner();
    let first = answers.message().await?.unwrap_or_default();
    if first.canceled
        && first.cancel_reason.contains("permission denied")
        && first.events.is_empty()
    {
        return Err(Status::permission_denied(first.cancel_reason));
    }
    if first.canceled {
        return Err(Status::unknown(first.cancel_reason));
    }
    Ok(())
}

/// A lease that holds keys of another tenant can neither be ended, prolonged, read nor used.
pub(super) async fn attack_lease(attacker: &Member, victim: &Member) -> Result<(), TestCaseError> {
    let mut lease = LeaseClient::new(attacker.channel.clone());
    let id = victim.lease;
    let own = KeyRange::of(&attacker.tenant.schema).start().to_vec();
    let put = PutRequest {
        key: own,
        value: Vec::new(),
        lease: id,
    };
    let prolong = async || -> Result<(), Status> {
        let requests = stream::iter([LeaseKeepAliveRequest { id }]).chain(stream::pending());
        let mut answers = LeaseClient::new(attacker.channel.clone())
            .lease_keep_alive(requests)
            .await?
            .into_inner();
        answers.message().await.map(drop)
    };
    let answers: Answers = vec![
        (
            "revoking",
            lease
                .lease_revoke(LeaseRevokeRequest { id })
                .await
                .map(drop),
        ),
        (
            "reading the keys",
            lease
                .lease_time_to_live(LeaseTimeToLiveRequest { id, keys: true })
                .await
                .map(drop),
        ),
        (
            "listing",
            lease.lease_leases(LeaseLeasesRequest {}).await.map(drop),
        ),
        ("prolonging", prolong().await),
        (
            "using",
            KvClient::new(attacker.channel.clone())
                .put(put)
                .await
                .map(drop),
        ),
    ];
    for (form, answer) in answers {
        let refused = answer
            .as_ref()
            .is_err_and(|status| status.code() == Code::PermissionDenied);
        prop_assert!(
            refused,
            "{form} of the lease of {} by {} was answered with {answer:?}",
            victim.tenant.schema,
            attacker.tenant.schema
        );
    }
    Ok(())
}

/// A tenant cannot widen its rights, read the whole database, or make the server forget.
pub(super) async fn attack_server(
    attacker: &Member,
    members: &[Member],
) -> Result<(), TestCaseError> {
    let mut auth = AuthClient::new(attacker.channel.clone());
    let (user, role) = (
        attacker.tenant.user.to_string(),
        attacker.tenant.schema.to_string(),
    );
    let all = Permission {
        perm_type: Type::Readwrite.into(),
        key: vec![0],
        range_end: vec![0],
    };
    let mut answers: Answers = vec![
        (
            "taking all keys",
            auth.role_grant_permission(AuthRoleGrantPermissionRequest {
                name: role,
                perm: Some(all),
            })
            .await
            .map(drop),
        ),
        (
            "becoming root",
            auth.user_grant_role(AuthUserGrantRoleRequest {
                user: user.clone(),
                role: "root".to_owned(),
            })
            .await
            .map(drop),
        ),
        (
            "reading the database",
            match MaintenanceClient::new(attacker.channel.clone())
                .snapshot(SnapshotRequest {})
                .await
            {
                Ok(chunks) => chunks.into_inner().message().await.map(drop),
                Err(status) => Err(status),
            },
        ),
        (
            "forgetting history",
            KvClient::new(attacker.channel.clone())
                .compact(CompactionRequest { revision: 1 })
                .await
                .map(drop),
        ),
    ];
    for victim in members
        .iter()
        .filter(|victim| victim.tenant.user != attacker.tenant.user)
    {
        let request = AuthUserGrantRoleRequest {
            user: user.clone(),
            role: victim.tenant.schema.to_string(),
        };
        answers.push((
            "taking a role",
            auth.user_grant_role(request).await.map(drop),
        ));
    }
    for (form, answer) in answers {
        let refused = answer
            .as_ref()
            .is_err_and(|status| status.code() == Code::PermissionDenied);
        prop_assert!(
            refused,
            "{form} by {} was answered with {answer:?}",
            attacker.tenant.schema
        );
    }
    Ok(())
}

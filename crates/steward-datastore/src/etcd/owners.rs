//! Whose the schemas of an etcd are: a mark for each, which is made before anything else of a tenant and goes after it.
//!
//! It names the UID of the control plane. Names alone do not tell: two `DataStore`s, or two Stewards, may lead to one etcd, and
//! know nothing of each other's tenants.

use butler_proto::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use butler_proto::etcd::kv_client::KvClient;
use butler_proto::etcd::request_op::Request;
use butler_proto::etcd::{
    Compare, DeleteRangeRequest, KeyValue, Permission, PutRequest, RangeRequest, RequestOp,
    TxnRequest,
};

use crate::error::Error;
use crate::etcd::session::Session;
use crate::etcd::{access, keys};
use crate::key_range::KeyRange;
use crate::names::Schema;
use crate::store::Tenant;

/// What the keys of marks begin with, and the first key behind them. The keys of every tenant begin with a slash, so that none
/// reaches these.
const MARKS: &str = "steward.butlerlabs.dev/owner/";
const BEHIND_MARKS: &str = "steward.butlerlabs.dev/owner0";

/// Where the keys of tenants are.
const FIRST_OF_TENANTS: &[u8] = b"/";
const BEHIND_TENANTS: &[u8] = b"0";

/// The key that says whose a schema is.
pub(super) fn mark(schema: &Schema) -> String {
    format!("{MARKS}{schema}")
}

/// Whether the schema bears the tenant's mark; complains if it bears another's.
pub(super) async fn is_marked(session: &Session, tenant: &Tenant) -> Result<bool, Error> {
    let request = RangeRequest {
        key: mark(&tenant.schema).into_bytes(),
        ..RangeRequest::default()
    };
    let found = keys::read(session, &request).await?.kvs.pop();
    match found.map(|found| text(&found.value)) {
        None => Ok(false),
        Some(owner) if owner == tenant.owner.to_string() => Ok(true),
        Some(owner) => Err(Error::NotOurs {
            what: place(&tenant.schema),
            why: format!(
                "its key {} names the control plane with the UID {owner}",
                mark(&tenant.schema)
            ),
        }),
    }
}

/// Marks the schema as the tenant's. Of two who do so at once, one has it.
pub(super) async fn claim(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let key = mark(&tenant.schema).into_bytes();
    let request = TxnRequest {
        compare: vec![Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Create.into(),
            key: key.clone(),
            target_union: Some(TargetUnion::CreateRevision(0)),
            ..Compare::default()
        }],
        success: vec![RequestOp {
            request: Some(Request::RequestPut(PutRequest {
                key,
                value: tenant.owner.to_string().into_bytes(),
                ..PutRequest::default()
            })),
        }],
        ..TxnRequest::default()
    };
    session
        .ask("mark the schema as the tenant's", |channel| async {
            KvClient::new(channel).txn(request.clone()).await
        })
        .await?;
    is_marked(session, tenant).await.map(drop)
}

/// Takes the tenant's mark away. That of another stays.
pub(super) async fn release(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let key = mark(&tenant.schema).into_bytes();
    let request = TxnRequest {
        compare: vec![Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Value.into(),
            key: key.clone(),
            target_union: Some(TargetUnion::Value(tenant.owner.to_string().into_bytes())),
            ..Compare::default()
        }],
        success: vec![RequestOp {
            request: Some(Request::RequestDeleteRange(DeleteRangeRequest {
                key,
                ..DeleteRangeRequest::default()
            })),
        }],
        ..TxnRequest::default()
    };
    session
        .ask("take the tenant's mark away", |channel| async {
            KvClient::new(channel).txn(request.clone()).await
        })
        .await
        .map(drop)
}

/// Complains if somebody's role reaches a key of the tenant's, or the tenant would reach one of somebody else's role.
pub(super) async fn refuse_neighbours(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let range = KeyRange::of(&tenant.schema);
    for (role, permissions) in access::roles(session).await? {
        let is_in_the_way = |found| access::reaches(found, &range) && !reaches_all_tenants(found);
        if role != tenant.schema.as_str() && permissions.iter().any(is_in_the_way) {
            return Err(Error::NotOurs {
                what: place(&tenant.schema),
                why: format!("the role \"{role}\" reaches keys of it"),
            });
        }
    }
    Ok(())
}

/// Complains if a schema that was marked earlier touches the tenant's. Both who mark at once see this, so one of them goes.
pub(super) async fn yield_to_earlier(session: &Session, tenant: &Tenant) -> Result<(), Error> {
    let request = RangeRequest {
        key: MARKS.into(),
        range_end: BEHIND_MARKS.into(),
        ..RangeRequest::default()
    };
    let marks = keys::read(session, &request).await?.kvs;
    let own = mark(&tenant.schema).into_bytes();
    let Some(since) = marks.iter().find(|found| found.key == own) else {
        return Err(Error::Request {
            action: "mark the schema as the tenant's".to_owned(),
            source: "somebody took the mark away".into(),
        });
    };
    let range = KeyRange::of(&tenant.schema);
    let earlier =
        |found: &&KeyValue| found.key != own && found.create_revision < since.create_revision;
    for found in marks.iter().filter(earlier) {
        let schema: Option<Schema> = text(&found.key)
            .strip_prefix(MARKS)
            .and_then(|name| name.parse().ok());
        if let Some(schema) = schema.filter(|schema| KeyRange::of(schema).touches(&range)) {
            release(session, tenant).await?;
            return Err(Error::NotOurs {
                what: place(&tenant.schema),
                why: format!(
                    "it touches /{schema}/, which is that of the control plane with the UID {}",
                    text(&found.value)
                ),
            });
        }
    }
    Ok(())
}

/// Whoever reaches every tenant was let in by those who run the etcd, to back it up for example, and is no tenant.
fn reaches_all_tenants(permission: &Permission) -> bool {
    permission.key.as_slice() <= FIRST_OF_TENANTS
        && (permission.range_end == [0] || permission.range_end.as_slice() >= BEHIND_TENANTS)
}

fn place(schema: &Schema) -> String {
    format!("the prefix /{schema}/ of etcd")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn permission(key: &[u8], range_end: &[u8]) -> Permission {
        Permission {
            key: key.to_vec(),
            range_end: range_end.to_vec(),
            ..Permission::default()
        }
    }

    proptest! {
        #[test]
        fn no_tenant_reaches_a_mark(
            name in "[a-z.]{1,24}(/[a-z.]{1,8}){0,2}",
            marked in "[a-z]{1,3}(/[a-z]{1,3}){0,2}",
        ) {
            prop_assume!(name.parse::<Schema>().is_ok());
            let range = KeyRange::of(&name.parse().unwrap());
            prop_assert!(!range.contains(mark(&marked.parse().unwrap()).as_bytes()));
        }

        #[test]
        fn a_role_of_a_tenant_is_never_taken_for_one_that_reaches_all(name in "[a-z0-9_.-]{0,4}(/[a-z]{1,3}){0,2}") {
            prop_assume!(name.parse::<Schema>().is_ok());
            let range = KeyRange::of(&name.parse().unwrap());
            prop_assert!(!reaches_all_tenants(&permission(range.start(), range.end())));
        }
    }

    #[test]
    fn who_may_read_everything_for_a_backup_is_in_nobodys_way() {
        let (everything, from_the_slash_on) = (permission(&[0], &[0]), permission(b"/", b"0"));
        assert!(reaches_all_tenants(&everything) && reaches_all_tenants(&from_the_slash_on));
        // A key, keys of one tenant, and a range that ends amid them.
        for (key, end) in [(&b"/"[..], &b""[..]), (b"/a/", b"/a0"), (b"/", b"/b")] {
            assert!(!reaches_all_tenants(&permission(key, end)));
        }
    }
}

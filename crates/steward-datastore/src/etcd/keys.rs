//! The keys of a tenant: counting, deleting and copying them without getting in the way of other tenants.

use std::collections::BTreeMap;

use butler_proto::etcd::kv_client::KvClient;
use butler_proto::etcd::lease_client::LeaseClient;
use butler_proto::etcd::request_op::Request;
use butler_proto::etcd::{
    DeleteRangeRequest, KeyValue, LeaseGrantRequest, LeaseTimeToLiveRequest, PutRequest,
    RangeRequest, RangeResponse, RequestOp, TxnRequest,
};

use crate::error::Error;
use crate::etcd::session::Session;
use crate::key_range::KeyRange;
use crate::store::Copied;

/// Keys deleted by one request: etcd does nothing else meanwhile, for nobody.
const DELETE_PAGE: i64 = 1000;
/// Keys read by one request.
const READ_PAGE: i64 = 100;
/// Keys written by one request; etcd's own limit is 128.
const WRITE_OPERATIONS: usize = 100;
/// Bytes written by one request; etcd's own limit is 1.5 MiB, and one value alone may be as large.
const WRITE_BYTES: usize = 1024 * 1024;
/// A page of the largest values that etcd takes fits.
const LARGEST_ANSWER: usize = 256 * 1024 * 1024;

/// How many keys there are.
pub(super) async fn count(session: &Session, range: &KeyRange) -> Result<u64, Error> {
    let request = RangeRequest {
        key: range.start().to_vec(),
        range_end: range.end().to_vec(),
        count_only: true,
        ..RangeRequest::default()
    };
    let answer = read(session, &request).await?;
    Ok(u64::try_from(answer.count).unwrap_or_default())
}

/// Deletes all keys, some at a time.
pub(super) async fn delete_all(session: &Session, range: &KeyRange) -> Result<(), Error> {
    loop {
        let page = read(
            session,
            &RangeRequest {
                key: range.start().to_vec(),
                range_end: range.end().to_vec(),
                limit: DELETE_PAGE,
                keys_only: true,
                ..RangeRequest::default()
            },
        )
        .await?;
        let Some(last) = page.kvs.last() else {
            return Ok(());
        };
        let request = DeleteRangeRequest {
            key: range.start().to_vec(),
            range_end: after(&last.key),
        };
        session
            .ask("delete keys", |channel| async {
                KvClient::new(channel).delete_range(request.clone()).await
            })
            .await?;
    }
}

/// Copies all keys as they are at one moment. Keys that vanish after a while do so in the copy after the time that is left.
pub(super) async fn copy(
    source: &Session,
    target: &Session,
    range: &KeyRange,
) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    let mut leases = Leases::default();
    let mut request = RangeRequest {
        key: range.start().to_vec(),
        range_end: range.end().to_vec(),
        limit: READ_PAGE,
        ..RangeRequest::default()
    };
    loop {
        let page = read(source, &request).await?;
        // All further pages are read as of the first one.
        if request.revision == 0 {
            request.revision = page
                .header
                .map(|header| header.revision)
                .unwrap_or_default();
        }
        let Some(last) = page.kvs.last() else {
            return Ok(copied);
        };
        request.key = after(&last.key);
        let mut puts = Vec::new();
        for found in page.kvs {
            copied.entries += 1;
            if found.lease != 0 {
                copied.perishable += 1;
            }
            let Some(lease) = leases.renewed(source, target, found.lease).await? else {
                continue;
            };
            puts.push(put(found, lease));
        }
        write(target, puts).await?;
        if !page.more {
            return Ok(copied);
        }
    }
}

/// The leases of the copy, by those of the original.
#[derive(Default)]
struct Leases(BTreeMap<i64, Option<i64>>);

impl Leases {
    /// The lease for a key of the copy: 0 for none. Nothing if the original's lease, and so the key, has just ended.
    async fn renewed(
        &mut self,
        source: &Session,
        target: &Session,
        lease: i64,
    ) -> Result<Option<i64>, Error> {
        if lease == 0 {
            return Ok(Some(0));
        }
        if let Some(known) = self.0.get(&lease) {
            return Ok(*known);
        }
        let original = source
            .ask("read a lease", |channel| async {
                let request = LeaseTimeToLiveRequest {
                    id: lease,
                    keys: false,
                };
                LeaseClient::new(channel).lease_time_to_live(request).await
            })
            .await?;
        let renewed = if original.ttl > 0 {
            let granted = target
                .ask("make a lease", |channel| async {
                    let request = LeaseGrantRequest {
                        ttl: original.ttl,
                        id: 0,
                    };
                    LeaseClient::new(channel).lease_grant(request).await
                })
                .await?;
            Some(granted.id)
        } else {
            None
        };
        self.0.insert(lease, renewed);
        Ok(renewed)
    }
}

fn put(found: KeyValue, lease: i64) -> PutRequest {
    PutRequest {
        key: found.key,
        value: found.value,
        lease,
    }
}

/// Writes in as few requests as etcd's limits allow.
async fn write(session: &Session, puts: Vec<PutRequest>) -> Result<(), Error> {
    for batch in batches(puts) {
        let request = TxnRequest {
            success: batch
                .into_iter()
                .map(|put| RequestOp {
                    request: Some(Request::RequestPut(put)),
                })
                .collect(),
            ..TxnRequest::default()
        };
        session
            .ask("write keys", |channel| async {
                KvClient::new(channel).txn(request.clone()).await
            })
            .await?;
    }
    Ok(())
}

fn batches(puts: Vec<PutRequest>) -> Vec<Vec<PutRequest>> {
    let mut batches: Vec<Vec<PutRequest>> = Vec::new();
    let mut bytes = 0;
    for put in puts {
        let size = put.key.len() + put.value.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < WRITE_OPERATIONS && bytes + size <= WRITE_BYTES => {
                bytes += size;
                batch.push(put);
            }
            _ => {
                bytes = size;
                batches.push(vec![put]);
            }
        }
    }
    batches
}

/// Answers however large the answer is.
pub(super) async fn read(
    session: &Session,
    request: &RangeRequest,
) -> Result<RangeResponse, Error> {
    session
        .ask("read keys", |channel| async {
            KvClient::new(channel)
                .max_decoding_message_size(LARGEST_ANSWER)
                .range(request.clone())
                .await
        })
        .await
}

/// The first key behind this one.
fn after(key: &[u8]) -> Vec<u8> {
    key.iter().copied().chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(size: usize) -> PutRequest {
        PutRequest {
            key: b"k".to_vec(),
            value: vec![0; size],
            lease: 0,
        }
    }

    #[test]
    fn a_request_stays_within_what_etcd_takes() {
        let sizes = |puts: Vec<PutRequest>| batches(puts).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(Vec::new()), Vec::<usize>::new());
        assert_eq!(sizes(vec![value(1); 250]), [100, 100, 50]);
        assert_eq!(sizes(vec![value(WRITE_BYTES / 2); 3]), [1, 1, 1]);
        assert_eq!(sizes(vec![value(WRITE_BYTES / 4); 4]), [3, 1]);
        assert_eq!(sizes(vec![value(WRITE_BYTES * 2), value(1)]), [1, 1]);
    }
}

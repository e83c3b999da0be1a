//! The revisions of an etcd, which are the resource versions of its tenants.
//!
//! Clients of a control plane remember them, and go on watching from there. Who asks for changes since a revision that the
//! store has not reached yet hears nothing until it has; who asks for one that is long past is told to read anew, and does. So
//! the new store of a tenant that moves must be ahead of the old one. Each write raises a store's revision by one.

use butler_proto::etcd::kv_client::KvClient;
use butler_proto::etcd::{DeleteRangeRequest, PutRequest};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::error::Error;
use crate::etcd::session::Session;
use crate::key_range::KeyRange;

/// Other tenants go on writing to the old store until the pods have changed over, and what they write raises what clients
/// remember too: as much as this they may, which is a hundred writes a second for a hundred seconds.
const AHEAD: u64 = 10_000;
/// Writes that are made up for at most. They take about a minute, which is as much of the patience with a move as they should,
/// and some fifty megabytes of the new store until its history is compacted.
const FARTHEST: u64 = 500_000;
/// Writes under way at a time: etcd syncs to disk for all of them together.
const AT_ONCE: usize = 256;
/// The key that is written, within the tenant's range, so that whatever happens it goes with the tenant. The API server has no
/// kind of object of this name.
const KEY: &str = "steward-revision";

/// Brings the revision of the target beyond that of the source. Answers how far it is behind if that is too far to go.
pub(super) async fn catch_up(
    source: &Session,
    target: &Session,
    range: &KeyRange,
) -> Result<u64, Error> {
    let wanted = revision(source).await?.saturating_add(AHEAD);
    let missing = wanted.saturating_sub(revision(target).await?);
    if missing > FARTHEST {
        return Ok(missing);
    }
    if missing == 0 {
        return Ok(0);
    }
    let key = range.below(KEY).start().to_vec();
    let put = PutRequest {
        key: key.clone(),
        ..PutRequest::default()
    };
    stream::iter(0..missing)
        .map(|_| {
            target.ask("raise the revision", |channel| async {
                KvClient::new(channel).put(put.clone()).await
            })
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let request = DeleteRangeRequest {
        key,
        ..DeleteRangeRequest::default()
    };
    target
        .ask("delete the key that raised the revision", |channel| async {
            KvClient::new(channel).delete_range(request.clone()).await
        })
        .await?;
    Ok(0)
}

async fn revision(session: &Session) -> Result<u64, Error> {
    let header = session.status().await?.header;
    let revision = header.map(|header| header.revision).unwrap_or_default();
    Ok(u64::try_from(revision).unwrap_or_default())
}

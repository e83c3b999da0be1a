//! Locks between processes: whoever makes an asset holds one, everybody else waits and then finds it made.
//!
//! The operating system releases a lock when its holder dies, so there is nothing to clean up after a crash. Lock
//! files are never deleted: a deleted one could be held by one process and created anew by another.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use tokio::sync::oneshot;

use crate::error::Error;

/// A held lock; dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Takes the lock, and calls `on_wait` first if somebody else holds it.
pub(crate) async fn acquire(path: &Path, on_wait: impl FnOnce()) -> Result<Lock, Error> {
    let failed = || Error::cache("lock", path);
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .map_err(failed())?;
    match file.try_lock() {
        Ok(()) => return Ok(Lock { _file: file }),
        Err(TryLockError::WouldBlock) => on_wait(),
        Err(TryLockError::Error(error)) => return Err(failed()(error)),
    }
    // A thread of its own, not one of the runtime's: a runtime that shuts down would wait for it, and the other
    // process may build for minutes. If nobody wants the lock any more, it is dropped as soon as it is taken.
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new()
        .name("asset-lock".to_owned())
        .spawn(move || {
            let result = file.lock().map(|()| Lock { _file: file });
            drop(sender.send(result));
        })
        .map_err(failed())?;
    receiver
        .await
        .unwrap_or_else(|_| Err(io::Error::other("the waiting thread ended")))
        .map_err(failed())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn second_one_is_told_and_waits_for_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("etcd");
        let waited = AtomicBool::new(false);
        let first = acquire(&path, || panic!("nobody holds it")).await.unwrap();
        let mut second = Box::pin(acquire(&path, || waited.store(true, Ordering::Relaxed)));
        assert!((&mut second).now_or_never().is_none());
        assert!(waited.load(Ordering::Relaxed));
        drop(first);
        second.await.unwrap();
    }
}

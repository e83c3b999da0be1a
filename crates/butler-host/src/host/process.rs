//! Waiting for a process that is not a child of ours.

use std::{io, os::fd::OwnedFd, sync::Arc, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::io::{Interest, unix::AsyncFd};

/// A process that will be waited for. It stays the same process, also when its number is given to another.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    descriptor: Arc<OwnedFd>,
}

impl Watched {
    /// Nothing if there is no process of that number.
    pub(super) fn open(number: u32) -> io::Result<Option<Self>> {
        let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Some(Self {
                descriptor: Arc::new(descriptor),
            })),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the process has ended.
    pub(super) async fn ended(&self) -> io::Result<()> {
        #[expect(
            deprecated,
            reason = "the one that replaces it is unsafe; it is for owners that may change their descriptor, and ours does not"
        )]
        let descriptor = AsyncFd::with_interest(Arc::clone(&self.descriptor), Interest::READABLE)?;
        descriptor.readable().await.map(drop)
    }

    /// Waits until the process has ended, and says whether it has.
    pub(super) async fn ends_within(&self, patience: Duration) -> io::Result<bool> {
        // The kernel tells a new descriptor of what has happened already only after a turn, which a wait of no time has not.
        if patience.is_zero() {
            let mut watched = [PollFd::new(&self.descriptor, PollFlags::IN)];
            return Ok(poll(&mut watched, Some(&Timespec::default()))? > 0);
        }
        match tokio::time::timeout(patience, self.ended()).await {
            Ok(ended) => ended.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_is_seen_when_it_comes() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let watched = Watched::open(child.id()).unwrap().unwrap();
        assert!(!watched.ends_within(Duration::ZERO).await.unwrap());
        drop(child.stdin.take());
        assert!(watched.ends_within(Duration::from_secs(10)).await.unwrap());
        child.wait().unwrap();
        assert!(Watched::open(0).unwrap().is_none());
    }
}

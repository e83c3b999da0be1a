//! Starting processes and hearing of their end, as the one to whom the kernel gives every orphan.
//!
//! Owns: the only place that waits for processes. Two that wait would take each other's answers.

use std::{
    cell::RefCell, collections::BTreeMap, fmt, io, os::unix::process::CommandExt as _,
    process::Command, rc::Rc, time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};
use tokio::{signal::unix, sync::oneshot};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Code(i32),
    Signal(i32),
}

impl Ended {
    pub(super) fn well(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "status {code}"),
            Self::Signal(signal) => write!(formatter, "signal {signal}"),
        }
    }
}

/// A process of ours, the first of its group.
#[derive(Debug)]
pub(super) struct Child {
    pid: Pid,
    ended: oneshot::Receiver<Ended>,
}

/// All processes of ours that run. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Children {
    running: Rc<RefCell<BTreeMap<i32, oneshot::Sender<Ended>>>>,
}

impl Children {
    /// Starts a process. Nothing is reaped between its start and its entry here, for both are one step of one thread.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        let (sender, ended) = oneshot::channel();
        self.running
            .borrow_mut()
            .insert(pid.as_raw_nonzero().get(), sender);
        Ok(Child { pid, ended })
    }

    /// Reaps whatever ends, ours and orphans, for as long as it is waited for.
    pub(super) async fn reap(&self, mut child_ended: unix::Signal) {
        while child_ended.recv().await.is_some() {
            // One signal may stand for many ends.
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                let waiting = self
                    .running
                    .borrow_mut()
                    .remove(&pid.as_raw_nonzero().get());
                if let Some(waiting) = waiting {
                    // Whoever asked may have lost interest.
                    let _ = waiting.send(how(status));
                }
            }
        }
    }
}

fn how(status: WaitStatus) -> Ended {
    status
        .exit_status()
        .map(Ended::Code)
        .or_else(|| status.terminating_signal().map(Ended::Signal))
        .unwrap_or(Ended::Code(-1))
}

impl Child {
    pub(super) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Until it has ended.
    pub(super) async fn ended(&mut self) -> Ended {
        // The sender is dropped only by sending, or with everything.
        (&mut self.ended).await.unwrap_or(Ended::Code(-1))
    }

    /// Asks it and its group to end, and ends them when the time is over.
    pub(super) async fn stop(&mut self, grace: Duration) -> Ended {
        // One that is gone needs no signal.
        let _ = kill_process_group(self.pid, Signal::TERM);
        if let Ok(ended) = tokio::time::timeout(grace, self.ended()).await {
            return ended;
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        self.ended().await
    }
}

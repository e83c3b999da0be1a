//! Tells at once when the first process of a machine has ended, whoever ended it.

use std::collections::BTreeMap;

use butler_api::name::MachineName;
use tokio::{sync::watch, task::JoinSet};

use super::{Error, Host, Machine, MachineState, error::FileContext as _, process::Watched};

/// The first process of each machine that was started last.
pub(super) type StartedSender = watch::Sender<BTreeMap<MachineName, u32>>;

/// A machine whose first process has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which machine.
    pub name: MachineName,
    /// Number that its first process had on the host.
    pub pid: u32,
}

/// Watches all machines that run. Those that are started later by the same [`Host`], or a clone of it, are watched too.
#[derive(Debug)]
pub struct MachineWatch {
    host: Host,
    /// What was started before anybody watched.
    before: BTreeMap<MachineName, u32>,
    started: watch::Receiver<BTreeMap<MachineName, u32>>,
    /// What was known to be started when machines were last looked at.
    seen: Option<BTreeMap<MachineName, u32>>,
    /// First processes that are watched, or have ended.
    known: BTreeMap<MachineName, u32>,
    endings: JoinSet<Result<Ended, Error>>,
}

impl Host {
    /// Watches the machines of this host.
    pub fn watch_machines(&self) -> MachineWatch {
        let started = self.started.subscribe();
        let before = started.borrow().clone();
        MachineWatch {
            before,
            host: self.clone(),
            started,
            seen: None,
            known: BTreeMap::new(),
            endings: JoinSet::new(),
        }
    }

    /// The machines that this [`Host`], or a clone of it, has started, and the numbers that their first processes got then.
    pub fn starts(&self) -> watch::Receiver<BTreeMap<MachineName, u32>> {
        self.started.subscribe()
    }

    /// Those who watch take it up.
    pub(super) fn tell_started(&self, machine: &Machine) {
        if let MachineState::Running { pid } = machine.state {
            self.started.send_modify(|started| {
                started.insert(machine.name.clone(), pid);
            });
        }
    }

    /// Waits until the first process of a machine has ended; at once if none runs.
    pub async fn ended(&self, name: &MachineName) -> Result<(), Error> {
        match self.watched(name).await? {
            Some((_, process)) => process.ended().await.file("watch the machine", "/proc"),
            None => Ok(()),
        }
    }

    async fn watched(&self, name: &MachineName) -> Result<Option<(u32, Watched)>, Error> {
        let Some(number) = running(self.get(name).await?) else {
            return Ok(None);
        };
        let Some(process) = Watched::open(number).file("watch the machine", "/proc")? else {
            return Ok(None);
        };
        // The number was read before it was watched: it may have ended and been given away in between.
        let still = running(self.get(name).await?) == Some(number);
        Ok(still.then_some((number, process)))
    }
}

fn running(machine: Option<Machine>) -> Option<u32> {
    match machine?.state {
        MachineState::Running { pid } => Some(pid),
        MachineState::Stopped | MachineState::Broken { .. } => None,
    }
}

impl MachineWatch {
    /// Waits for the next machine to end. Those that were stopped or deleted end too: look at the machine for what is
    /// wanted of it. Nothing is lost when the wait is given up and begun anew.
    pub async fn next(&mut self) -> Result<Ended, Error> {
        loop {
            let current = self.started.borrow().clone();
            if self.seen.as_ref() != Some(&current) {
                self.take_up(&current).await?;
                self.seen = Some(current);
            }
            tokio::select! {
                Some(ended) = self.endings.join_next() => {
                    return match ended {
                        Ok(ended) => ended,
                        Err(error) => std::panic::resume_unwind(error.into_panic()),
                    };
                }
                // The sender lives as long as our own host.
                _ = self.started.changed() => {}
            }
        }
    }

    /// Watches what runs and is not watched. What was started since and runs no longer has ended.
    async fn take_up(&mut self, started: &BTreeMap<MachineName, u32>) -> Result<(), Error> {
        let mut candidates: BTreeMap<MachineName, u32> = started
            .iter()
            .filter(|(name, pid)| self.before.get(*name) != Some(*pid))
            .map(|(name, pid)| (name.clone(), *pid))
            .collect();
        for machine in self.host.list().await? {
            let name = machine.name.clone();
            candidates.extend(running(Some(machine)).map(|pid| (name, pid)));
        }
        for (name, pid) in candidates {
            if self.known.get(&name) == Some(&pid) {
                continue;
            }
            let process = self.host.watched(&name).await?;
            self.known.insert(name.clone(), pid);
            self.endings.spawn(async move {
                if let Some((watched, process)) = process
                    && watched == pid
                {
                    process.ended().await.file("watch the machine", "/proc")?;
                }
                Ok(Ended { name, pid })
            });
        }
        Ok(())
    }
}

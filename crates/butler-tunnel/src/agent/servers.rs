//! The servers an agent is connected to, and whether it needs another.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// More servers than any control plane has: a count beyond it is a mistake.
const MOST_SERVERS: usize = 32;

/// Who a server says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerName {
    /// Every start of a server is another.
    pub(super) id: String,
    /// How many servers it says there are.
    pub(super) count: usize,
}

/// How many servers an agent has, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Servers with a connection.
    pub connected: usize,
    /// Servers there are, as far as the agent knows.
    pub wanted: usize,
}

impl Standing {
    /// Whether a server is missing.
    pub const fn is_short(self) -> bool {
        self.connected < self.wanted
    }
}

fn standing(connected: &BTreeMap<String, usize>) -> Standing {
    // While a new version is rolled out, servers say different numbers: the larger one is safe.
    let wanted = connected.values().copied().max().unwrap_or(1);
    Standing {
        connected: connected.len(),
        wanted: wanted.clamp(1, MOST_SERVERS),
    }
}

/// The servers an agent is connected to. A clone is the same list.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    connected: Arc<Mutex<BTreeMap<String, usize>>>,
    standing: watch::Sender<Standing>,
}

impl Default for Servers {
    fn default() -> Self {
        let connected = BTreeMap::new();
        Self {
            standing: watch::Sender::new(standing(&connected)),
            connected: Arc::new(Mutex::new(connected)),
        }
    }
}

impl Servers {
    fn connected(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a connection to this server, or there are too many of them.
    pub(super) fn need_not(&self, server: &ServerName) -> bool {
        let connected = self.connected();
        connected.contains_key(&server.id) || connected.len() >= MOST_SERVERS
    }

    /// Puts a server on the list; none if it is there already.
    pub(super) fn join(&self, server: &ServerName) -> Option<Membership> {
        if self.need_not(server) {
            return None;
        }
        let mut connected = self.connected();
        connected.insert(server.id.clone(), server.count);
        self.standing.send_replace(standing(&connected));
        Some(Membership {
            servers: self.clone(),
            id: server.id.clone(),
        })
    }

    /// How many servers we have, now and whenever it changes.
    pub(super) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }
}

/// A server on the list, as long as it lives.
#[derive(Debug)]
pub(super) struct Membership {
    servers: Servers,
    id: String,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut connected = self.servers.connected();
        connected.remove(&self.id);
        self.servers.standing.send_replace(standing(&connected));
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn server(id: &str, count: usize) -> ServerName {
        ServerName {
            id: id.to_owned(),
            count,
        }
    }

    fn now(servers: &Servers) -> (usize, usize) {
        let standing = *servers.standing().borrow();
        (standing.connected, standing.wanted)
    }

    #[test]
    fn an_agent_wants_every_server_the_first_one_tells_of() {
        let servers = Servers::default();
        assert_eq!(now(&servers), (0, 1));
        let first = servers.join(&server("a", 3)).expect("new");
        assert_eq!(now(&servers), (1, 3));
        let _second = servers.join(&server("b", 3)).expect("new");
        let _third = servers.join(&server("c", 3)).expect("new");
        assert!(!servers.standing().borrow().is_short());
        drop(first);
        assert_eq!(now(&servers), (2, 3));
    }

    #[test]
    fn the_same_server_is_not_joined_twice_until_it_was_lost() {
        let servers = Servers::default();
        let first = servers.join(&server("a", 1)).expect("new");
        assert!(servers.need_not(&server("a", 1)));
        assert!(servers.join(&server("a", 1)).is_none());
        drop(first);
        assert!(servers.join(&server("a", 1)).is_some());
    }

    #[test]
    fn servers_of_an_old_and_a_new_version_are_held_together() {
        let servers = Servers::default();
        let old = servers.join(&server("old", 1)).expect("new");
        let _new: Vec<_> = ["x", "y"]
            .map(|id| servers.join(&server(id, 2)).expect("new"))
            .into();
        assert_eq!(now(&servers), (3, 2));
        drop(old);
        assert_eq!(now(&servers), (2, 2));
    }

    #[test]
    fn a_count_without_reason_has_a_limit() {
        let servers = Servers::default();
        let _members: Vec<_> = (0..MOST_SERVERS)
            .map(|number| servers.join(&server(&number.to_string(), usize::MAX)))
            .collect();
        assert!(!servers.standing().borrow().is_short());
        assert!(servers.need_not(&server("another", 1)));
    }
}

//! The agents that are connected, and which of them gets the next stream.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use h2::{RecvStream, SendStream, client::SendRequest};
use http::{Method, Request, Uri};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    destination::Destination,
    failure::{Failure, TunnelError},
    metrics::{Counted, TunnelMetrics},
    protocol::{self, CONTROL_STREAMS},
};

/// How many agents are asked for one connection.
const MOST_AGENTS_ASKED: usize = 3;
/// How long a connection waits for an agent when there is none: agents that were cut off are back within this time.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an agent may take to connect, or to say that it cannot. Longer than any agent's own limit should be.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Who an agent says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentName {
    /// For people.
    pub(super) name: String,
    /// Which run of the agent.
    pub(super) instance: String,
}

/// An agent that is connected.
#[derive(Debug)]
struct Agent {
    name: AgentName,
    sender: SendRequest<Bytes>,
    streams: Arc<AtomicUsize>,
    /// It takes no new streams.
    leaving: AtomicBool,
    ended: CancellationToken,
    _connected: Counted,
}

impl Agent {
    fn limit(&self) -> usize {
        self.sender
            .current_max_send_streams()
            .saturating_sub(CONTROL_STREAMS)
    }
}

/// A stream to a destination.
#[derive(Debug)]
pub(super) struct TunnelStream {
    pub(super) send: SendStream<Bytes>,
    pub(super) receive: RecvStream,
    /// The connection to the agent is gone.
    pub(super) ended: CancellationToken,
    /// Held as long as the stream is open.
    pub(super) place: Place,
}

/// One of the streams an agent has, as long as it lives.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
struct Books {
    next: u64,
    last_chosen: u64,
    agents: BTreeMap<u64, Arc<Agent>>,
}

/// All agents that are connected. A clone is the same list.
#[derive(Clone, Debug)]
pub(super) struct Agents {
    books: Arc<Mutex<Books>>,
    /// Changes whenever an agent joins.
    joined: watch::Sender<u64>,
    metrics: TunnelMetrics,
}

/// An agent on the list, as long as it lives.
#[derive(Debug)]
pub(super) struct Membership {
    agents: Agents,
    number: u64,
    ended: CancellationToken,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.agents.remove(self.number);
        self.ended.cancel();
    }
}

impl Agents {
    pub(super) fn new(metrics: TunnelMetrics) -> Self {
        Self {
            books: Arc::default(),
            joined: watch::Sender::new(0),
            metrics,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an agent on the list. An older connection of the same run gets no more streams; those it has go on.
    pub(super) fn join(&self, name: AgentName, sender: SendRequest<Bytes>) -> Membership {
        let ended = CancellationToken::new();
        let mut books = self.books();
        for agent in books.agents.values() {
            if agent.name.instance == name.instance {
                agent.leaving.store(true, Ordering::SeqCst);
            }
        }
        books.next += 1;
        let number = books.next;
        let agent = Agent {
            name,
            sender,
            streams: Arc::default(),
            leaving: AtomicBool::new(false),
            ended: ended.clone(),
            _connected: self.metrics.connected(),
        };
        books.agents.insert(number, Arc::new(agent));
        self.joined.send_replace(number);
        Membership {
            agents: self.clone(),
            number,
            ended,
        }
    }

    fn remove(&self, number: u64) {
        self.books().agents.remove(&number);
    }

    /// Opens a stream through the agent that has the fewest; through another one if that agent cannot.
    pub(super) async fn open(
        &self,
        destination: &Destination,
    ) -> Result<TunnelStream, TunnelError> {
        let mut joined = self.joined.subscribe();
        let deadline = Instant::now() + PATIENCE;
        let mut asked = BTreeSet::new();
        let mut last = None;
        while asked.len() < MOST_AGENTS_ASKED {
            let (number, agent, place) = match self.choose(&asked) {
                Ok(chosen) => chosen,
                Err(Failure::NoAgent) if last.is_none() => {
                    let joins = tokio::time::timeout_at(deadline, joined.changed()).await;
                    if joins.is_ok() {
                        continue;
                    }
                    return Err(nobody(Failure::NoAgent));
                }
                Err(failure) => return Err(last.unwrap_or_else(|| nobody(failure))),
            };
            asked.insert(number);
            match open_through(&agent, destination, place).await {
                Ok(stream) => return Ok(stream),
                Err(error) if error.failure.is_of_the_agent() => {
                    tracing::debug!(agent = agent.name.name, %error, "another agent is asked");
                    if error.failure == Failure::AgentLost {
                        agent.leaving.store(true, Ordering::SeqCst);
                    }
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| nobody(Failure::NoAgent)))
    }

    fn choose(&self, asked: &BTreeSet<u64>) -> Result<(u64, Arc<Agent>, Place), Failure> {
        let mut books = self.books();
        let candidates = books.agents.iter().filter_map(|(number, agent)| {
            let gone = agent.leaving.load(Ordering::SeqCst) || asked.contains(number);
            (!gone).then(|| Candidate {
                number: *number,
                streams: agent.streams.load(Ordering::SeqCst),
                limit: agent.limit(),
            })
        });
        let number = choose(candidates, books.last_chosen)?;
        let agent = books.agents.get(&number).ok_or(Failure::NoAgent)?;
        let agent = Arc::clone(agent);
        books.last_chosen = number;
        agent.streams.fetch_add(1, Ordering::SeqCst);
        let place = Place(Arc::clone(&agent.streams));
        Ok((number, agent, place))
    }
}

/// An agent that could take a stream.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    number: u64,
    streams: usize,
    limit: usize,
}

/// The agent with the fewest streams; among equals, the one after the last that was chosen.
fn choose(candidates: impl Iterator<Item = Candidate>, last_chosen: u64) -> Result<u64, Failure> {
    let mut failure = Failure::NoAgent;
    let free = candidates.filter(|candidate| {
        failure = Failure::Overloaded;
        candidate.streams < candidate.limit
    });
    let best = free.min_by_key(|candidate| {
        let had_its_turn = candidate.number <= last_chosen;
        (candidate.streams, had_its_turn, candidate.number)
    });
    best.map(|candidate| candidate.number).ok_or(failure)
}

fn nobody(failure: Failure) -> TunnelError {
    let message = match failure {
        Failure::Overloaded => "every agent of the tunnel has as many streams as it takes",
        _ => "no agent of the tunnel is connected; do its pods run in the tenant cluster?",
    };
    TunnelError::new(failure, message)
}

async fn open_through(
    agent: &Agent,
    destination: &Destination,
    place: Place,
) -> Result<TunnelStream, TunnelError> {
    let authority = destination
        .authority()
        .map_err(|error| TunnelError::new(Failure::BadRequest, error.to_string()))?;
    let lost = |error: h2::Error| {
        TunnelError::new(
            Failure::AgentLost,
            format!("the agent {} was lost: {error}", agent.name.name),
        )
    };
    let mut request = Request::new(());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = Uri::from(authority);
    let opening = async {
        let mut sender = agent.sender.clone().ready().await.map_err(lost)?;
        let (response, send) = sender.send_request(request, false).map_err(lost)?;
        let response = response.await.map_err(lost)?;
        if !response.status().is_success() {
            let mut error = protocol::read_failure(response.headers());
            error.message = format!("{} (agent {})", error.message, agent.name.name);
            return Err(error);
        }
        Ok((send, response.into_body()))
    };
    let (send, receive) = tokio::time::timeout(OPEN_TIMEOUT, opening)
        .await
        .unwrap_or_else(|_| {
            Err(TunnelError::new(
                Failure::Timeout,
                format!(
                    "the agent {} did not connect to {destination} within {OPEN_TIMEOUT:?}",
                    agent.name.name
                ),
            ))
        })?;
    Ok(TunnelStream {
        send,
        receive,
        ended: agent.ended.clone(),
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(agents: &[(u64, usize)], last_chosen: u64) -> Result<u64, Failure> {
        let candidates = agents.iter().map(|(number, streams)| Candidate {
            number: *number,
            streams: *streams,
            limit: 10,
        });
        choose(candidates, last_chosen)
    }

    #[test]
    fn the_agent_with_the_fewest_streams_gets_the_next() {
        assert_eq!(chosen(&[(1, 5), (2, 3), (3, 4)], 0), Ok(2));
    }

    #[test]
    fn equals_take_turns() {
        let agents = [(1, 0), (2, 0), (3, 0)];
        let mut last = 0;
        let turns: Vec<u64> = (0..6)
            .map(|_| {
                last = chosen(&agents, last).unwrap();
                last
            })
            .collect();
        assert_eq!(turns, [1, 2, 3, 1, 2, 3]);
    }

    #[test]
    fn none_and_none_free_are_told_apart() {
        assert_eq!(chosen(&[], 0), Err(Failure::NoAgent));
        assert_eq!(chosen(&[(1, 10), (2, 10)], 0), Err(Failure::Overloaded));
    }
}

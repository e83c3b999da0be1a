//! Who asked the API server for what, from its audit log.
//!
//! The server writes a line before it handles a request, without buffering. A client that has its answer therefore finds its
//! request counted: counts are exact, not approximate.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Deserialize;

/// The verbs that change something.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
/// What is created and yet not written: questions, which the API server answers and forgets. Who reads a component's numbers makes
/// it ask them, whether it has something to do or not.
const QUESTIONS: [&str; 2] = ["tokenreviews", "subjectaccessreviews"];
/// The stage before a request is handled.
const RECEIVED: &str = "RequestReceived";

/// The audit log of one server.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
}

/// A moment in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

impl AuditLog {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// This moment, for [`AuditLog::since`].
    ///
    /// # Panics
    /// If the log cannot be read.
    pub fn mark(&self) -> Mark {
        Mark(self.complete_lines().len())
    }

    /// All requests since the server started, the kit's and the server's own included.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub fn all(&self) -> Requests {
        self.since(Mark(0))
    }

    /// The requests that began after the mark.
    ///
    /// # Panics
    /// If the log cannot be read or holds what is no audit event: a count would be wrong.
    pub fn since(&self, mark: Mark) -> Requests {
        let text = self.complete_lines();
        let mut requests: BTreeMap<String, (usize, Request)> = BTreeMap::new();
        for (position, line) in text.get(mark.0..).unwrap_or_default().lines().enumerate() {
            let event: Event = serde_json::from_str(line).expect("each line is an audit event");
            let received = event.stage == RECEIVED;
            let identifier = event.audit_id.clone();
            // A request whose beginning lies before the mark is none of ours, though its end may come after.
            if received {
                requests.insert(identifier, (position, event.into()));
            } else if let Some((_, request)) = requests.get_mut(&identifier) {
                *request = event.into();
            }
        }
        let mut ordered: Vec<(usize, Request)> = requests.into_values().collect();
        ordered.sort_by_key(|(position, _)| *position);
        Requests(ordered.into_iter().map(|(_, request)| request).collect())
    }

    /// The log up to its last complete line; empty before the first request.
    fn complete_lines(&self) -> String {
        let mut bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            outcome => outcome.expect("the audit log of a running server can be read"),
        };
        // The server may be writing its next line right now.
        bytes.truncate(
            bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1),
        );
        String::from_utf8(bytes).expect("the audit log is text")
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the client calls itself.
    pub user_agent: String,
    /// Who the client is.
    pub user: String,
    /// What was asked: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// The path and query.
    pub uri: String,
    /// The plural of the kind, with the subresource if there is one: `pods`, `pods/status`; empty for other paths.
    pub resource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The name of the object, or empty.
    pub name: String,
    /// The HTTP status; none while the request is handled, as with a watch.
    pub status: Option<u16>,
}

impl Request {
    /// Whether it changes something.
    pub fn is_write(&self) -> bool {
        WRITES.contains(&self.verb.as_str()) && !QUESTIONS.contains(&self.resource.as_str())
    }

    /// Whether the server did what was asked.
    pub fn is_done(&self) -> bool {
        self.status
            .is_some_and(|status| (200..300).contains(&status))
    }
}

/// What requests are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// What the client calls itself.
    pub user_agent: String,
    /// What was asked.
    pub verb: String,
    /// Of which resource; the path where there is none.
    pub resource: String,
}

/// Requests in the order in which they came; `Display` is a table of their counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests(Vec<Request>);

impl Requests {
    /// Those of clients whose user agent begins so.
    #[must_use]
    pub fn by_user_agent(self, prefix: &str) -> Self {
        self.filter(|request| request.user_agent.starts_with(prefix))
    }

    /// Those with one of these verbs.
    #[must_use]
    pub fn with_verbs(self, verbs: &[&str]) -> Self {
        self.filter(|request| verbs.contains(&request.verb.as_str()))
    }

    /// Those for this resource, such as `configmaps` or `providerconfigs/status`.
    #[must_use]
    pub fn for_resource(self, resource: &str) -> Self {
        self.filter(|request| request.resource == resource)
    }

    /// Those for any other resource, as when leases do not count.
    #[must_use]
    pub fn except_resource(self, resource: &str) -> Self {
        self.filter(|request| request.resource != resource)
    }

    /// Those in this namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.filter(|request| request.namespace == namespace)
    }

    /// Those that change something.
    #[must_use]
    pub fn writes(self) -> Self {
        self.filter(Request::is_write)
    }

    /// Those that satisfy a predicate.
    #[must_use]
    pub fn filter(mut self, predicate: impl FnMut(&Request) -> bool) -> Self {
        self.0.retain(predicate);
        self
    }

    /// Those that satisfy a predicate, and those that do not.
    pub fn partition(self, predicate: impl FnMut(&Request) -> bool) -> (Self, Self) {
        let (yes, no) = self.0.into_iter().partition(predicate);
        (Self(yes), Self(no))
    }

    /// How many.
    pub const fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.0.iter()
    }

    /// How many of each kind.
    pub fn counts(&self) -> BTreeMap<Kind, usize> {
        let mut counts = BTreeMap::new();
        for request in &self.0 {
            *counts.entry(request.into()).or_default() += 1;
        }
        counts
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        let width = |column: fn(&Kind) -> &str| {
            counts
                .keys()
                .map(|kind| column(kind).len())
                .max()
                .unwrap_or_default()
                .max(10)
        };
        let (agents, verbs) = (width(|kind| &kind.user_agent), width(|kind| &kind.verb));
        write!(
            formatter,
            "COUNT  {:agents$}  {:verbs$}  RESOURCE",
            "USER AGENT", "VERB"
        )?;
        for (
            Kind {
                user_agent,
                verb,
                resource,
            },
            count,
        ) in &counts
        {
            write!(
                formatter,
                "\n{count:>5}  {user_agent:agents$}  {verb:verbs$}  {resource}"
            )?;
        }
        Ok(())
    }
}

impl From<&Request> for Kind {
    fn from(request: &Request) -> Self {
        let resource = if request.resource.is_empty() {
            let path = request
                .uri
                .split_once('?')
                .map_or(request.uri.as_str(), |(path, _)| path);
            path.to_owned()
        } else {
            request.resource.clone()
        };
        Self {
            user_agent: request.user_agent.clone(),
            verb: request.verb.clone(),
            resource,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    #[serde(default)]
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<ResponseStatus>,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

impl From<Event> for Request {
    fn from(event: Event) -> Self {
        let ObjectRef {
            resource,
            subresource,
            namespace,
            name,
        } = event.object_ref;
        Self {
            user_agent: event.user_agent,
            user: event.user.username,
            verb: event.verb,
            uri: event.request_uri,
            resource: if subresource.is_empty() {
                resource
            } else {
                format!("{resource}/{subresource}")
            },
            namespace,
            name,
            status: event.response_status.and_then(|status| status.code),
        }
    }
}

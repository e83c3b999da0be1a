//! One connection to an etcd: choosing a member, asking, and understanding its refusals.

use std::collections::BTreeMap;
use std::time::Duration;

use butler_proto::etcd::auth_client::AuthClient;
use butler_proto::etcd::maintenance_client::MaintenanceClient;
use butler_proto::etcd::{AuthStatusRequest, StatusRequest, StatusResponse};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use tonic::{Code, Response, Status};

use crate::connection::{Connection, Endpoint, Tls};
use crate::error::{Cause, Error};

/// How much later than a member the next one is asked: one that is down costs no more time than that.
const HEAD_START: Duration = Duration::from_millis(250);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const USER_AGENT: &str = "butler-steward";
/// How often a request is sent again because users or roles changed while it was under way.
const ATTEMPTS: usize = 16;

/// etcd's words for a request that met a change of users or roles. It did nothing; the same request is right the next time.
const OLD_REVISION: &str = "etcdserver: revision of auth store is old";
/// etcd's words for a client without a certificate.
const NO_USER: &str = "etcdserver: user name is empty";
/// etcd's words for a client whose certificate names nobody it knows. It says the same when somebody asks for a user that is
/// not there, so who we are is settled first.
const UNKNOWN_USER: &str = "etcdserver: user name not found";

/// A connection to the first member that answers and knows a leader.
pub(super) struct Session {
    channel: Channel,
    place: String,
    asks_who_we_are: bool,
}

impl Session {
    pub(super) async fn open(connection: &Connection) -> Result<Self, Error> {
        let mut failures = BTreeMap::new();
        let members = connection.endpoints.iter().zip(0_u32..);
        let mut answers: FuturesUnordered<_> = members
            .map(|(endpoint, place)| async move {
                tokio::time::sleep(HEAD_START * place).await;
                let answer = open_member(connection, endpoint).await;
                (place, endpoint, answer)
            })
            .collect();
        while let Some((place, endpoint, answer)) = answers.next().await {
            match answer {
                Ok((channel, asks_who_we_are)) => {
                    return Ok(Self {
                        channel,
                        place: connection.place(),
                        asks_who_we_are,
                    });
                }
                Err(Refused::Login(status)) => {
                    return Err(Error::LoginRefused {
                        place: connection.place(),
                        source: status.into(),
                    });
                }
                Err(Refused::Rights) => return Err(not_allowed()),
                Err(Refused::Member(problem)) => {
                    failures.insert(place, format!("{endpoint}: {problem}"));
                }
            }
        }
        let failures: Vec<String> = failures.into_values().collect();
        Err(Error::Unreachable {
            place: connection.place(),
            source: failures.join("; ").into(),
        })
    }

    /// Sends a request, again if users or roles changed meanwhile. The action is for the words of a failure.
    pub(super) async fn ask<T, Call, Answer>(&self, action: &str, call: Call) -> Result<T, Error>
    where
        Call: Fn(Channel) -> Answer,
        Answer: Future<Output = Result<Response<T>, Status>>,
    {
        self.try_ask(call)
            .await
            .map_err(|status| self.failure(action, status))
    }

    /// As [`Session::ask`], with etcd's own refusal.
    pub(super) async fn try_ask<T, Call, Answer>(&self, call: Call) -> Result<T, Status>
    where
        Call: Fn(Channel) -> Answer,
        Answer: Future<Output = Result<Response<T>, Status>>,
    {
        let mut attempt = 1;
        loop {
            match call(self.channel.clone()).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) if status.message() == OLD_REVISION && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(status) => return Err(status),
            }
        }
    }

    /// What the member says of itself.
    pub(super) async fn status(&self) -> Result<StatusResponse, Error> {
        self.ask("read the health of a member", |channel| async {
            MaintenanceClient::new(channel)
                .status(StatusRequest {})
                .await
        })
        .await
    }

    pub(super) fn failure(&self, action: &str, status: Status) -> Error {
        match status.code() {
            Code::PermissionDenied => not_allowed(),
            Code::Unauthenticated => Error::LoginRefused {
                place: self.place.clone(),
                source: status.into(),
            },
            Code::Unavailable | Code::DeadlineExceeded => Error::Unreachable {
                place: self.place.clone(),
                source: in_words(&status),
            },
            _ => Error::Request {
                action: action.to_owned(),
                source: in_words(&status),
            },
        }
    }

    pub(super) fn place(&self) -> String {
        self.place.clone()
    }

    /// Whether authentication is on.
    pub(super) const fn asks_who_we_are(&self) -> bool {
        self.asks_who_we_are
    }
}

fn not_allowed() -> Error {
    Error::NotAllowed {
        what: "manage users, roles and keys",
        advice: "give tlsConfig.clientCertificate a common name whose etcd user has the role root",
    }
}

/// What is wrong, without the metadata of the protocol.
fn in_words(status: &Status) -> Cause {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.into()
}

enum Refused {
    Login(Status),
    Rights,
    Member(String),
}

/// A connection to the member, and whether it asks who we are.
async fn open_member(
    connection: &Connection,
    endpoint: &Endpoint,
) -> Result<(Channel, bool), Refused> {
    let member = |error: &dyn std::error::Error| {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Refused::Member(text)
    };
    let scheme = if connection.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let mut transport = Channel::from_shared(format!("{scheme}://{endpoint}"))
        .map_err(|error| member(&error))?
        .connect_timeout(CONNECT_WITHIN)
        .timeout(ANSWER_WITHIN)
        .user_agent(USER_AGENT)
        .map_err(|error| member(&error))?;
    if let Some(tls) = &connection.tls {
        transport = transport
            .tls_config(tls_config(tls, endpoint))
            .map_err(|error| member(&error))?;
    }
    let channel = transport.connect().await.map_err(|error| member(&error))?;
    let refused = |status: Status| match status.code() {
        Code::PermissionDenied => Refused::Rights,
        Code::Unauthenticated => Refused::Login(status),
        _ if [NO_USER, UNKNOWN_USER].contains(&status.message()) => Refused::Login(status),
        _ => member(&status),
    };
    let status = MaintenanceClient::new(channel.clone())
        .status(StatusRequest {})
        .await
        .map_err(refused)?;
    // A member that is cut off from the others still answers connections.
    if status.get_ref().leader == 0 {
        return Err(Refused::Member("the member knows of no leader".to_owned()));
    }
    let authentication = AuthClient::new(channel.clone())
        .auth_status(AuthStatusRequest {})
        .await
        .map_err(refused)?;
    Ok((channel, authentication.get_ref().enabled))
}

fn tls_config(tls: &Tls, endpoint: &Endpoint) -> ClientTlsConfig {
    let config = ClientTlsConfig::new()
        .domain_name(endpoint.host.clone())
        .ca_certificate(Certificate::from_pem(&tls.authority_pem));
    match &tls.client {
        None => config,
        Some(client) => config.identity(Identity::from_pem(
            &client.certificate_pem,
            client.key_pem.expose(),
        )),
    }
}

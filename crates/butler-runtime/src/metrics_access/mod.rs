//! Who may read `/metrics`: whoever shows a bearer token that the API server knows, of somebody who may `get` the path `/metrics`.
//!
//! Owns: the questions (a `TokenReview`, then a `SubjectAccessReview`), and the answers for a short while. Must not: decide by
//! itself who may, or let a token reach a log or an error.
//!
//! Peers on loopback show a token like everybody else. Proxies of service meshes hand on from there what comes from anywhere.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use butler_api::keys::names::METRICS_READER;
use http::{HeaderMap, StatusCode, header};
use kube::Client;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use self::{
    memory::{Memory, TokenHash},
    review::{Unanswered, review},
};

mod memory;
mod review;

/// Where the numbers are, and what readers must be allowed to `get`.
pub(crate) const PATH: &str = "/metrics";
/// How long the API server may take. Prometheus waits as long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Tokens the API server is asked about at the same time: strangers who invent tokens must not become its load.
const ASKED_AT_ONCE: usize = 4;

/// What is known of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Its owner may read.
    Allowed,
    /// It is nobody's.
    Unknown,
    /// It is somebody's who may not.
    Forbidden,
}

/// Asks the API server who may read. A clone remembers the same answers.
#[derive(Clone)]
pub struct MetricsAccess {
    client: Client,
    memory: Arc<Mutex<Memory>>,
    questions: Arc<Semaphore>,
}

impl MetricsAccess {
    /// Asks through this client, whose account must be allowed to create both reviews.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            memory: Arc::default(),
            questions: Arc::new(Semaphore::new(ASKED_AT_ONCE)),
        }
    }

    /// The same routes, for those who may.
    pub fn guard(self, router: Router) -> Router {
        router.route_layer(middleware::from_fn_with_state(self, admit))
    }

    async fn verdict(&self, token: &str) -> Result<Verdict, Unanswered> {
        let hash = TokenHash::of(token);
        if let Some(known) = self.recall(&hash) {
            return Ok(known);
        }
        let asked = async {
            let _turn = self.questions.acquire().await;
            // Who waited for a turn may have waited for this very answer.
            if let Some(known) = self.recall(&hash) {
                return Ok(known);
            }
            let verdict = review(&self.client, token).await?;
            self.remember(hash, verdict);
            Ok(verdict)
        };
        let answered = timeout(PATIENCE, asked).await;
        answered.unwrap_or(Err(Unanswered::Late(PATIENCE)))
    }

    fn recall(&self, token: &TokenHash) -> Option<Verdict> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.recall(token, Instant::now())
    }

    fn remember(&self, token: TokenHash, verdict: Verdict) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.keep(token, verdict, Instant::now());
    }
}

async fn admit(State(access): State<MetricsAccess>, request: Request, next: Next) -> Response {
    let Some(token) = bearer(request.headers()) else {
        return unauthorized("show a bearer token of somebody who may get /metrics\n");
    };
    match access.verdict(token).await {
        Ok(Verdict::Allowed) => next.run(request).await,
        Ok(Verdict::Unknown) => unauthorized(
            "the API server does not know this token; is it expired, or for another audience?\n",
        ),
        Ok(Verdict::Forbidden) => {
            let words = format!(
                "the owner of this token may not get {PATH}; bind the ClusterRole {METRICS_READER} to it\n"
            );
            (StatusCode::FORBIDDEN, words).into_response()
        }
        Err(error) => {
            tracing::warn!(%error, "nobody can read /metrics now: cannot ask the API server who may (is creating tokenreviews and subjectaccessreviews allowed?)");
            let words = "the API server cannot be asked who may get /metrics; the log says why\n";
            (StatusCode::SERVICE_UNAVAILABLE, words).into_response()
        }
    }
}

fn unauthorized(words: &'static str) -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, words).into_response()
}

/// The token of a request, if it shows one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_a_bearer_token_is_a_token() {
        let shown = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(shown("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(shown("bearer  abc ").as_deref(), Some("abc"));
        for other in ["", "abc", "Bearer", "Bearer  ", "Basic YTpi"] {
            assert_eq!(shown(other), None, "{other}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}

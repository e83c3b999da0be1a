//! Owns the admission server: validating and defaulting webhooks over TLS, with certificates that
//! we issue and renew ourselves and a registration that follows them.
//!
//! Reviewers are plain values ([`Validate`], [`ValidateWithReads`], [`Defaulting`]); they know
//! neither HTTP nor certificates. Every replica serves, leader or not.

mod certificates;
mod keeper;
mod registration;
mod review;
mod server;

use std::fmt::Debug;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use jiff::Timestamp;
use kube::api::Api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use certificates::{CertificatePlan, SecretFacts, ServerNames, plan_certificates};
pub use keeper::Serving;
pub use registration::Reach;
pub use review::{
    Defaulting, Denial, Operation, Review, Unanswered, Validate, ValidateWithReads, Verdict,
    Warning,
};

use self::keeper::Keeper;
use self::review::Answer;
use self::server::CurrentCertificate;
use crate::client::Component;
use crate::serve::{Listener, ReadyChecks};

/// An object may have 1.5 MiB in etcd; a review holds it twice, in the wider JSON.
const LONGEST_BODY: usize = 16 * 1024 * 1024;

/// Admission does not work.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The API server cannot call such an address.
    #[error("{url:?} is no address for webhooks; write https://host:port")]
    Url {
        /// The address.
        url: String,
    },
    /// The Secret with the certificates cannot be read or written.
    #[error("cannot {doing} Secret {name} with the webhook certificates")]
    Secret {
        /// What was being done.
        doing: &'static str,
        /// The Secret.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// Certificates cannot be issued.
    #[error("cannot issue the webhook certificates")]
    Certificates(#[source] butler_pki::Error),
    /// The webhooks cannot be registered.
    #[error("cannot register the webhooks in {kind} {name}")]
    Register {
        /// The kind of configuration.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS for the admission server")]
    Tls(#[source] rustls::Error),
}

/// When a webhook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the schema is checked, to fill in defaults.
    Mutating,
    /// At the end, to allow or refuse.
    Validating,
}

/// A webhook as it is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    stage: Stage,
    name: String,
    path: String,
    group: String,
    version: String,
    plural: String,
    operations: &'static [Operation],
    unanswered: Unanswered,
}

impl Webhook {
    fn new<K: kube::Resource<DynamicType = ()>>(
        stage: Stage,
        operations: &'static [Operation],
        unanswered: Unanswered,
    ) -> Self {
        let (group, version) = (K::group(&()).into_owned(), K::version(&()).into_owned());
        let kind = K::kind(&()).to_ascii_lowercase();
        let (verb, letter) = match stage {
            Stage::Mutating => ("mutate", 'm'),
            Stage::Validating => ("validate", 'v'),
        };
        Self {
            stage,
            name: format!("{letter}{kind}.kb.io"),
            path: format!("/{verb}-{}-{version}-{kind}", group.replace('.', "-")),
            plural: K::plural(&()).into_owned(),
            group,
            version,
            operations,
            unanswered,
        }
    }

    /// The path that the API server calls.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// The webhooks of a component: what answers, and what is registered, in one list.
#[derive(Clone, Debug, Default)]
pub struct Webhooks {
    hooks: Vec<Webhook>,
    router: Router,
}

/// Makes a [`Validate`] usable where reads are allowed.
struct WithoutReads<V>(V);

impl<K: Sync, V: Validate<K>> ValidateWithReads<K> for WithoutReads<V> {
    const OPERATIONS: &'static [Operation] = V::OPERATIONS;
    const UNANSWERED: Unanswered = V::UNANSWERED;

    async fn validate(&self, review: &Review<'_, K>) -> Verdict {
        self.0.validate(review)
    }
}

impl Webhooks {
    /// No webhook yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reviews objects of a kind by the request alone.
    #[must_use]
    pub fn validating<K, V>(self, reviewer: V) -> Self
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
        V: Validate<K>,
    {
        self.validating_with_reads::<K, _>(WithoutReads(reviewer))
    }

    /// Reviews objects of a kind with what caches hold.
    #[must_use]
    pub fn validating_with_reads<K, V>(self, reviewer: V) -> Self
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
        V: ValidateWithReads<K>,
    {
        let reviewer = Arc::new(reviewer);
        self.with(
            Webhook::new::<K>(Stage::Validating, V::OPERATIONS, V::UNANSWERED),
            move |body: Bytes| {
                let reviewer = Arc::clone(&reviewer);
                async move { review::validate::<K, V>(&reviewer, &body, Timestamp::now()).await }
            },
        )
    }

    /// Fills in defaults of objects of a kind, when they are created and changed.
    #[must_use]
    pub fn defaulting<K, D>(self, defaulting: D) -> Self
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + Serialize + 'static,
        D: Defaulting<K>,
    {
        let defaulting = Arc::new(defaulting);
        let operations = &[Operation::Create, Operation::Update];
        self.with(
            Webhook::new::<K>(Stage::Mutating, operations, Unanswered::Refused),
            move |body: Bytes| std::future::ready(review::default::<K, D>(&defaulting, &body)),
        )
    }

    fn with<H, F>(mut self, hook: Webhook, handler: H) -> Self
    where
        H: Fn(Bytes) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send,
    {
        let answer = move |body: Bytes| {
            let decided = handler(body);
            async move { respond(decided.await) }
        };
        self.router = self.router.route(&hook.path, post(answer));
        self.hooks.push(hook);
        self
    }
}

fn respond(answer: Answer) -> Response {
    match answer {
        Answer::Decided(review) => Json(review).into_response(),
        Answer::Malformed(why) => {
            tracing::warn!(why, "refused a malformed admission review");
            (StatusCode::BAD_REQUEST, why).into_response()
        }
        Answer::Panicked => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Where admission runs and how it is reached.
#[derive(Clone, Debug)]
pub struct AdmissionSettings {
    /// Whose webhooks these are; names the Secret, the configurations and the field manager.
    pub component: Component,
    /// The namespace of the Secret.
    pub namespace: String,
    /// How the API server reaches us.
    pub reach: Reach,
}

/// The admission server of a component.
pub struct Admission {
    keeper: Keeper,
    router: Router,
}

impl Admission {
    /// An admission server that is not running yet.
    pub fn new(
        client: kube::Client,
        settings: AdmissionSettings,
        webhooks: Webhooks,
    ) -> Result<Self, AdmissionError> {
        let AdmissionSettings {
            component,
            namespace,
            reach,
        } = settings;
        let names = reach.names()?;
        let keeper = Keeper {
            secrets: Api::namespaced(client.clone(), &namespace),
            secret_name: format!("{}-webhook-certificate", component.name()),
            component: component.name().to_owned(),
            client,
            reach,
            names,
            hooks: webhooks.hooks,
            certificate: Arc::new(CurrentCertificate::default()),
            serving: watch::Sender::new(None),
        };
        Ok(Self {
            keeper,
            router: webhooks.router.layer(DefaultBodyLimit::max(LONGEST_BODY)),
        })
    }

    /// What is shown to the API server; `None` until certificates and registration are in order.
    pub fn serving(&self) -> watch::Receiver<Option<Serving>> {
        self.keeper.serving.subscribe()
    }

    /// Makes the process ready only when the webhooks can be called.
    pub fn add_ready_check(&self, checks: &ReadyChecks) {
        let serving = self.serving();
        checks.register("admission", move || match *serving.borrow() {
            Some(_) => Ok(()),
            None => Err("certificates or registration are not in order yet".to_owned()),
        });
    }

    /// Serves until `shutdown`.
    pub async fn run(
        self,
        listener: Listener,
        shutdown: CancellationToken,
    ) -> Result<(), AdmissionError> {
        let Self { keeper, router } = self;
        let certificate = Arc::clone(&keeper.certificate);
        let serving = server::serve(listener, router, certificate, shutdown.clone());
        let (served, ()) = tokio::join!(serving, keeper.run(shutdown));
        served
    }
}

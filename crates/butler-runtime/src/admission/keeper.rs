//! Keeps the certificates of the admission server and its registration: reads the Secret, carries
//! out the plan for it, shows the leaf, registers the bundle. Every replica runs it; the resource
//! version of the Secret decides who writes.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::certificates::{CertificatePlan, Material, ServerNames, plan_certificates};
use super::registration::{Desired, Reach};
use super::server::CurrentCertificate;
use super::{AdmissionError, Webhook};

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// A machine may sleep, or its clock be corrected: look again twice a day at the latest.
const LONGEST_WAIT: Duration = Duration::from_hours(12);
/// What a change brings often comes in threes; one look serves them all.
const CHANGES_AT_ONCE: usize = 16;

/// What is shown to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The SHA-256 fingerprint of the leaf.
    pub leaf: String,
}

pub(super) struct Keeper {
    pub(super) client: kube::Client,
    pub(super) secrets: Api<Secret>,
    pub(super) secret_name: String,
    /// The name of the configurations and the field manager.
    pub(super) component: String,
    pub(super) reach: Reach,
    pub(super) names: ServerNames,
    pub(super) hooks: Vec<Webhook>,
    pub(super) certificate: Arc<CurrentCertificate>,
    pub(super) serving: watch::Sender<Option<Serving>>,
}

impl Keeper {
    /// Keeps everything right until `shutdown`.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        let changes = self.changes().ready_chunks(CHANGES_AT_ONCE);
        let mut changes = std::pin::pin!(changes);
        let mut retry = FIRST_RETRY;
        loop {
            let wait = match self.settle().await {
                Ok(until) => {
                    retry = FIRST_RETRY;
                    until
                        .duration_since(Timestamp::now())
                        .unsigned_abs()
                        .min(LONGEST_WAIT)
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%error, cause, "admission is not in order; trying again");
                    let wait = retry;
                    retry = retry.saturating_mul(2).min(LONGEST_RETRY);
                    wait
                }
            };
            tokio::select! {
                _ = changes.next() => {}
                () = tokio::time::sleep(wait) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Something happens whenever the Secret or a configuration changes. A watch that fails says
    /// so in the log and is tried again.
    fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let name = self.component.as_str();
        let secret: Api<PartialObjectMeta<Secret>> = Api::namespaced(
            self.client.clone(),
            self.secrets.namespace().unwrap_or_default(),
        );
        let secret = watch_object(secret, &self.secret_name)
            .map(drop_object)
            .boxed();
        let validating: Api<PartialObjectMeta<ValidatingWebhookConfiguration>> =
            Api::all(self.client.clone());
        let validating = watch_object(validating, name).map(drop_object).boxed();
        let mutating: Api<PartialObjectMeta<MutatingWebhookConfiguration>> =
            Api::all(self.client.clone());
        let mutating = watch_object(mutating, name).map(drop_object).boxed();
        let changes = [secret, validating, mutating].map(|changes| {
            changes
                .default_backoff()
                .filter_map(|change| async move {
                    match change {
                        Ok(()) => Some(()),
                        Err(error) => {
                            tracing::warn!(%error, "cannot watch what admission depends on");
                            None
                        }
                    }
                })
                .boxed()
        });
        futures::stream::select_all(changes)
    }

    /// Brings everything in order and says when the next renewal is due.
    ///
    /// The bundle is registered before a leaf is issued, so that a leaf of a new authority is
    /// shown only when the API server trusts that authority.
    async fn settle(&self) -> Result<Timestamp, AdmissionError> {
        loop {
            let secret = self.read().await?;
            let data = secret.as_ref().and_then(|secret| secret.data.as_ref());
            let material = data.and_then(Material::from_data);
            let facts = material.as_ref().and_then(Material::facts);
            let now = Timestamp::now();
            let plan = plan_certificates(facts.as_ref(), &self.names, now);
            let new = match (plan, &material) {
                (CertificatePlan::CreateAll, _) | (_, None) => {
                    Material::create(&self.secret_name, &self.names, now)
                }
                (plan, Some(material)) => {
                    let leaf = facts
                        .and_then(|facts| facts.leaf)
                        .map(|leaf| leaf.fingerprint);
                    self.show(material, leaf).await?;
                    match plan {
                        CertificatePlan::Keep { until } => return Ok(until),
                        CertificatePlan::RotateAuthority => {
                            material.with_new_authority(&self.secret_name, now)
                        }
                        CertificatePlan::IssueLeaf | CertificatePlan::CreateAll => {
                            material.with_new_leaf(&self.names, now)
                        }
                    }
                }
            };
            let new = new.map_err(AdmissionError::Certificates)?;
            tracing::info!(secret = %self.secret_name, ?plan, "writing the webhook certificates");
            self.write(secret, new).await?;
        }
    }

    /// Shows the leaf and registers the bundle.
    async fn show(&self, material: &Material, leaf: Option<String>) -> Result<(), AdmissionError> {
        let key = material.certified_key().filter(|_| leaf.is_some());
        if let Some(key) = key {
            self.certificate.set(key);
        }
        let desired = Desired::new(&self.component, &self.hooks, &self.reach, &material.bundle);
        desired
            .register(&self.client, &self.component, &self.component)
            .await?;
        if let Some(leaf) = leaf {
            let serving = Some(Serving { leaf });
            self.serving.send_if_modified(|shown| {
                let changed = *shown != serving;
                *shown = serving;
                changed
            });
        }
        Ok(())
    }

    async fn read(&self) -> Result<Option<Secret>, AdmissionError> {
        self.secrets
            .get_opt(&self.secret_name)
            .await
            .map_err(|source| AdmissionError::Secret {
                doing: "read",
                name: self.secret_name.clone(),
                source: Box::new(source),
            })
    }

    /// Writes over exactly the Secret that was read. When another replica was quicker, its Secret
    /// is as good as ours: the caller reads again.
    async fn write(
        &self,
        previous: Option<Secret>,
        material: Material,
    ) -> Result<(), AdmissionError> {
        let data = Some(material.into_data());
        let parameters = PostParams {
            field_manager: Some(self.component.clone()),
            ..PostParams::default()
        };
        let written = if let Some(previous) = previous {
            let secret = Secret { data, ..previous };
            let replaced = self
                .secrets
                .replace(&self.secret_name, &parameters, &secret);
            replaced.await
        } else {
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(self.secret_name.clone()),
                    ..ObjectMeta::default()
                },
                type_: Some("kubernetes.io/tls".to_owned()),
                data,
                ..Secret::default()
            };
            self.secrets.create(&parameters, &secret).await
        };
        match written {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status))
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
            {
                Ok(())
            }
            Err(source) => Err(AdmissionError::Secret {
                doing: "write",
                name: self.secret_name.clone(),
                source: Box::new(source),
            }),
        }
    }
}

fn drop_object<K>(
    change: kube::runtime::watcher::Result<Option<K>>,
) -> kube::runtime::watcher::Result<()> {
    change.map(|_| ())
}

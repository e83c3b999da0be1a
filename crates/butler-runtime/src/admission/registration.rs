//! Tells the API server which webhooks there are and whom to trust: one
//! `ValidatingWebhookConfiguration` and one `MutatingWebhookConfiguration`, written by server-side
//! apply, and only when they differ from what is there.

use std::fmt::Debug;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::certificates::ServerNames;
use super::{AdmissionError, Stage, Unanswered, Webhook};

/// The API server waits this long for an answer before it takes the call as failed.
const TIMEOUT_SECONDS: i32 = 10;
/// The same, where a request that nobody answers is allowed.
const SHORT_TIMEOUT_SECONDS: i32 = 2;

/// How the API server reaches the admission server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By a Service in the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// By an address outside of the cluster, such as `https://127.0.0.1:9443`. Only for a single
    /// replica: two would register their addresses over each other.
    Url(String),
}

impl Reach {
    /// Under which names the API server calls us.
    pub(super) fn names(&self) -> Result<ServerNames, AdmissionError> {
        match self {
            Self::Service {
                namespace, name, ..
            } => Ok(ServerNames {
                dns_names: vec![
                    format!("{name}.{namespace}.svc"),
                    format!("{name}.{namespace}.svc.cluster.local"),
                ],
                ip_addresses: Vec::new(),
            }),
            Self::Url(url) => {
                let uri = url.parse::<http::Uri>().ok();
                let uri = uri.filter(|uri| uri.scheme() == Some(&http::uri::Scheme::HTTPS));
                let host = uri.as_ref().and_then(http::Uri::host);
                let Some(host) = host else {
                    return Err(AdmissionError::Url { url: url.clone() });
                };
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let address = host.parse().ok();
                let dns_name = address.is_none().then(|| host.to_owned());
                Ok(ServerNames {
                    dns_names: dns_name.into_iter().collect(),
                    ip_addresses: address.into_iter().collect(),
                })
            }
        }
    }

    fn client_config(&self, path: &str, bundle: &str) -> WebhookClientConfig {
        let ca_bundle = Some(ByteString(bundle.as_bytes().to_vec()));
        match self {
            Self::Service {
                namespace,
                name,
                port,
            } => WebhookClientConfig {
                ca_bundle,
                service: Some(ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    path: Some(path.to_owned()),
                    port: Some(i32::from(*port)),
                }),
                url: None,
            },
            Self::Url(url) => WebhookClientConfig {
                ca_bundle,
                service: None,
                url: Some(format!("{}{path}", url.trim_end_matches('/'))),
            },
        }
    }
}

/// The configurations as they should be. Every field that the API server would default is spelled
/// out, so that what is there can be compared as a whole.
pub(super) struct Desired {
    validating: Option<ValidatingWebhookConfiguration>,
    mutating: Option<MutatingWebhookConfiguration>,
}

impl Desired {
    pub(super) fn new(name: &str, hooks: &[Webhook], reach: &Reach, bundle: &str) -> Self {
        let of = |stage| hooks.iter().filter(move |hook| hook.stage == stage);
        let validating: Vec<_> = of(Stage::Validating)
            .map(|hook| ValidatingWebhook {
                admission_review_versions: vec!["v1".to_owned()],
                client_config: reach.client_config(&hook.path, bundle),
                failure_policy: Some(failure_policy(hook).to_owned()),
                match_conditions: None,
                match_policy: Some("Equivalent".to_owned()),
                name: hook.name.clone(),
                namespace_selector: Some(LabelSelector::default()),
                object_selector: Some(LabelSelector::default()),
                rules: Some(vec![rule(hook)]),
                side_effects: "None".to_owned(),
                timeout_seconds: Some(timeout_seconds(hook)),
            })
            .collect();
        let mutating: Vec<_> = of(Stage::Mutating)
            .map(|hook| MutatingWebhook {
                admission_review_versions: vec!["v1".to_owned()],
                client_config: reach.client_config(&hook.path, bundle),
                failure_policy: Some(failure_policy(hook).to_owned()),
                match_conditions: None,
                match_policy: Some("Equivalent".to_owned()),
                name: hook.name.clone(),
                namespace_selector: Some(LabelSelector::default()),
                object_selector: Some(LabelSelector::default()),
                reinvocation_policy: Some("Never".to_owned()),
                rules: Some(vec![rule(hook)]),
                side_effects: "None".to_owned(),
                timeout_seconds: Some(timeout_seconds(hook)),
            })
            .collect();
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        Self {
            validating: (!validating.is_empty()).then(|| ValidatingWebhookConfiguration {
                metadata: metadata.clone(),
                webhooks: Some(validating),
            }),
            mutating: (!mutating.is_empty()).then_some(MutatingWebhookConfiguration {
                metadata,
                webhooks: Some(mutating),
            }),
        }
    }

    /// Writes what differs from what is there.
    pub(super) async fn register(
        &self,
        client: &kube::Client,
        name: &str,
        manager: &str,
    ) -> Result<(), AdmissionError> {
        register(
            client,
            name,
            manager,
            self.validating.as_ref(),
            |live, desired| live.webhooks == desired.webhooks,
        )
        .await?;
        register(
            client,
            name,
            manager,
            self.mutating.as_ref(),
            |live, desired| live.webhooks == desired.webhooks,
        )
        .await
    }
}

async fn register<C>(
    client: &kube::Client,
    name: &str,
    manager: &str,
    desired: Option<&C>,
    same: impl Fn(&C, &C) -> bool,
) -> Result<(), AdmissionError>
where
    C: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let Some(desired) = desired else {
        return Ok(());
    };
    let failed = |source| AdmissionError::Register {
        kind: C::kind(&()).into_owned(),
        name: name.to_owned(),
        source: Box::new(source),
    };
    let api = Api::<C>::all_with(client.clone(), &());
    let live = api.get_opt(name).await.map_err(failed)?;
    if live.is_some_and(|live| same(&live, desired)) {
        return Ok(());
    }
    let parameters = PatchParams::apply(manager).force();
    api.patch(name, &parameters, &Patch::Apply(desired))
        .await
        .map_err(failed)?;
    tracing::info!(kind = %C::kind(&()), name, "registered the webhooks");
    Ok(())
}

const fn failure_policy(hook: &Webhook) -> &'static str {
    match hook.unanswered {
        Unanswered::Refused => "Fail",
        Unanswered::Allowed => "Ignore",
    }
}

const fn timeout_seconds(hook: &Webhook) -> i32 {
    match hook.unanswered {
        Unanswered::Refused => TIMEOUT_SECONDS,
        Unanswered::Allowed => SHORT_TIMEOUT_SECONDS,
    }
}

fn rule(hook: &Webhook) -> RuleWithOperations {
    let operations = hook
        .operations
        .iter()
        .map(|operation| operation.as_str().to_owned());
    RuleWithOperations {
        api_groups: Some(vec![hook.group.clone()]),
        api_versions: Some(vec![hook.version.clone()]),
        operations: Some(operations.collect()),
        resources: Some(vec![hook.plural.clone()]),
        scope: Some("*".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;
    use crate::admission::Operation;

    #[test]
    fn what_is_not_ours_does_not_wait_for_us() {
        let registered = |unanswered| {
            let hook = Webhook::new::<Secret>(Stage::Validating, &[Operation::Delete], unanswered);
            let reach = Reach::Url("https://127.0.0.1:9443".to_owned());
            let desired = Desired::new("steward", &[hook], &reach, "");
            let mut hooks = desired
                .validating
                .and_then(|found| found.webhooks)
                .expect("one");
            let hook = hooks.remove(0);
            (hook.failure_policy.expect("set"), hook.timeout_seconds)
        };
        assert_eq!(
            registered(Unanswered::Refused),
            ("Fail".to_owned(), Some(10))
        );
        assert_eq!(
            registered(Unanswered::Allowed),
            ("Ignore".to_owned(), Some(2))
        );
    }

    #[test]
    fn a_service_is_called_by_its_cluster_names() {
        let reach = Reach::Service {
            namespace: "butler-system".to_owned(),
            name: "butler-webhook".to_owned(),
            port: 443,
        };
        let names = reach.names().expect("valid");
        assert_eq!(names.dns_names[0], "butler-webhook.butler-system.svc");
        assert!(names.ip_addresses.is_empty());
    }

    #[test]
    fn an_address_is_called_by_its_host() {
        let names = |url: &str| Reach::Url(url.to_owned()).names();
        let address = names("https://127.0.0.1:9443").expect("valid");
        assert_eq!(
            address.ip_addresses,
            ["127.0.0.1".parse::<std::net::IpAddr>().expect("valid")]
        );
        let six = names("https://[::1]:9443").expect("valid");
        assert_eq!(
            six.ip_addresses,
            ["::1".parse::<std::net::IpAddr>().expect("valid")]
        );
        assert_eq!(
            names("https://host.example").expect("valid").dns_names,
            ["host.example"]
        );
        let error = names("http://host.example").expect_err("the API server calls by TLS only");
        assert_eq!(
            error.to_string(),
            "\"http://host.example\" is no address for webhooks; write https://host:port"
        );
    }
}

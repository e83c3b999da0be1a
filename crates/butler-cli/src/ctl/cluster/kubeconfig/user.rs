//! A certificate for a user, signed by the cluster itself, that soon ends.
//!
//! Works alike for every kind of control plane: the request is an object in the cluster, approved with the administrator's
//! rights. The private key never leaves this process but in the kubeconfig.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_pki::CertificateRequest;
use butler_runtime::remote;
use futures::StreamExt as _;
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt as _, watcher::watch_object},
};
use serde_json::{Value, json};

use super::file::Credentials;
use crate::ctl::{error::Error, platform::component};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// How long a controller manager may take to sign.
const PATIENCE: Duration = Duration::from_secs(30);

/// For whom, and for how long.
pub(super) struct Wish<'a> {
    pub(super) user: &'a str,
    pub(super) groups: &'a [String],
    pub(super) lifetime: Duration,
}

/// The object that asks for a certificate.
fn request(wish: &Wish<'_>, pem: &str) -> CertificateSigningRequest {
    let mut request = CertificateSigningRequest::default();
    request.metadata.generate_name = Some("butlerctl-".to_owned());
    request.spec.request = ByteString(pem.as_bytes().to_vec());
    SIGNER.clone_into(&mut request.spec.signer_name);
    request.spec.usages = Some(
        ["digital signature", "client auth"]
            .map(str::to_owned)
            .into(),
    );
    request.spec.expiration_seconds = i32::try_from(wish.lifetime.as_secs()).ok();
    request
}

/// Has the cluster sign a certificate for somebody.
pub(super) async fn credentials(
    administrator: &Value,
    wish: &Wish<'_>,
) -> anyhow::Result<Credentials> {
    let kubeconfig = serde_json::to_vec(administrator)?;
    let client = remote::connect(kubeconfig.into(), &component()?).await?;
    let requests = Api::<CertificateSigningRequest>::all(client);
    let CertificateRequest { pem, key_pem } = CertificateRequest::for_user(wish.user, wish.groups)?;
    let doing = format!("ask for a certificate for {}", wish.user);
    let made = requests
        .create(&PostParams::default(), &request(wish, &pem))
        .await;
    let name = made.map_err(Error::api(doing))?.name_any();
    let signed = signed(&requests, &name, wish.user).await;
    // Kubernetes would do it within the hour; whether we can is of no consequence.
    drop(requests.delete(&name, &DeleteParams::default()).await);
    let certificate = signed?;
    let fields = BTreeMap::from([
        ("client-certificate-data", STANDARD.encode(certificate.0)),
        ("client-key-data", STANDARD.encode(key_pem.expose())),
    ]);
    let fields = fields.into_iter();
    Ok(fields
        .map(|(key, value)| (key.to_owned(), Value::String(value)))
        .collect())
}

/// Approves a request, and waits for the certificate.
async fn signed(
    requests: &Api<CertificateSigningRequest>,
    name: &str,
    user: &str,
) -> anyhow::Result<ByteString> {
    let approval = json!({ "status": { "conditions": [{
        "type": "Approved",
        "status": "True",
        "reason": "ApprovedByAdministrator",
        "message": "asked for with \"butlerctl cluster kubeconfig\"",
    }] } });
    let approved = requests
        .patch_approval(name, &PatchParams::default(), &Patch::Merge(approval))
        .await;
    approved.map_err(Error::api(format!("approve the certificate for {user}")))?;
    let mut seen = pin!(watch_object(requests.clone(), name).default_backoff());
    let waiting = async {
        while let Some(event) = seen.next().await {
            // What fails is tried again by the watch.
            let Ok(Some(request)) = event else { continue };
            let status = request.status.unwrap_or_default();
            if let Some(certificate) = status.certificate {
                return Ok(certificate);
            }
            let conditions = status.conditions.unwrap_or_default();
            let refused = conditions
                .into_iter()
                .find(|found| found.type_ != "Approved");
            if let Some(refused) = refused {
                let why = refused.message.unwrap_or(refused.type_);
                anyhow::bail!("the cluster did not sign a certificate for {user}: {why}");
            }
        }
        anyhow::bail!("the request for a certificate for {user} is gone")
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.with_context(|| {
        format!("nobody signed the certificate for {user}; does the controller manager of the cluster run?")
    })?
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_request_says_how_long_and_what_for() {
        let wish = Wish {
            user: "jane",
            groups: &["developers".to_owned()],
            lifetime: Duration::from_hours(1),
        };
        let spec = request(&wish, "pem").spec;
        assert_eq!(spec.expiration_seconds, Some(3600));
        assert_eq!(spec.signer_name, "kubernetes.io/kube-apiserver-client");
        assert!(spec.usages.unwrap().contains(&"client auth".to_owned()));
    }
}
